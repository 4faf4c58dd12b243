"""Timing and device choice for the command line; the answer is checked elsewhere."""

import sys
import time
from collections.abc import Callable

from threadpoolctl import threadpool_limits

from .._config import devices

# Runs of each measurement; the fastest counts, as everything else is interference.
REPEATS = 5
# Seconds after which no further run is started.
ENOUGH = 1.0


def best_device() -> str:
    """``"cuda"`` if CuPy finds a GPU, else ``"cpu"``."""
    return "cuda" if any(d.startswith("cuda:") for d in devices()) else "cpu"


def seconds(solve: Callable, device: str = "cpu") -> float:
    """Fastest time of a call in seconds, after one call that warms up.

    On a GPU each call is waited for, so launch and transfer of the status are included.
    """
    wait = _nothing
    if device == "cuda":
        import cupy

        wait = cupy.cuda.get_current_stream().synchronize
    solve()
    wait()
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        start = time.perf_counter()
        solve()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)


def numpy_seconds(solve: Callable) -> float:
    """Fastest time of a NumPy call with BLAS held at one thread."""
    with threadpool_limits(limits=1, user_api="blas"):
        return seconds(solve)


def torch_seconds(name: str, a) -> float:
    """Fastest time of a function of torch.linalg on the CPU with one thread."""
    import torch

    function, tensor = getattr(torch.linalg, name), torch.from_numpy(a)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return seconds(lambda: function(tensor))
    finally:
        torch.set_num_threads(threads)


def _nothing() -> None:
    return None


def progress(text: str) -> None:
    """Show on a terminal what is being worked on, over the last such line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
