"""The floating-point mode that NumPy's code runs in, whatever the caller has set.

Some libraries flush subnormal numbers to zero in the threads that load them, and a new
thread has the mode of the one that started it. Results would then depend on the thread
that works on a matrix. This is for code of others, through the C library, and takes a
few microseconds; code that bed compiles sets the mode by itself.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

_LARGEST = 256  # bytes; a floating-point environment takes 8 to 32


@contextmanager
def default_float_mode() -> Iterator[None]:
    """Inside, round to nearest, nothing flushed, every exception masked.

    Of this thread; does nothing where the C library has no such functions.
    """
    functions = _environment()
    if functions is None:
        yield
        return
    read, write, default = functions
    found = ctypes.create_string_buffer(_LARGEST)
    read(found)
    write(default)
    try:
        yield
    finally:
        write(found)


@cache
def _environment() -> tuple[Callable, Callable, ctypes.c_void_p] | None:
    """C's fegetenv, fesetenv and FE_DFL_ENV."""
    if sys.platform not in ("linux", "darwin"):
        return None
    for name in (None, "libm.so.6"):  # what the interpreter is linked to, or glibc's
        try:
            library = ctypes.PyDLL(name)
            default = ctypes.c_void_p(-1)  # of glibc and musl
            if sys.platform == "darwin":
                constant = ctypes.c_char.in_dll(library, "_FE_DFL_ENV")
                default = ctypes.c_void_p(ctypes.addressof(constant))
            return library.fegetenv, library.fesetenv, default
        except (OSError, AttributeError, ValueError):
            continue
    return None
