"""Where the command line computes, and its peers, which it holds at one thread."""

import os
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from .._config import no_gpu
from .._console import progress
from .._dispatch.dtypes import compute_dtype
from ._eigen import Solvers, compiled

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


class Peer:
    """One library, called on the CPU as its users call it.

    `ready` returns a call without arguments for an array, or None where the library has
    nothing for it; `alone` makes the context in which it runs on one thread. The best
    of those that `counts` is what bed is compared with.
    """

    name = ""
    alone: Callable = staticmethod(nullcontext)
    counts = True
    version = remark = ""

    def ready(self, function: str, a: np.ndarray) -> Callable | None:
        raise NotImplementedError


class Numpy(Peer):
    """numpy.linalg."""

    name = "numpy"
    alone = staticmethod(one_blas_thread)
    version = np.__version__

    def ready(self, function, a):
        solve = getattr(np.linalg, function)
        return lambda: solve(a)


class Torch(Peer):
    """torch.linalg."""

    name = "torch"

    def __init__(self):
        import torch

        self.torch, self.version = torch, torch.__version__

    @contextmanager
    def alone(self):
        threads = self.torch.get_num_threads()
        self.torch.set_num_threads(1)
        try:
            yield
        finally:
            self.torch.set_num_threads(threads)

    def ready(self, function, a):
        solve, tensor = getattr(self.torch.linalg, function), self.torch.from_numpy(a)
        return lambda: solve(tensor)


class TensorFlow(Peer):
    """tf.linalg, called eagerly."""

    name = "tf"

    def __init__(self):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no greetings
        import tensorflow as tf

        # It has as many threads as it starts with.
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.set_visible_devices([], "GPU")
        self.tf, self.version = tf, tf.__version__

    def ready(self, function, a):
        solve, tensor = getattr(self.tf.linalg, function), self.tf.constant(a)
        return lambda: solve(tensor)


class Eigen(Peer):
    """SelfAdjointEigenSolver of Eigen; a small n is known when it is compiled."""

    name = "eigen"

    def __init__(self, solvers: Solvers):
        self.solvers, self.version = solvers.found, solvers.version

    def ready(self, function, a):
        solver = self.solvers[a.dtype.name, a.shape[-1]]
        return lambda: solver(a, vectors=function == "eigh", direct=False)


class EigenDirect(Eigen):
    """computeDirect of the same class, which has closed forms for real matrices."""

    name = "direct"
    counts = False
    version = ""
    remark = (
        "direct: computeDirect of eigen, which may lose half of the digits at n = 3, "
        "and is not counted"
    )

    def __init__(self, solvers: Solvers):
        self.solvers = solvers.found

    def ready(self, function, a):
        if a.dtype.kind == "c" or a.shape[-1] not in (2, 3):
            return None
        solver = self.solvers[a.dtype.name, a.shape[-1]]
        return lambda: solver(a, vectors=function == "eigh", direct=True)


def _torch() -> list[Peer]:
    try:
        return [Torch()]
    except ImportError as error:
        raise ImportError("--torch needs torch: pip install torch") from error


NAMES = tuple(peer.name for peer in (Numpy, Torch, TensorFlow, Eigen, EigenDirect))


def available(options) -> tuple[list[Peer], list[str]]:
    """The peers asked for, and a sentence for each of ``--peers`` that is not here."""
    if not options.peers:
        return [Numpy(), *(_torch() if options.torch else [])], []

    def eigens():
        dtypes = dict.fromkeys(compute_dtype(dtype).name for dtype in options.dtype)
        solvers = compiled(dtypes, options.n, options.eigen)
        return [Eigen(solvers), EigenDirect(solvers)]

    found: list[Peer] = [Numpy()]
    absent = []
    makers = {"torch": lambda: [Torch()], "tf": lambda: [TensorFlow()], "eigen": eigens}
    for name, make in makers.items():
        progress(f"starting {name} …")
        try:
            found += make()
        except ImportError as error:
            absent.append(f"{name} is not timed: {error}")
    progress("")
    return found, absent
