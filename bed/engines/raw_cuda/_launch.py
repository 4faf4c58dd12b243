"""Launches on CuPy's current stream, of kernels that keep subnormal numbers."""

import cupy
import numpy as np

from ._module import exact_kernel, shared_limit


def on_device(array):
    """A context in which the device of an array is the current one."""
    return array.device


def shared_limit_of(array) -> int:
    """Bytes of shared memory that a block may have on the device of an array."""
    return shared_limit(array.device.id)


def launch(layout, size: int, *arguments) -> None:
    """Queue a kernel for `size` matrices; arrays are given by their addresses."""
    device = cupy.cuda.Device().id
    kernel = exact_kernel(layout.source, layout.expression, layout.shared, device)
    kernel(
        (-(-size // layout.matrices),),
        (layout.threads,),
        tuple(x if isinstance(x, np.generic) else _pointer(x) for x in arguments),
        shared_mem=layout.shared,
    )


def _pointer(array) -> np.uintp:
    return np.uintp(0 if array is None else array.data.ptr)


def strides(array, count: int) -> tuple[np.int64, ...]:
    """Strides of an array in elements, as a kernel takes them; zeros for None."""
    if array is None:
        return (np.int64(0),) * count
    found = [np.int64(s // array.itemsize) for s in array.strides]
    return (*found, *(np.int64(0),) * (count - len(found)))
