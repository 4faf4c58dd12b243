"""From one block of matrices to a batch of them, in compiled code."""

from numba.extending import overload
from numba.np.numpy_support import as_dtype

from bed.engines._constants import constants

from ._compile import inline, kernel
from ._float_mode import enter_default_mode, never_inlined, restore_mode
from ._workspace import workspace


def in_blocks(solve_block, width, memory_of=workspace):
    """A function that solves a part of a batch in blocks, to be called by an entry.

    Parameters
    ----------
    solve_block : kernel
        ``solve_block(start, count, arrays, work, const)``: the matrices `start` to
        ``start + count`` of a batch, of which `arrays` are options, inputs and outputs.
    width : int
        Bytes in a vector: as many matrices at a time as it has lanes.
    memory_of : callable
        What makes `work`, as `workspace` does.

    Returns
    -------
    kernel
        ``solve(start, stop, n, a, w, arrays)`` for matrices of size n, with `a` and `w`
        as `workspace` takes them.
    """

    @kernel
    def solve_range(start, stop, n, a, w, arrays):
        never_inlined()
        work, memory = memory_of(n, a, w, width)
        const = _constants(a)
        for i in range(start, stop, work.lanes):
            solve_block(i, min(work.lanes, stop - i), arrays, work, const)
        return len(memory)  # used here, so that it is not freed before

    @inline
    def solve(start, stop, n, a, w, arrays):
        mode, failed = enter_default_mode(), False
        try:
            solve_range(start, stop, n, a, w, arrays)
        except Exception:  # nothing else can be caught; only memory can be lacking
            failed = True
        restore_mode(mode)
        if failed:
            raise MemoryError("no memory for the blocks of matrices")

    return solve


def _constants(a):
    """`constants` for the dtype of an array."""
    raise NotImplementedError


@overload(_constants)
def _constants_of(a):
    const = constants(as_dtype(a.dtype))
    return lambda a: const
