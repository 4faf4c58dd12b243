"""How this engine compiles, and the constants its kernels take, in each precision."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from llvmlite.binding import get_host_cpu_features
from numba import config, njit

from bed.engines._float_mode import default_float_mode

from ._cache import keep_on_disk

# No fast maths: operations are fused and ordered as the source says, which makes the
# bits of a lane independent of how it was compiled. Only entries can be called from
# Python, which has no vectors.
INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

kernel = njit(nogil=True, error_model="numpy", **INSIDE)
inline = njit(nogil=True, error_model="numpy", forceinline=True, **INSIDE)


def entry(function):
    """Compile a function that Python calls, and keep the code on disk."""
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    keep_on_disk(dispatcher)
    return dispatcher


def _has_avx512() -> bool:
    """Whether code is compiled for registers of 64 bytes."""
    if config.CPU_FEATURES is not None:  # set by the environment variable of that name
        return "+avx512f" in config.CPU_FEATURES
    return bool(get_host_cpu_features().get("avx512f"))


# Bytes in a vector. Two registers of AVX-512 or AVX2: a QR sweep is one long chain of
# dependent operations, and works on the second register while it waits for the first.
# With more registers in a vector, the rows that are rotated do not stay in them.
WIDE = 128 if _has_avx512() else 64
# The same for a few matrices that are left over or come alone: one small register,
# which every processor has.
NARROW = 16

# Terms of a sum that are added up by themselves.
CHUNK = 4


def source_digest() -> str:
    """Digest of every source that the compiled code is made of.

    Numba finds code on disk by the one file that holds the cached function, and would
    miss a change in the files it calls. So only the entry points are cached, and this
    digest is made part of their key.
    """
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


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


@lru_cache
def constants(dtype) -> Constants:
    """The constants for a dtype, real or complex."""
    with default_float_mode():  # they are remembered, for callers in any mode
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
        )
