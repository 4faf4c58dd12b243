"""Run a function over blocks of a batch on the cores of this machine.

Plain Python threads around code that releases the GIL, instead of a threading layer of
Numba or BLAS: they may be used from several threads and after a fork at the same time,
and cost nothing while idle.

Helpers serve all calls: whoever has finished a call's blocks looks for another call
with blocks left. A call never needs them. It works on its own blocks, and waits for
those alone that a helper has begun.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

_pool: ThreadPoolExecutor | None = None
_pool_threads = 0

# Guards what follows, and what calls note about their helpers. Reentrant, as a handler
# of a signal or a finaliser may solve something in the midst of it.
_lock = threading.RLock()
_calls: list["_Call"] = []  # under way, the oldest first
_serving: set[object] = set()  # one for every helper that works or will begin to

_most: ContextVar[int | None] = ContextVar("bed_threads", default=None)


def thread_count() -> int:
    """NUMBA_NUM_THREADS where it is set, else the cores this process may run on.

    The variable is read at every call, and ignored where it is no number above zero.
    Inside `limited_to` it is no more than that.
    """
    most = _most.get()
    if most == 1:
        return 1
    count = _configured_count()
    return count if most is None else min(most, count)


class limited_to:
    """Calls made inside, by this thread or task, use no more threads than this."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)

    def __enter__(self) -> None:
        self._token = _most.set(self._threads)

    def __exit__(self, *error: object) -> None:
        _most.reset(self._token)


def _configured_count() -> int:
    try:
        wanted = int(os.environ.get("NUMBA_NUM_THREADS", ""))
    except ValueError:
        wanted = 0
    if wanted > 0:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_blocks(work: Callable[[int, int], None], batch: int, block: int) -> None:
    """Call ``work(start, stop)`` for consecutive blocks until ``range(batch)`` is done.

    Blocks are handed out one at a time, so uneven ones balance. The caller works too.
    The first exception ends the run and is raised. However it ends, no block is being
    worked on any more then.
    """
    if batch <= block:
        if batch > 0:
            work(0, batch)
        return
    call = _Call(work, batch, block)
    helpers = min(thread_count(), -(-batch // block)) - 1
    try:
        if helpers > 0:
            call.ask_for(helpers)
        call.drain()
    finally:
        call.end()
    call.raise_error()


class _Call:
    """The blocks of one call, and the helpers that are working on them."""

    def __init__(self, work: Callable[[int, int], None], batch: int, block: int):
        self._work, self._batch, self._block = work, batch, block
        self._starts = deque(range(0, batch, block))
        self._wanted = 0
        self._inside = 0  # helpers
        self._left = threading.Condition(_lock)
        self._error: BaseException | None = None

    def ask_for(self, helpers: int) -> None:
        """Let that many helpers in, as far as there are threads for them."""
        global _pool, _pool_threads
        with _lock:
            self._wanted = helpers
            _calls.append(self)
            if _pool is None or _pool_threads < helpers:
                # A pool that is replaced finishes what it has and ends by itself.
                _pool, _pool_threads = ThreadPoolExecutor(helpers, "bed"), helpers
            pool = _pool
            idle = _pool_threads - len(_serving)
            tokens = [object() for _ in range(min(helpers, idle))]
            _serving.update(tokens)
        for i, token in enumerate(tokens):
            try:
                pool.submit(_serve, token)
            except RuntimeError:
                # No more threads: a limit is reached, or the interpreter shuts down.
                # Those there are do the work, and the pool may still run this token.
                with _lock:
                    _serving.difference_update(tokens[i:])
                return

    def admit(self) -> bool:
        """Let a helper in, if there is something to do; the lock is held."""
        if not self._starts or self._inside >= self._wanted:
            return False
        self._inside += 1
        return True

    def help(self) -> None:
        """Work as a helper that was let in."""
        try:
            self.drain()
        except BaseException as error:
            self._starts.clear()
            self._error = self._error or error
        finally:
            with _lock:
                self._inside -= 1
                self._left.notify()

    def drain(self) -> None:
        """Work until no block is left."""
        while True:
            try:
                start = self._starts.popleft()
            except IndexError:
                return
            self._work(start, min(start + self._block, self._batch))

    def end(self) -> None:
        """Take back the blocks that nobody has begun, and wait for the others."""
        self._starts.clear()
        if not self._wanted:
            return
        interrupt = None
        while True:
            try:
                with _lock:
                    while self._inside:
                        self._left.wait()
                    if self in _calls:
                        _calls.remove(self)
                break
            except KeyboardInterrupt as error:  # the outputs are still written to
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def raise_error(self) -> None:
        """Raise what a helper met."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback refers to this frame


def _serve(token: object) -> None:
    """In a helper: work on one call after another, while any has blocks left."""
    while True:
        with _lock:
            call = next((call for call in _calls if call.admit()), None)
            if call is None:
                _serving.discard(token)
                return
        call.help()


def _begin_anew() -> None:
    """A forked child has none of its parent's threads, and the lock may be held."""
    global _pool, _pool_threads, _lock
    _pool, _pool_threads, _lock = None, 0, threading.RLock()
    _calls.clear()
    _serving.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
