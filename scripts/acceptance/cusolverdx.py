"""cuSolverDx kernels as a peer, from a folder of compiled kernels.

cuSolverDx is a library of device code: someone has to write and compile a kernel
around its `heev`. For each size and dtype to be timed the folder holds two files,

    heev_<dtype>_<n>_<vectors or values>.cubin     for instance heev_float32_16_vectors
    heev_<dtype>_<n>_<vectors or values>.json

The JSON says how to launch it: ``{"kernel": name, "threads": of a block, an integer or
a list of up to three, "matrices": of a block, "shared": bytes of dynamic shared
memory}``. The kernel is ``extern "C"`` and takes

    (const T* a, T* v, real* w, int* info, long long batch)

with C-contiguous device arrays: it reads matrices ``(batch, n, n)`` from `a`, writes
ascending eigenvalues ``(batch, n)`` to `w`, eigenvectors to `v` in any order (`v` is
null for values alone) and a status for each matrix to `info`.
"""

import json
from pathlib import Path

import cupy
import numpy as np

from ._device import get, release

# Above this much dynamic shared memory a kernel has to ask for it.
DEFAULT_SHARED = 48 * 1024


class CuSolverDx:
    """The kernels of a folder; the same methods as the other peers."""

    name = "cusolverdx"
    wait = None

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    def ready(self, a, vectors):
        """Raise FileNotFoundError for what the folder has no kernel for."""
        batch, n, _ = a.shape
        stem = f"heev_{a.dtype.name}_{n}_{'vectors' if vectors else 'values'}"
        launch = json.loads((self.folder / f"{stem}.json").read_text())
        module = cupy.RawModule(path=str(self.folder / f"{stem}.cubin"))
        kernel = module.get_function(launch["kernel"])
        shared = int(launch.get("shared", 0))
        if shared > DEFAULT_SHARED:
            kernel.max_dynamic_shared_size_bytes = shared
        threads = launch["threads"]
        threads = tuple(threads) if isinstance(threads, list) else (threads,)
        grid = (-(-batch // int(launch["matrices"])),)

        def call():
            w = cupy.empty((batch, n), a.dtype.type(0).real.dtype)
            v = cupy.empty(a.shape, a.dtype) if vectors else None
            info = cupy.empty(batch, np.dtype("i4"))
            pointers = (0 if x is None else x.data.ptr for x in (a, v, w, info))
            arguments = (*(np.uintp(p) for p in pointers), np.int64(batch))
            kernel(grid, threads, arguments, shared_mem=shared)
            return w, v, info

        return call

    def values(self, result, vectors, rows):
        """Eigenvalues of some rows."""
        return get(result[0][rows])

    def held(self):
        """Bytes that CuPy's pool holds."""
        return cupy.get_default_memory_pool().total_bytes()

    def release(self):
        """Give memory back to the device."""
        release()
