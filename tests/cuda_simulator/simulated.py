"""The Numba-CUDA engine in the simulator: NumPy arrays, a Python thread a thread.

The launchers, the kernels and their arguments are those of the package. A block is
small here, and so is a grid: a matrix gets fewer threads than columns, and a block more
than one matrix.
"""

import contextlib
import threading
import types
from dataclasses import dataclass

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernelapi
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

import emulated
from bed.engines import Engine

BLOCKS, WIDTH = 2, 3


@dataclass(frozen=True)
class SimulatedEngine(Engine):
    """An engine of these tests; `load` knows where it is."""

    def load(self, function="eigh"):
        found = [m for m in (launchers, functions, gradients) if hasattr(m, function)]
        return getattr(found[-1], function)


ENGINE = SimulatedEngine(
    "numba_cuda_simulated",
    ("cpu",),
    "the kernels of numba_cuda, run by Numba's simulator",
    max_n=128,
    stages=True,
    functions=True,
)


def _launch(kernel, blocks, threads, shared, *arguments):
    """As the engine's own, but at once, and in host memory that is not copied."""
    threads = (min(threads[0], WIDTH), threads[1])
    kernel[min(blocks, BLOCKS), threads, 0, shared](
        *(FakeCUDAArray(x) if isinstance(x, np.ndarray) else x for x in arguments)
    )


def _dirty(shape, dtype):
    """Memory that was used before: every byte is set, so that real numbers are NaN."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.full(size, 0xFF, np.uint8).view(dtype).reshape(shape)


class DirtyShared(kernelapi.FakeCUDAShared):
    """Shared memory as a block finds it."""

    def __init__(self, dynamic_size):
        super().__init__(dynamic_size)
        self._dynshared.view(np.uint8).fill(0xFF)
        self._allocations = _Allocations()


class _Allocations(dict):
    """Arrays by the place that asks for them.

    A thread that finds none makes one. The simulator lets two threads do so at a time,
    and each would have an array of its own: the second waits here.
    """

    def __init__(self):
        super().__init__()
        self._lock = threading.Lock()

    def get(self, place):
        self._lock.acquire()
        array = super().get(place)
        if array is not None:
            self._lock.release()
        return array

    def __setitem__(self, place, array):
        array.view(np.uint8).fill(0xFF)
        super().__setitem__(place, array)
        self._lock.release()


def _jit(function=None, *, max_registers=None, **options):
    """The simulator's `jit`, which knows of no registers."""
    del max_registers
    return _simulator_jit(function, **options)


_simulator_jit, cuda.jit = cuda.jit, _jit
kernelapi.FakeCUDAShared = DirtyShared
launchers = emulated.engine_module("eigh", "numba_cuda")
functions = emulated.engine_module("spectral", "numba_cuda")
gradients = emulated.engine_module("spectral_vjp", "numba_cuda")
for module in (launchers, functions, gradients):
    module.cupy = types.SimpleNamespace(empty=_dirty, zeros=np.zeros)
launchers._launch.launch = _launch
launchers._launch.on_device = contextlib.nullcontext
