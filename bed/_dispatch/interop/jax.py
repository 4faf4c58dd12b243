"""JAX arrays, on the CPU and on CUDA devices."""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from . import cupy
from .received import Library, Received

# JAX borrows foreign memory only at this alignment, and copies otherwise.
ALIGNMENT = 64  # bytes

# Names of its platform.
CUDA = {"gpu", "cuda"}


class _ReceivedOnHost(Received):
    """Results are the same memory as JAX arrays, also while a function is traced."""

    place: Any

    def close(self, outputs, leading):
        """All at once, which takes less time than one by one."""
        del leading
        with (
            jax.ensure_compile_time_eval(),
            jax.transfer_guard_host_to_device("allow"),  # on the CPU nothing moves
        ):
            return jax.device_put(outputs, self.place, may_alias=True)


def _traces(a) -> bool:
    return isinstance(a, jax.core.Tracer)


def _spreads(a) -> bool:
    return not isinstance(a.sharding, SingleDeviceSharding)


def _by_xla(a) -> bool:
    """Also on a GPU: DLPack hands an array over, and does not tell when it is let go.

    XLA would use the memory of an array that was dropped again while a kernel still
    reads it, and CuPy that of a result.
    """
    return _platforms(a) <= CUDA or _spreads(a)


def _platforms(a) -> set[str]:
    return {device.platform for device in a.devices()}


def _receive(a) -> Received:
    platforms = _platforms(a)
    if platforms == {"cpu"}:
        return _ReceivedOnHost(np.asarray(a), empty=_empty, place=_place(a))
    if platforms <= CUDA:  # to be looked at: what is solved is handed out by XLA
        return cupy.received(cupy.load().from_dlpack(a), jax.numpy.from_dlpack)
    raise TypeError(f"expected an array on the CPU or a CUDA device, got {platforms}")


def _place(a):
    """Where results belong: None is where JAX puts arrays that may move.

    What is solved as a whole, though it came in parts, goes to all of its devices.
    """
    if not a.committed:
        return None
    if not _spreads(a):
        return a.device
    mesh = getattr(a.sharding, "mesh", None)
    return None if mesh is None else NamedSharding(mesh, PartitionSpec())


def _empty(shape, dtype) -> np.ndarray:
    """JAX arrays cannot be written, but JAX takes over memory that is aligned."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


LIBRARY = Library("jax", _traces, _receive, _by_xla)
