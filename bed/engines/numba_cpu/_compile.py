"""How this engine compiles, and the constants its kernels take, in each precision."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

# Fused multiply-adds are allowed, and the sign of a zero is free; nothing else of fast
# maths is: NaN and Inf must be seen, and sums keep their order.
MATHS = {"contract", "nsz"}

kernel = njit(nogil=True, fastmath=MATHS, error_model="numpy")
inline = njit(nogil=True, fastmath=MATHS, error_model="numpy", inline="always")
entry = njit(nogil=True, fastmath=MATHS, error_model="numpy", cache=True)


def source_digest() -> str:
    """Digest of every source that the compiled code is made of.

    Numba finds code on disk by the one file that holds the cached function, and would
    miss a change in the files it calls. So only the entry point is cached, and this
    digest is made part of its key.
    """
    here = Path(__file__).parent
    files = sorted([*here.glob("*.py"), *(here.parent / "scalar").glob("*.py")])
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def number(a, real, imag):
    """A scalar of the dtype of `a`; the imaginary part is dropped for real arrays."""
    return complex(real, imag) if a.dtype.kind == "c" else real


@overload(number, inline="always")
def _number(a, real, imag):
    if isinstance(a.dtype, types.Complex):
        return lambda a, real, imag: complex(real, imag)
    return lambda a, real, imag: real


class Constants(NamedTuple):
    """Numbers in the precision of the matrix, so that arithmetic stays in it.

    eps
        Unit roundoff.
    tiny
        Smallest normal number.
    negligible
        tiny/eps: squares above it carry full precision.
    floor
        √negligible: couplings of a matrix of order one that are smaller are dropped.
    """

    zero: np.floating
    half: np.floating
    one: np.floating
    eps: np.floating
    tiny: np.floating
    negligible: np.floating
    floor: np.floating


def constants(dtype) -> Constants:
    """The constants for a dtype, real or complex."""
    limits = np.finfo(dtype)
    real = limits.dtype.type
    eps, tiny = real(limits.eps) / real(2), real(limits.tiny)
    negligible = tiny / eps
    return Constants(
        real(0), real(0.5), real(1), eps, tiny, negligible, np.sqrt(negligible)
    )
