"""Random matrices, sizes that reach every kernel, and worker processes.

Nothing here touches the GPU, so that worker processes may import it.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

import numpy as np

from bed.engines.raw_cuda import _split_layouts
from bed.engines.raw_cuda._layouts import MAX_N, choose
from bed.testing.matrices import DTYPES, random_hermitian

# Worker processes at most, and how many are worth starting.
MAX_PROCESSES, MIN_PROCESSES = 16, 3

ALL_DTYPES = tuple(np.dtype(d) for d in DTYPES)


def processes() -> int:
    """Cores that this process may use, up to a limit."""
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_PROCESSES, len(os.sched_getaffinity(0)))
    return min(MAX_PROCESSES, os.cpu_count() or 1)


def parallel(function: Callable, items: list, *, smoke: bool) -> list:
    """Results of a function for every item, from fresh processes where that pays."""
    count = min(processes(), len(items))
    if smoke or count < MIN_PROCESSES:
        return [function(item) for item in items]
    # Not forked: a forked process cannot use CUDA.
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(function, items))


def every_layout(dtype, *, vectors=True) -> list[tuple[int, object]]:
    """The largest size of every kernel layout of a dtype, with the layout."""
    found = {}
    for n in range(1, MAX_N + 1):
        layout = choose(n, dtype, eigenvectors=vectors)
        found[layout.expression] = (n, layout)
    return list(found.values())


def sizes_of_several(dtype) -> list[int]:
    """The largest sizes of the kernels that solve them in several launches."""
    found = {}
    for n in range(_split_layouts.POSSIBLE.get(dtype.name, MAX_N + 1), MAX_N + 1):
        layouts = _split_layouts.split(n, dtype).layouts
        found[tuple(layout.expression for layout in layouts)] = n
    return list(found.values())


def launches(dtype, *, several: bool):
    """A context in which eigenvectors of a dtype take several launches, or one."""
    least = _split_layouts.POSSIBLE[dtype.name] if several else MAX_N + 1
    return mock.patch.dict(_split_layouts.CHOSEN, {dtype.name: least})


def hermitian(rng, batch: int, n: int, dtype) -> np.ndarray:
    """Random Hermitian matrices ``(batch, n, n)``."""
    return random_hermitian(rng, (batch, n, n), dtype)
