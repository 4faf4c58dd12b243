"""Arrays of any library that follows the DLPack standard, of any year.

NumPy and CuPy ask in its newest form, and again in the older ones if the producer does
not know the keywords.
"""

import sys
from collections.abc import Callable

import numpy as np

from . import cupy
from .received import Library, Received, describe, never, same

# Device types of the standard that bed can work on.
CPU = 1  # kDLCPU
CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def _receive(a) -> Received:
    kind, _ = a.__dlpack_device__()
    give_back = _from_dlpack_of(a)
    if kind in CUDA:
        return cupy.received(cupy.load().from_dlpack(a), give_back)
    if kind != CPU:
        raise TypeError(
            "expected memory of the CPU or a CUDA device, got "
            f"{describe(a)} of DLPack device type {int(kind)}"
        )
    try:
        array = np.from_dlpack(a)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"cannot open {describe(a)}: {error}") from error
    return Received(array, give_back=give_back, give_back_vectors=give_back)


def _from_dlpack_of(a) -> Callable:
    """`from_dlpack` of the array's library, or the identity if it has none."""
    if hasattr(a, "__array_namespace__"):
        from_dlpack = a.__array_namespace__().from_dlpack
        return lambda x: from_dlpack(x).to_device(a.device)
    package = sys.modules.get(type(a).__module__.partition(".")[0])
    return getattr(package, "from_dlpack", same)


LIBRARY = Library("dlpack", never, _receive)
