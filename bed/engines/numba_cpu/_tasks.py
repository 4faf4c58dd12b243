"""Cut a batch into tasks for the threads."""

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
    first = inputs[0]
    batch, n = first.shape[:2]
    solve = entries(first.dtype)
    contiguous = True
    for x in inputs:
        flags = x.flags
        contiguous = contiguous and flags.c_contiguous and flags.aligned
    if contiguous:
        # One compiled version serves all strides: it is told of a part by its bounds.
        arguments = (*options, *inputs, *outputs)
        if batch * n * n <= TASK_ENTRIES:
            solve(0, batch, arguments)
            return

        def task(start: int, stop: int) -> None:
            solve(start, stop, arguments)
    else:

        def task(start: int, stop: int) -> None:
            part = slice(start, stop)
            read = [np.require(x[part], requirements="CA") for x in inputs]
            written = [x[part] for x in outputs]
            solve(0, stop - start, (*options, *read, *written))

    for_blocks(task, batch, _matrices(batch, n, solve.lanes))


def one_entry(entries: Entries, batch: int, n: int, dtype: np.dtype):
    """The compiled function that solves a whole batch in one task, or None."""
    if batch * n * n > TASK_ENTRIES:
        return None
    return entries(dtype).for_all_of(batch)


def _matrices(batch: int, n: int, lanes: int) -> int:
    """How many a task has."""
    tasks = -(-batch * n * n // TASK_ENTRIES)
    if tasks > 1:  # every thread gets the same number of tasks of the same size
        threads = thread_count()
        tasks = threads * -(-tasks // threads)
    blocks = -(-batch // (lanes * max(tasks, 1)))
    return lanes * max(blocks, 1)
