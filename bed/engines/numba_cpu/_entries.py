"""The functions that Python calls: compiled for a dtype and a width when first called.

Most callers need one of them, and each takes seconds to compile.
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numba import from_dtype, njit, types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from bed._console import progress

from ._cache import keep_on_disk
from ._compile import ALONE, NARROW, WIDE

# Blocks from which on those few matrices that do not fill one take a wide one as well:
# what its empty lanes cost is little then, and narrow ones need not be compiled.
MANY = 16

# A child would wait for ever for a thread that compiles in its parent, or go on with
# what that has left half done: so a fork waits until nothing is compiled.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


class Entries:
    """One solver, for all dtypes.

    Parameters
    ----------
    name : str
        To be found by on disk.
    build : callable
        ``build(width)`` is the function to compile for vectors of so many bytes, with
        the arguments ``(start, stop, *options, *inputs, *outputs)``. Arrays are whole
        batches, of which the matrices `start` to `stop` are solved.
    signature : callable
        ``signature(dtype, real)``, with types of Numba, is what stands behind `stop`.
    alone_from : int, optional
        Size from which on a few matrices are solved one by one.
    """

    def __init__(
        self,
        name: str,
        build: Callable,
        signature: Callable,
        alone_from: int | None = None,
    ):
        self.name, self._build, self._signature = name, build, signature
        self.alone_from = alone_from
        self._of: dict[np.dtype, _OfDtype] = {}

    def __call__(self, dtype: np.dtype) -> "_OfDtype":
        """The compiled solver for inputs of a dtype."""
        found = self._of.get(dtype)
        if found is None:
            found = self._of.setdefault(dtype, _OfDtype(self, dtype))
        return found

    def compile(self, dtype: np.dtype, width: int) -> Callable:
        """Read from disk, or compile and keep there."""
        given = from_dtype(dtype)
        real = getattr(given, "underlying_float", given)
        signature = (types.intp, types.intp, *self._signature(given, real))
        options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        function = self._build(width)
        # Its symbol has this name and the types, which are those of other widths, too.
        function.__qualname__ = f"{function.__name__}_of_{width}_bytes"
        dispatcher = njit(**options)(function)
        keep_on_disk(dispatcher, f"{self.name}, {width} bytes")
        what = f"{self.name} for {dtype}"
        with _alone(what), _without_collections(), _told(what):
            dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher


class _OfDtype:
    """The compiled functions for a dtype, of which a call takes one or two."""

    def __init__(self, entries: Entries, dtype: np.dtype):
        self._entries, self._dtype = entries, dtype
        self.lanes = WIDE // dtype.type(0).real.itemsize
        self.of_width: dict[int, Callable] = {}

    def __call__(self, start: int, stop: int, n: int, arguments: tuple) -> None:
        """Solve a part of a batch; `arguments` are those behind `stop`."""
        few = self._left_over(stop - start)
        if stop - start > few:
            self._get(WIDE)(start, stop - few, *arguments)
        if few:
            self._get(self._width_of_few(n))(stop - few, stop, *arguments)

    def for_all_of(self, batch: int, n: int) -> Callable | None:
        """The one function that a batch takes, or None if it takes both."""
        few = self._left_over(batch)
        if few in (0, batch):
            return self._get(self._width_of_few(n) if few else WIDE)
        return None

    def _width_of_few(self, n: int) -> int:
        alone_from = self._entries.alone_from
        return NARROW if alone_from is None or n < alone_from else ALONE

    def _left_over(self, batch: int) -> int:
        """Matrices that are too few for a wide block."""
        blocks, left = divmod(batch, self.lanes)
        # A wide block would have most of its lanes empty.
        return left if left <= self.lanes // 4 and blocks < MANY else 0

    def _get(self, width: int) -> Callable:
        found = self.of_width.get(width)
        if found is None:
            # By one thread, for all that wait. The lock is Numba's, which others may
            # hold when they come here.
            with global_compiler_lock:
                found = self.of_width.get(width)
                if found is None:
                    found = self._entries.compile(self._dtype, width)
                    self.of_width[width] = found
        return found


def inputs(dtype, ndim: int):
    """The type of inputs, which may be read-only."""
    return types.Array(dtype, ndim, "C", readonly=True)


def outputs(dtype, ndim: int):
    """The type of outputs, which are written as plain memory."""
    return types.Array(dtype, ndim, "C")


_under_way: list[str] = []  # what is compiled, while the lock is held


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Numba cannot begin anew in the midst of a compilation, and does not notice.

    The thread that holds the lock may come again, by the handler of a signal or a
    finaliser.
    """
    if _under_way:
        raise RuntimeError(
            f"bed cannot compile {what} now: this call was made, by the handler of a "
            f"signal or a finaliser, while {_under_way[0]} is compiled in the same "
            "thread; call bed.warmup() beforehand"
        )
    _under_way.append(what)
    try:
        yield
    finally:
        _under_way.clear()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Python looks for garbage often in what a compiler makes, and finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """On a terminal, say that `what` is compiled, if it is and not read from disk."""
    line = _Line(what)
    try:
        with event.install_listener("numba:compile", line):
            yield
    finally:
        if line.shown:
            progress("")


class _Line(event.Listener):
    def __init__(self, what: str):
        self._text = f"bed: compiling {what}, once per machine …"
        self.shown = False

    def on_start(self, event):
        """Of the function, and of each that it calls."""
        if not self.shown:
            progress(self._text)
            self.shown = True

    def on_end(self, event):
        """What has begun may go on with something else."""
