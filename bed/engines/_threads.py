"""Run a function over blocks of a batch on the cores of this machine.

Plain Python threads around code that releases the GIL, instead of a threading layer of
Numba or BLAS: they may be used from several threads and after a fork at the same time,
and cost nothing while idle.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_pool: ThreadPoolExecutor | None = None
_pool_threads = 0


def thread_count() -> int:
    """NUMBA_NUM_THREADS where it is set, else the cores this process may run on."""
    try:
        wanted = int(os.environ.get("NUMBA_NUM_THREADS", ""))
    except ValueError:
        wanted = 0
    if wanted > 0:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _executor(helpers: int) -> ThreadPoolExecutor:
    global _pool, _pool_threads
    if _pool is None or _pool_threads < helpers:
        # A pool that is replaced finishes what it was given and then ends by itself.
        _pool, _pool_threads = ThreadPoolExecutor(helpers, "bed"), helpers
    return _pool


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def for_blocks(work: Callable[[int, int], None], batch: int, block: int) -> None:
    """Call ``work(start, stop)`` for consecutive blocks until ``range(batch)`` is done.

    Blocks are handed out one at a time, so uneven ones balance. The caller works too.
    The first exception ends the run and is raised.
    """
    starts = deque(range(0, batch, block))

    def drain() -> None:
        while True:
            try:
                start = starts.popleft()
            except IndexError:
                return
            work(start, min(start + block, batch))

    helpers: list[Future] = []
    wanted = min(thread_count(), len(starts)) - 1 if len(starts) > 1 else 0
    if wanted > 0:
        try:
            pool = _executor(wanted)
            helpers = [pool.submit(drain) for _ in range(wanted)]
        except RuntimeError:
            # The interpreter is shutting down and starts no threads: do it all here.
            helpers = []
    try:
        drain()
        for helper in helpers:
            helper.result()
    finally:
        starts.clear()  # after an exception the others stop at their next block
        for helper in helpers:
            helper.cancel()
