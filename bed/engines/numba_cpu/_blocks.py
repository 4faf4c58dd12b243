"""From one block of matrices to a batch of them, in compiled code."""

from numba.np.numpy_support import as_dtype

from bed.engines._constants import constants

from ._compile import by_type, inline, kernel
from ._float_mode import enter_default_mode, never_inlined, restore_mode
from ._memory import free
from ._simd import minimum
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
        if memory == 0:
            return False
        const = _constants(a)
        for i in range(start, stop, work.lanes):
            solve_block(i, minimum(work.lanes, stop - i), arrays, work, const)
        free(memory)
        return True

    @inline
    def solve(start, stop, n, a, w, arrays):
        mode = enter_default_mode()
        solved = solve_range(start, stop, n, a, w, arrays)
        restore_mode(mode)
        if not solved:
            raise MemoryError("no memory for the blocks of matrices")

    return solve


def _constants(a):
    """`constants` for the dtype of an array."""
    raise NotImplementedError


@by_type(_constants)
def _constants_of(a):
    const = constants(as_dtype(a.dtype))
    return lambda a: const
