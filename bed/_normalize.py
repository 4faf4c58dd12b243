"""Everything a caller can get wrong about the input, decided in one place."""

import math
import operator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from . import _interop
from .engines import Engine

# What is computed in another dtype than it came in, by kind or name.
_WIDENED = {"float16": "f4", "bfloat16": "f4"}
_AS_FLOAT64 = "biu"  # bool, signed and unsigned integers, as in NumPy

_ACCEPTED = (
    "float32, float64, complex64, complex128, float16 and bfloat16 (computed in "
    "float32), integers and bool (computed in float64)"
)


class Problem(NamedTuple):
    """A call in the form that engines take, but for the dtype.

    Attributes
    ----------
    a : (batch, n, n) array of the caller's dtype, any strides
    leading : the caller's leading axes, whose product is batch
    dtype : the engine dtype it is computed in
    """

    a: Any
    leading: tuple[int, ...]
    dtype: np.dtype

    @property
    def n(self) -> int:
        return self.a.shape[-1]

    def array_for(self, engine: Engine) -> Any:
        """The batch in a dtype that the engine reads; converted only if it must be."""
        if engine.reads and self.a.dtype.name in engine.reads:
            return self.a
        return converted(self.a, self.dtype)


def converted(a: Any, dtype: np.dtype) -> Any:
    """An array as engines take it, in a dtype; copied only if it must be."""
    a = a.astype(dtype, copy=False)
    if isinstance(a, np.ndarray) and not a.flags.aligned:
        a = a.copy()
    return a


def normalize(received: _interop.Received) -> Problem:
    """Check shape and dtype, and join the leading axes.

    Memory is copied only where leading axes with unrelated strides have to be joined.

    Raises
    ------
    numpy.linalg.LinAlgError
        Not a stack of square matrices; a ValueError, as NumPy's.
    TypeError
        A dtype that is not accepted.
    """
    a = received.array
    raise_unless_square(a.shape)
    dtype = compute_dtype(a.dtype)
    leading = a.shape[:-2]
    n = a.shape[-1]
    if len(leading) != 1:
        a = a.reshape((math.prod(leading), n, n))  # a view wherever strides allow
    return Problem(a, leading, dtype)


def raise_unless_square(shape: tuple[int, ...]) -> None:
    """Raise `numpy.linalg.LinAlgError` unless a shape is (..., n, n)."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(
            f"expected square matrices (..., n, n), got an array of shape {shape}"
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
    if dtype.name in _WIDENED:
        return np.dtype(_WIDENED[dtype.name])
    if dtype.kind in _AS_FLOAT64:
        return np.dtype("f8")
    native = dtype.newbyteorder("=")
    if native.kind in "fc" and native.itemsize in _ENGINE_SIZES[native.kind]:
        return native
    raise TypeError(f"dtype {dtype} is not supported; accepted are {_ACCEPTED}")


_ENGINE_SIZES = {"f": (4, 8), "c": (8, 16)}  # bytes


class Rule(NamedTuple):
    """How the eigenvectors of a call are differentiated; see `bed._gradients`."""

    gradient: str = "exact"
    degree: int = 9
    check_phase: bool = False


GRADIENTS = ("exact", "taylor", "pade", "power_iteration", "truncated")


def normalize_rule(gradient: Any, degree: Any, check_phase: Any) -> Rule:
    """The options of a derivative.

    Raises
    ------
    ValueError
        Unknown gradient, or a degree that is no whole number from 0 on.
    """
    if gradient not in GRADIENTS:
        accepted = ", ".join(repr(name) for name in GRADIENTS)
        raise ValueError(f"gradient must be one of {accepted}, got {gradient!r}")
    try:
        degree = operator.index(degree)
    except TypeError:
        raise ValueError(f"degree must be an integer, got {degree!r}") from None
    if degree < 0:
        raise ValueError(f"degree must not be negative, got {degree}")
    return Rule(gradient, degree, bool(check_phase))


def normalize_uplo(uplo: Any) -> str:
    """``"L"`` or ``"U"``.

    Raises
    ------
    ValueError
        Anything else.
    """
    if isinstance(uplo, str) and uplo.upper() in ("L", "U"):
        return uplo.upper()
    raise ValueError(f"UPLO must be 'L' or 'U' (either case), got {uplo!r}")
