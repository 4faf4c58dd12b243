"""Cut a batch into tasks for the threads."""

from collections.abc import Callable

import numpy as np

from bed.engines._threads import for_blocks, thread_count

from ._entries import Entries

# Entries handed to a thread at a time: enough that this does not count, few enough that
# threads end at about the same time and a copy of strided matrices stays in the cache.
TASK_ENTRIES = 1 << 15


def solve_batch(entries: Entries, options: tuple, inputs: tuple, outputs: tuple):
    """Solve a batch in tasks, all but the last of full blocks.

    Parameters
    ----------
    entries : Entries
    options, inputs, outputs : tuple
        Its arguments; inputs with any strides, the first ``(batch, n, ...)``.
    """
    n, solve = inputs[0].shape[1], entries(inputs[0].dtype)

    def run(start: int, stop: int, inputs: tuple, outputs: tuple) -> None:
        solve(start, stop, n, (*options, *inputs, *outputs))

    in_tasks(run, inputs, outputs, solve.lanes)


def in_tasks(run: Callable, inputs: tuple, outputs: tuple, lanes: int) -> None:
    """Cut a batch into tasks, all but the last of multiples of `lanes`.

    Parameters
    ----------
    run : callable
        ``run(start, stop, inputs, outputs)``, with contiguous and aligned arrays, does
        the matrices `start` to `stop`.
    inputs, outputs : tuple of arrays
        Inputs with any strides, the first ``(batch, n, ...)``; an output may be None.
    """
    batch, n = inputs[0].shape[:2]
    contiguous = True
    for x in inputs:
        flags = x.flags
        contiguous = contiguous and flags.c_contiguous and flags.aligned
    if contiguous:
        # One compiled version serves all strides: it is told of a part by its bounds.
        if batch * n * n <= TASK_ENTRIES:
            run(0, batch, inputs, outputs)
            return

        def task(start: int, stop: int) -> None:
            run(start, stop, inputs, outputs)
    else:

        def task(start: int, stop: int) -> None:
            part = slice(start, stop)
            read = tuple(np.require(x[part], requirements="CA") for x in inputs)
            written = tuple(None if x is None else x[part] for x in outputs)
            run(0, stop - start, read, written)

    for_blocks(task, batch, _matrices(batch, n, lanes))


def one_entry(entries: Entries, batch: int, n: int, dtype: np.dtype):
    """The compiled function that solves a whole batch in one task, or None."""
    if batch * n * n > TASK_ENTRIES:
        return None
    return entries(dtype).for_all_of(batch, n)


def _matrices(batch: int, n: int, lanes: int) -> int:
    """How many a task has."""
    tasks = -(-batch * n * n // TASK_ENTRIES)
    if tasks > 1:  # every thread gets the same number of tasks of the same size
        threads = thread_count()
        tasks = threads * -(-tasks // threads)
    blocks = -(-batch // (lanes * max(tasks, 1)))
    return lanes * max(blocks, 1)
