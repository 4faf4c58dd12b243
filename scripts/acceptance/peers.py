"""bed and its peers behind one interface, each called as its users call it."""

from concurrent.futures import ThreadPoolExecutor

import cupy
import numpy as np

import bed

from ._cases import processes
from ._device import engine, get, release
from .cusolverdx import CuSolverDx

# Arrays up to this size are made for JAX just to have its functions compiled.
COMPILED_AHEAD = 64 << 20  # bytes


class Solver:
    """One library.

    `ready` returns a call without arguments for a device array, `values` the
    eigenvalues of a result for some rows, `held` the bytes that the library holds on
    the device, or None if it does not say; `wait` is None where the library works on
    the current stream.
    """

    name = ""
    wait = None

    def ready(self, a, vectors: bool):
        raise NotImplementedError

    def values(self, result, vectors: bool, rows: slice) -> np.ndarray:
        return get((result[0] if vectors else result)[rows])

    def held(self) -> int | None:
        return cupy.get_default_memory_pool().total_bytes()

    def release(self) -> None:
        release()


class Bed(Solver):
    """The public functions, which allocate their results."""

    name = "bed"

    def ready(self, a, vectors):
        return (lambda: bed.eigh(a)) if vectors else (lambda: bed.eigvalsh(a))


class Engine(Solver):
    """The fused engine alone, into outputs that are there already."""

    name = "engine"

    def ready(self, a, vectors):
        direct = engine()
        out = direct(a, eigenvectors=vectors)
        return lambda: direct(a, eigenvectors=vectors, out=out)

    def values(self, result, vectors, rows):
        return get(result[0][rows])


class Cupy(Solver):
    """cupy.linalg on cuSOLVER."""

    name = "cupy"

    def ready(self, a, vectors):
        solve = cupy.linalg.eigh if vectors else cupy.linalg.eigvalsh
        return lambda: solve(a)


class Torch(Solver):
    """torch.linalg, on the default stream as CuPy."""

    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            raise ImportError("torch finds no CUDA device")

    def ready(self, a, vectors):
        there = self.torch.from_dlpack(a)
        solve = self.torch.linalg.eigh if vectors else self.torch.linalg.eigvalsh
        return lambda: solve(there)

    def values(self, result, vectors, rows):
        return (result[0] if vectors else result)[rows].cpu().numpy()

    def held(self):
        return self.torch.cuda.max_memory_allocated()

    def release(self):
        release()
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()


class Jax(Solver):
    """jax.numpy.linalg under jit; it has streams of its own."""

    name = "jax"

    def __init__(self):
        import jax

        self.jax = jax
        if jax.default_backend() != "gpu":
            raise ImportError(f"jax runs on {jax.default_backend()} alone")
        self.eigh = jax.jit(jax.numpy.linalg.eigh)
        self.eigvalsh = jax.jit(jax.numpy.linalg.eigvalsh)
        self.wait = jax.block_until_ready

    def compile(self, cells) -> int:
        """Compile for the shapes of small cells, in threads; returns how many."""

        def one(cell):
            solve = self.eigh if cell.vectors else self.eigvalsh
            a = self.jax.numpy.zeros((cell.batch, cell.n, cell.n), cell.dtype)
            return self.wait(solve(a))

        small = [c for c in cells if c.input_bytes <= COMPILED_AHEAD]
        with ThreadPoolExecutor(processes()) as pool:
            return sum(1 for _ in pool.map(one, small))

    def ready(self, a, vectors):
        there = self.jax.numpy.from_dlpack(a)
        if there.dtype != a.dtype:
            raise TypeError("JAX_ENABLE_X64 is off")
        solve = self.eigh if vectors else self.eigvalsh
        return lambda: solve(there)

    def values(self, result, vectors, rows):
        return np.asarray((result[0] if vectors else result)[rows])

    def held(self):
        return None  # its statistics cannot be reset between cells


def available(run, part) -> list[Solver]:
    """The peers that are here; a note for each that is not."""
    found = [Cupy()]
    for make in (Torch, Jax):
        try:
            found.append(make())
        except ImportError as error:
            part.notes.append(f"not timed: {error}")
    if run.peers is None:
        part.notes.append("cuSolverDx not timed: no --peers folder was given")
    else:
        found.append(CuSolverDx(run.peers))
    return found
