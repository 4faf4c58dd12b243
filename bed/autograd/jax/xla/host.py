"""The thread that solves in host memory for XLA.

XLA calls from threads that flush subnormal numbers to zero, which changes bits of the
result. This thread does not: a thread inherits the mode of the one that starts it, and
so it is started here, when the module is loaded, by giving it something to do. A forked
child has none of its parent's threads, and gets one of its own.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_executor: ThreadPoolExecutor


def run(function: Callable, *arguments: Any, **options: Any) -> Any:
    """What the function returns or raises, in that thread."""
    try:
        future = _executor.submit(function, *arguments, **options)
    except RuntimeError:  # the interpreter is shutting down, and the thread has ended
        return function(*arguments, **options)
    return future.result()


def _start() -> None:
    global _executor
    _executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bed-jax")
    _executor.submit(int).result()


_start()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start)
