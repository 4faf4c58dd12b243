"""Where the command line computes, and its peers, which it holds at one thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from threadpoolctl import threadpool_limits

from .._config import no_gpu

# In a context of its own NumPy has one thread for BLAS.
one_blas_thread = partial(threadpool_limits, limits=1, user_api="blas")


def best_device() -> str:
    """``"cuda"`` if CuPy finds a GPU, else ``"cpu"``."""
    return "cpu" if no_gpu() else "cuda"


def awaited(solve: Callable, device: str) -> Callable:
    """A call that is waited for on a GPU, so launch and transfer are part of it."""
    if device == "cpu":
        return solve
    import cupy

    def call():
        solve()
        cupy.cuda.get_current_stream().synchronize()

    return call


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """A context in which torch has one thread on the CPU."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def torch_call(name: str, a) -> Callable:
    """A function of torch.linalg on the CPU, for a NumPy array."""
    import torch

    function, tensor = getattr(torch.linalg, name), torch.from_numpy(a)
    return lambda: function(tensor)
