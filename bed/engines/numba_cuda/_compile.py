"""How this engine compiles, and the constants its kernels take, in each precision."""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

# Registers of a thread: the fewest, and so the most blocks at a time, for which the
# compiler spills nothing on sm_90, which a test checks.
MAX_REGISTERS = 128

# Compiled at the first launch for each dtype and for each memory order of the input.
kernel = cuda.jit(max_registers=MAX_REGISTERS)
device = cuda.jit(device=True)


class Constants(NamedTuple):
    """Numbers in the precision of the matrix, so that arithmetic stays in it.

    eps
        Unit roundoff.
    tiny
        Smallest normal number.
    negligible
        tiny/eps: squares above it carry full precision.
    floor
        √negligible: smaller off-diagonal entries of a matrix of order one are dropped.
    i
        The imaginary unit in a complex dtype, and zero in a real one: x + y·i is then
        an element of either.
    """

    zero: np.floating
    half: np.floating
    one: np.floating
    eps: np.floating
    tiny: np.floating
    negligible: np.floating
    floor: np.floating
    i: Any


def constants(dtype) -> Constants:
    """The constants for a dtype, real or complex."""
    dtype = np.dtype(dtype)
    limits = np.finfo(dtype)
    real = limits.dtype.type
    eps, tiny = real(limits.eps) / real(2), real(limits.tiny)
    negligible = tiny / eps
    return Constants(
        zero=real(0),
        half=real(0.5),
        one=real(1),
        eps=eps,
        tiny=tiny,
        negligible=negligible,
        floor=np.sqrt(negligible),
        i=dtype.type(1j) if dtype.kind == "c" else real(0),
    )
