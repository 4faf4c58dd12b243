"""Runs the CUDA kernels of the package on the CPU, one fiber per thread.

>>> kernel = load("scale.cu", "scale<float>")
>>> x, out = Buffer.of(array), Buffer(array.shape, "f4")
>>> kernel(grid, block, shared_bytes, [x, out, array.size], seed=3)
>>> out.array

It catches what a GPU lets pass: accesses out of bounds, stores to inputs, elements that
are never written, shared memory that is read before it is written, lanes that disagree
about a collective, deadlocks, and, when several seeds are tried, missing barriers.

It does not see a race of two threads that meet between collectives, because only there
one thread gives way to another; a wild access that hits other memory of the process; or
what the flags of the device's compiler do to divisions and square roots. Blocks run one
after another, and time means nothing.
"""

from .build import CompileError, load, load_many, missing
from .launch import Kernel
from .memory import Buffer
from .report import EmulatorError

__all__ = [
    "Buffer",
    "CompileError",
    "EmulatorError",
    "Kernel",
    "load",
    "load_many",
    "missing",
]
