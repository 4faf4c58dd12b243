"""How this engine compiles."""

import hashlib
from functools import partial
from pathlib import Path

from llvmlite.binding import get_host_cpu_features
from numba import config, njit
from numba.extending import overload

from ._as_ir import PIPELINE

# No fast maths: operations are fused and ordered as the source says, which makes the
# bits of a lane independent of how it was compiled. Only entries can be called from
# Python, which has no vectors.
INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **PIPELINE}

# Numba hands the option down to what is called, unless that has its own.
kernel = njit(nogil=True, error_model="numpy", forceinline=False, **INSIDE)
inline = njit(nogil=True, error_model="numpy", forceinline=True, **INSIDE)


def by_type(function, forceinline=True, **options):
    """Decorate what picks an implementation of `function` by the types it gets.

    It is compiled as a part of its callers, which `overload` alone would not do; that
    takes the further options.
    """
    options["jit_options"] = {
        "nogil": True, "error_model": "numpy", "forceinline": forceinline, **INSIDE
    }  # fmt: skip
    return overload(function, **options)


# The same for what makes views of memory: if a caller knows how they come about, it
# computes addresses anew instead of keeping them, and takes 7 to 10 % longer at n = 2.
views_by_type = partial(by_type, forceinline=False, prefer_literal=True)


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
# And for large matrices that are: one in a block, whose rows fill the registers. No
# number is as short, so that there is one lane.
ALONE = 1

# Terms of a sum that are added up by themselves, and terms of a group of such parts.
CHUNK = 4
GROUP = 32


def source_digest() -> str:
    """Digest of every source that the compiled code is made of.

    Numba finds code on disk by the one file that holds the cached function, and would
    miss a change in the files it calls.
    """
    here = Path(__file__).parent
    compiled_in = here.parent / "_constants.py", here.parents[1] / "_status.py"
    files = [*sorted(here.glob("*.py")), *compiled_in]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
