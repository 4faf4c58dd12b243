"""From a batch of matrices to a block of vectors, scaled to order one.

Inputs are views as of `as_rows`, with a matrix in a row.
"""

from ._compile import by_type, kernel
from ._simd import fill, maximum, minimum, power_of_two, select
from ._transpose import first_part, to_vectors

# Lanes up to which numbers are copied one by one, in less time and less code.
FEW_LANES = 4


def load_matrices(a, n, start, count, lower, work):
    """Copy one triangle of each matrix to the upper triangle of its lane.

    Parameters
    ----------
    a : view
        Of (batch, n, n), real or complex; those from `start` on are read.
    count : int
        How many; lanes that are left are as those of the last matrix, or zero.
    lower : bool
        Which triangle to read; the imaginary part of the diagonal is not read.
    work : Workspace
    """
    raise NotImplementedError


@by_type(load_matrices)
def _load_matrices_of(a, n, start, count, lower, work):
    lanes = work.types[work.fields.index("d")].dtype.lanes
    each = _load_numbers if lanes <= FEW_LANES else _load_squares

    def load(a, n, start, count, lower, work):
        each(a, n, start, count, lower, work)

    return load


@kernel
def _load_squares(a, n, start, count, lower, work):
    """`load_matrices` by squares of as many numbers as matrices.

    Of whole matrices: most lines of the cache hold numbers of both triangles.
    """
    planes, z, tile = work.planes, work.z, work.tile
    line, total = n * planes, n * n * planes
    i, j, k, valid = 0, 0, 0, first_part(a, total, work)
    while k < total:
        to_vectors(a, total, start, count, k, valid, tile)
        for m in range(valid):
            column, plane = j // planes, j % planes
            x = tile[m]
            if plane == 1:
                if column == i:
                    x = fill(x, 0)
                elif lower:
                    x = -x
            if lower and column <= i:
                z[column, i * planes + plane] = x
            elif not lower and column >= i:
                z[i, j] = x
            j += 1
            if j == line:
                i, j = i + 1, 0
        k, valid = k + valid, minimum(work.side, total - k - valid)


@kernel
def _load_numbers(a, n, start, count, lower, work):
    """`load_matrices` by single numbers."""
    lanes, row, planes, floats = work.lanes, work.row, work.planes, work.floats
    for i in range(n):
        for j in range(i):
            at = (j * row + i) * planes
            k = (i * n + j if lower else j * n + i) * planes
            for lane in range(count):
                floats[at, lane] = a[start + lane, k]
                if planes == 2:
                    imag = a[start + lane, k + 1]
                    floats[at + 1, lane] = -imag if lower else imag
        at, k = i * (row + 1) * planes, i * (n + 1) * planes
        for lane in range(count):
            floats[at, lane] = a[start + lane, k]
            if planes == 2:
                floats[at + 1, lane] = 0
    if count < lanes:
        for at in range(n * row * planes):
            for lane in range(count, lanes):
                floats[at, lane] = 0


@kernel
def load_lower(b, n, start, count, lower, work):
    """Copy one triangle of each matrix below the diagonals, and those to `work.d`.

    After `load_matrices`, which has filled the lanes that are left.
    """
    row, planes, floats = work.row, work.planes, work.floats
    for i in range(n):
        work.d[i] = fill(work.d[i], 0)
        for lane in range(count):
            floats[work.d_at + i, lane] = b[start + lane, i * (n + 1) * planes]
        for j in range(i):
            at = (i * row + j) * planes
            k = (i * n + j if lower else j * n + i) * planes
            for lane in range(count):
                floats[at, lane] = b[start + lane, k]
                if planes == 2:
                    imag = b[start + lane, k + 1]
                    floats[at + 1, lane] = imag if lower else -imag


@kernel
def load_columns(v, n, start, count, work):
    """Copy columns of (batch, n, n) to rows; lanes that are left hold anything."""
    row, planes, floats = work.row, work.planes, work.floats
    for i in range(n):
        for j in range(n):
            at, k = (j * row + i) * planes, (i * n + j) * planes
            for lane in range(count):
                for plane in range(planes):
                    floats[at + plane, lane] = v[start + lane, k + plane]


@kernel
def load_row(matrices, n, i, start, count, work):
    """Copy row i of upper triangles, from the diagonal on, to `work.p`, likewise."""
    planes, floats = work.planes, work.floats
    for j in range(i, n):
        at, k = work.p_at + j * planes, (i * n + j) * planes
        for lane in range(count):
            for plane in range(planes):
                floats[at + plane, lane] = matrices[start + lane, k + plane]


@kernel
def load_tridiagonal(d, e, n, start, count, work):
    """Copy diagonals (batch, n) and off-diagonals (batch, n − 1) to the lanes."""
    lanes, floats = work.lanes, work.floats
    for lane in range(count):
        for i in range(n):
            floats[work.d_at + i, lane] = d[start + lane, i]
        for i in range(n - 1):
            floats[work.e_at + i, lane] = e[start + lane, i]
        floats[work.e_at + n - 1, lane] = 0
    for lane in range(count, lanes):
        for i in range(n):
            floats[work.d_at + i, lane] = 0
            floats[work.e_at + i, lane] = 0


@kernel
def scale(rows, n, columns, upper, const):
    """Bring max|·| of every lane to [0.5, 1) by a power of two.

    A lane that is not finite is replaced by zeros.

    Parameters
    ----------
    rows : (n, ≥ columns)
        Real vectors.
    columns : int
    upper : int
        Columns to skip at the beginning of row i, in multiples of i.

    Returns
    -------
    first, second
        Powers of two that undo it, one after the other: their product may overflow or
        underflow where the result does not.
    finite
        Mask of the lanes that are.
    """
    largest = fill(rows[0, 0], 0)
    finite = largest == const.zero
    for i in range(n):
        for j in range(upper * i, columns):
            size = abs(rows[i, j])
            finite = finite & (size <= const.huge)
            largest = maximum(largest, size)
    largest = select(finite, largest, const.one)
    # First to the middle of the exponents, where a power of two has an inverse.
    first = fill(largest, const.one)
    first = select(largest < const.one / const.large, const.large, first)
    first = select(largest > const.large, const.one / const.large, first)
    largest = select(largest == const.zero, const.one, largest * first)
    second = const.half / power_of_two(largest)
    for i in range(n):
        for j in range(upper * i, columns):
            rows[i, j] = select(finite, rows[i, j] * first * second, const.zero)
    return const.one / second, const.one / first, finite
