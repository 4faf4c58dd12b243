"""JAX arrays, on the CPU and on CUDA devices."""

import jax
import numpy as np

from . import cupy
from .received import Library, Received, same

# JAX borrows foreign memory only at this alignment, and copies otherwise.
ALIGNMENT = 64  # bytes


def _traces(a) -> bool:
    return isinstance(a, jax.core.Tracer)


def _receive(a) -> Received:
    platforms = {device.platform for device in a.devices()}
    from_dlpack = jax.numpy.from_dlpack
    if platforms == {"cpu"}:
        return Received(np.asarray(a), "cpu", _empty, same, from_dlpack, from_dlpack)
    if platforms <= {"gpu", "cuda"}:
        return cupy.received(cupy.load().from_dlpack(a), from_dlpack)
    raise TypeError(f"expected an array on the CPU or a CUDA device, got {platforms}")


def _empty(shape, dtype) -> np.ndarray:
    """JAX arrays cannot be written, but JAX takes over memory that is aligned."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


LIBRARY = Library("jax", _traces, _receive)
