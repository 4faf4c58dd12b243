"""From a block of vectors to the outputs of a batch.

These are views as of `as_rows`, with a matrix in a row. Zeros get a positive sign.
"""

import numpy as np

from bed._status import Status

from ._compile import kernel
from ._simd import any_lane, fill, select

# Up to this n the lanes are the inner loop when matrices are stored, which is faster.
# Beyond it matrices are so far apart that their lines push each other out of the cache.
SMALL = 8

_OK, _OVERFLOW = int(Status.OK), int(Status.OVERFLOW)
_NOT_FINITE, _NO_CONVERGENCE = int(Status.NOT_FINITE), int(Status.NO_CONVERGENCE)


@kernel
def keep_order(order, n):
    """As `sort` for what is in order."""
    for i in range(n):
        order[i] = fill(order[i], i)


@kernel
def sort(d, order, n):
    """Sort the eigenvalues of every lane, and note in `order` where they came from.

    Neighbours are exchanged until the largest has gone down to the end, then the next:
    of the same cost whatever the order, and equal values keep theirs.
    """
    keep_order(order, n)
    for end in range(n - 1, 0, -1):
        d_i, order_i = d[0], order[0]
        for i in range(end):
            d_next, order_next = d[i + 1], order[i + 1]
            swap = d_i > d_next
            d[i] = select(swap, d_next, d_i)
            order[i] = select(swap, order_next, order_i)
            d_i = select(swap, d_i, d_next)
            order_i = select(swap, order_i, order_next)
        d[end], order[end] = d_i, order_i


@kernel
def unscale(x, n, first, second):
    """Undo `scale` in place; zeros get a positive sign.

    Theirs is the one thing that the neighbours of a matrix may change.
    """
    for i in range(n):
        x[i] = x[i] * first * second + 0


@kernel
def judge(w, e, n, finite, code, const):
    """Note in `code` (1,) the `Status` of every lane, as a float.

    `w` (n,) are the eigenvalues that will be stored, and `e` what is left
    off the diagonal.

    Returns
    -------
    lost
        Mask of the lanes without a result.
    """
    status = fill(e[0], _OK)
    for i in range(n):
        status = select(abs(w[i]) > const.huge, _OVERFLOW, status)
    for i in range(n - 1):
        status = select(e[i] == const.zero, status, _NO_CONVERGENCE)
    status = select(finite, status, _NOT_FINITE)
    code[0] = status
    return (status == _NOT_FINITE) | (status == _NO_CONVERGENCE)


@kernel
def fill_lost(rows, n, columns, lost):
    """NaN for all of (n, columns) vectors in the lanes that are lost."""
    if any_lane(lost):
        for i in range(n):
            for j in range(columns):
                rows[i, j] = select(lost, np.nan, rows[i, j])


@kernel
def store_status(work, start, count, status):
    """Status of every matrix to `status` (batch,) from `start` on."""
    for lane in range(count):
        status[start + lane, 0] = np.int32(work.floats[work.code_at, lane])


@kernel
def store_rows(work, at, m, start, count, out):
    """Vectors from number `at` on to rows of (batch, m)."""
    floats = work.floats
    for lane in range(count):
        for i in range(m):
            out[start + lane, i] = floats[at + i, lane]


@kernel
def store_triangles(work, n, start, count, upper, lower, has_lower, const):
    """Upper triangles to `upper` (batch, n, n), those before the diagonal to `lower`.

    The latter conjugated, as upper triangles too, with `work.d` on the diagonal; they
    are left out where `has_lower` is false.
    """
    row, planes, floats, zero = work.row, work.planes, work.floats, const.zero
    for i in range(n):
        for lane in range(count):
            for j in range(i, n):
                at, to = (i * row + j) * planes, (i * n + j) * planes
                for plane in range(planes):
                    upper[start + lane, to + plane] = floats[at + plane, lane] + zero
                if has_lower and i == j:
                    lower[start + lane, to] = floats[work.d_at + i, lane] + zero
                    if planes == 2:
                        lower[start + lane, to + 1] = zero
                elif has_lower:
                    at = (j * row + i) * planes
                    lower[start + lane, to] = floats[at, lane] + zero
                    if planes == 2:
                        lower[start + lane, to + 1] = -floats[at + 1, lane] + zero


@kernel
def store_vectors(work, at, n, start, count, v, const):
    """Rows of numbers, in the order noted, to columns of `v` (batch, n, n).

    They are `work.row` numbers long, and begin at vector `at`.
    """
    planes, floats, source, zero = work.planes, work.floats, work.source, const.zero
    for j in range(n):
        for lane in range(count):
            row = np.int32(floats[work.order_at + j, lane])
            source[j, lane] = np.int32(at) + row * np.int32(work.row * planes)
    if n <= SMALL:
        for i in range(n):
            for j in range(n):
                to = (i * n + j) * planes
                for lane in range(count):
                    number = source[j, lane] + i * planes
                    v[start + lane, to] = floats[number, lane] + zero
                    if planes == 2:
                        v[start + lane, to + 1] = floats[number + 1, lane] + zero
    else:
        for i in range(n):
            for lane in range(count):
                for j in range(n):
                    number, to = source[j, lane] + i * planes, (i * n + j) * planes
                    v[start + lane, to] = floats[number, lane] + zero
                    if planes == 2:
                        v[start + lane, to + 1] = floats[number + 1, lane] + zero


@kernel
def store_columns(work, n, m, start, count, v, const):
    """The rows besides a workspace to the columns of `v` (batch, n, m)."""
    planes, floats = work.planes, work.floats
    for lane in range(count):
        for i in range(n):
            for j in range(m):
                at = work.rows_at + (j * n + i) * planes
                to = (i * m + j) * planes
                for plane in range(planes):
                    x = floats[at + plane, lane] + const.zero
                    v[start + lane, to + plane] = x
