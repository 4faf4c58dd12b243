"""The constants that the engines of Numba compile with, in each precision."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ._float_mode import default_float_mode


class Constants(NamedTuple):
    """Numbers in the precision of the matrix, so that arithmetic stays in it.

    eps
        Unit roundoff.
    tiny
        Smallest normal number.
    huge
        Largest number.
    negligible
        tiny/eps: squares above it carry full precision.
    floor
        √negligible: smaller off-diagonal entries of a matrix of order one are dropped.
    large
        The power of two in the middle between 1 and overflow.
    exp_range
        Of smaller |x|, eˣ is a normal number.
    i
        The imaginary unit in a complex dtype, and zero in a real one: x + y·i is then
        an element of either.
    """

    zero: np.floating
    half: np.floating
    one: np.floating
    two: np.floating
    eps: np.floating
    tiny: np.floating
    huge: np.floating
    negligible: np.floating
    floor: np.floating
    large: np.floating
    exp_range: np.floating
    i: Any


@lru_cache
def constants(dtype) -> Constants:
    """The constants for a dtype, real or complex."""
    with default_float_mode():  # they are remembered, for callers in any mode
        dtype = np.dtype(dtype)
        limits = np.finfo(dtype)
        real = limits.dtype.type
        eps, tiny = real(limits.eps) / real(2), real(limits.tiny)
        negligible = tiny / eps
        return Constants(
            zero=real(0),
            half=real(0.5),
            one=real(1),
            two=real(2),
            eps=eps,
            tiny=tiny,
            huge=real(limits.max),
            negligible=negligible,
            floor=np.sqrt(negligible),
            large=np.ldexp(real(1), limits.maxexp // 2),
            exp_range=np.floor(-np.log(tiny)),
            i=dtype.type(1j) if dtype.kind == "c" else real(0),
        )
