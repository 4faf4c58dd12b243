"""Matrices with known eigenvalues, sizes that reach every kernel, and worker processes.

Nothing here touches the GPU, so that worker processes may import it.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from bed.engines.raw_cuda._layouts import MAX_N, choose
from bed.testing.matrices import (
    DTYPES,
    EXTENDED,
    SIZES,
    planted,
    random_hermitian,
    stack,
    zoo,
)

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


def kernels(smoke: bool, *, values_too=False):
    """Every kernel as (n, dtype, layout, vectors), n the largest of its sizes.

    For a smoke test three of each dtype: the smallest, one between and one above.
    """
    for dtype in ALL_DTYPES:
        for vectors in (True, False) if values_too else (True,):
            layouts = every_layout(dtype, vectors=vectors)
            for i in (0, 2, 8) if smoke else range(len(layouts)):
                n, layout = layouts[i]
                yield n, dtype, layout, vectors


def hermitian(rng, batch: int, n: int, dtype) -> np.ndarray:
    """Random Hermitian matrices ``(batch, n, n)``."""
    return random_hermitian(rng, (batch, n, n), dtype)


def known(task: tuple) -> tuple[tuple, list[str], np.ndarray, np.ndarray]:
    """Matrices of one size and dtype and their eigenvalues, in extended precision.

    The whole zoo at the sizes of the zoo, eight matrices at the others.
    """
    seed, n, name = task
    dtype = np.dtype(name)
    rng = np.random.default_rng([seed, n, *name.encode()])
    if n in SIZES:
        members = zoo(n, dtype, rng)
        return (task, [m.name for m in members], *stack(members))
    limits = np.finfo(dtype)
    i = np.arange(n)
    spectra = {
        "zero": 0 * i,
        "repeated": np.resize([-1.0, 0.5, 2.0], n),
        "clustered at eps": 1 + float(limits.eps) * i,
        "geometric": np.geomspace(1e-12, 1, n),
        "half zero": np.where(i < n // 2, 0, 1 + i / n),
        "huge": np.linspace(-1, 1, n) * float(limits.max) / 4,
        "tiny": np.linspace(1, 2, n) * float(limits.tiny),
        "random": rng.standard_normal(n),
    }
    w = np.sort(np.array(list(spectra.values()), EXTENDED), axis=-1)
    return task, list(spectra), planted(rng, w, dtype), w


def hidden(a: np.ndarray, uplo: str) -> np.ndarray:
    """A copy with NaN wherever a solver must not look."""
    n = a.shape[-1]
    i, j = np.indices((n, n))
    b = a.copy()
    b[..., i < j if uplo == "L" else i > j] = np.nan
    if b.dtype.kind == "c":
        b.imag[..., np.arange(n), np.arange(n)] = np.nan
    return b
