"""One thread inside BLAS while any call is under way, and as many as before afterwards.

Most libraries have one number for the process. Calls that overlap would each find what
another has set, and leave it behind, so they are counted. MKL, and OpenBLAS that is
built with OpenMP, have one for every thread: it sets and restores that around its work.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import threadpoolctl
from threadpoolctl import LibController, ThreadpoolController

# Reentrant, as a fork takes it, and may come from a signal that is handled inside.
_lock = threading.RLock()
_callers = 0
_found: list[tuple[LibController, int]] = []  # libraries, and their number before


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """For a call: the first that is inside sets the limit, the last one lifts it."""
    global _callers
    process = os.getpid()
    with _lock:
        if not _callers:
            _found[:] = _limit(_of_the_process())
        _callers += 1
    try:
        yield
    finally:
        with _lock:
            if process == os.getpid():  # a child has no callers from before the fork
                _callers -= 1
                if not _callers:
                    _restore(_found)


@contextmanager
def one_blas_thread_here() -> Iterator[None]:
    """For what a thread does of a call: the limits that are its own."""
    found = _limit(_of_a_thread())
    try:
        yield
    finally:
        _restore(found)


def _limit(libraries: tuple[LibController, ...]) -> list[tuple[LibController, int]]:
    found = [(library, library.get_num_threads()) for library in libraries]
    for library in libraries:
        _set(library, 1)
    return found


def _restore(found: list[tuple[LibController, int]]) -> None:
    while found:
        _set(*found.pop())


def _set(library: LibController, threads: int) -> None:
    # In threadpoolctl 3.8 the public method does nothing in a thread that is not the
    # one that began, and the last of our callers may be any.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


@lru_cache(maxsize=1)
def _blas() -> tuple[LibController, ...]:
    """Found once: looking for the loaded BLAS takes longer than a small solve."""
    libraries = ThreadpoolController().lib_controllers
    return tuple(library for library in libraries if library.user_api == "blas")


@lru_cache(maxsize=1)
def _of_a_thread() -> tuple[LibController, ...]:
    """Those that threadpoolctl limits, since 3.7, for the calling thread alone."""
    if tuple(map(int, threadpoolctl.__version__.split(".")[:2])) < (3, 7):
        return ()
    return tuple(
        library
        for library in _blas()
        if library.internal_api == "mkl"
        or (library.internal_api, library.threading_layer) == ("openblas", "openmp")
    )


@lru_cache(maxsize=1)
def _of_the_process() -> tuple[LibController, ...]:
    return tuple(library for library in _blas() if library not in _of_a_thread())


def _after_fork_in_child() -> None:
    """The threads that would have lifted the limit are not here."""
    global _callers
    _callers = 0
    _restore(_found)
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_after_fork_in_child,
    )
