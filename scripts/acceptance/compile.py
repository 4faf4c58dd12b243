"""Compile every kernel before anything is checked, on all cores.

Processes and not threads: NVRTC lets one thread of a process compile at a time. Each
leaves what it compiled in CuPy's cache on disk, where this process finds it.
"""

import time

import numpy as np

from ._cases import (
    ALL_DTYPES,
    every_layout,
    launches,
    parallel,
    processes,
    sizes_of_several,
)
from ._device import engine, put, synchronize


def compile_kernels(run, part) -> None:
    """Compile all kernels and load them."""
    tasks = [
        (n, dtype.name, vectors, False)
        for dtype in ALL_DTYPES
        for vectors in (True, False)
        for n, _ in every_layout(dtype, vectors=vectors)
    ]
    tasks += [
        (n, dtype.name, True, True)
        for dtype in ALL_DTYPES
        for n in sizes_of_several(dtype)
    ]
    if run.smoke:
        tasks = tasks[:3]
    # Those that take longest first, so that no process ends with one.
    tasks.sort(key=lambda task: (task[2:], task[0]), reverse=True)
    began = time.perf_counter()
    seconds = parallel(first_call, tasks, smoke=run.smoke)
    compiled = time.perf_counter()
    for task in tasks:
        first_call(task)
        part.cases += 1
    loaded = time.perf_counter()
    part.data = {
        "kernels": len(tasks),
        "processes": processes(),
        "compile_s": compiled - began,
        "load_s": loaded - compiled,
        "sum_of_compile_s": sum(seconds),
        "longest_s": max(seconds),
    }
    part.notes.append(
        f"{len(tasks)} kernels compiled in {compiled - began:.1f} s (one after the "
        f"other {sum(seconds):.1f} s, the longest {max(seconds):.1f} s) and loaded in "
        f"{loaded - compiled:.1f} s"
    )


def first_call(task: tuple) -> float:
    """Seconds that one matrix takes; what was compiled before is on disk."""
    n, dtype, vectors, several = task
    a = put(np.zeros((1, n, n), dtype))
    synchronize()
    began = time.perf_counter()
    with launches(a.dtype, several=several):
        engine()(a, eigenvectors=vectors)
    synchronize()
    return time.perf_counter() - began
