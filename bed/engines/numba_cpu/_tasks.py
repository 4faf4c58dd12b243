"""Cut a batch into tasks for the threads."""

import numpy as np

from bed.engines._threads import for_blocks, thread_count

from ._compile import WIDE

# Entries handed to a thread at a time: enough that this does not count, few enough that
# threads end at about the same time and a copy of strided matrices stays in the cache.
TASK_ENTRIES = 1 << 15


def for_tasks(work, batch, n, itemsize):
    """Call ``work(slice)`` for parts of the batch, all but the last of full blocks.

    `itemsize` is that of the real dtype.
    """
    lanes = WIDE // itemsize
    tasks = -(-batch * n * n // TASK_ENTRIES)
    if tasks > 1:  # every thread gets the same number of tasks of the same size
        threads = thread_count()
        tasks = threads * -(-tasks // threads)
    blocks = -(-batch // (lanes * max(tasks, 1)))
    matrices = lanes * max(blocks, 1)
    for_blocks(lambda start, stop: work(slice(start, stop)), batch, matrices)


def readable(a):
    """A part of the input as compiled code takes it.

    One compiled version serves all strides: what is not contiguous is copied, and
    everything is handed over read-only.
    """
    a = np.ascontiguousarray(a).view()
    a.flags.writeable = False
    return a
