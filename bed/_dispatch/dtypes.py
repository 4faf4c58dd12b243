"""Which dtype an input is computed in: the one table, by the names of the dtypes."""

from functools import lru_cache

import numpy as np

# Half types, by the name that every array library gives them, and what they become.
WIDENED = {"float16": "float32", "bfloat16": "float32", "complex32": "complex64"}

# Distance from 1 to the next number in them; NumPy does not know them all.
_HALF_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "complex32": 2.0**-10}

_AS_FLOAT64 = "biu"  # bool, signed and unsigned integers, as in NumPy
_ENGINE_SIZES = {"f": (4, 8), "c": (8, 16)}  # bytes

_ACCEPTED = (
    "float32, float64, complex64, complex128, float16 and bfloat16 (computed in "
    "float32), integers and bool (computed in float64)"
)


@lru_cache
def compute_dtype(dtype) -> np.dtype:
    """The dtype an input dtype is computed in, in native byte order.

    Remembered, because NumPy makes the name of a dtype anew each time.

    Raises
    ------
    TypeError
        Says which dtypes are accepted.
    """
    dtype = np.dtype(dtype)
    if dtype.name in WIDENED:
        return np.dtype(WIDENED[dtype.name])
    if dtype.kind in _AS_FLOAT64:
        return np.dtype("f8")
    native = dtype.newbyteorder("=")
    if native.kind in "fc" and native.itemsize in _ENGINE_SIZES[native.kind]:
        return native
    raise unsupported(dtype)


def unsupported(dtype) -> TypeError:
    """The error for a dtype that nothing computes in."""
    return TypeError(f"dtype {dtype} is not supported; accepted are {_ACCEPTED}")


def half_eps(name: str) -> float:
    """The eps of the half type of this name, and zero of any other dtype."""
    return _HALF_EPS.get(name, 0.0)
