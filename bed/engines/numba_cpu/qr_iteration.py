"""Stage 3: implicit QR iteration on a block of symmetric tridiagonal matrices.

Wilkinson shifts, shrinkage from the bottom and splits at every negligible off-diagonal
entry (Golub and Van Loan, algorithm 8.3.3; shrinkage is the paper's section 3.2). Each
matrix iterates on its own lowest block of three rows or more, rows lo … hi, and the
block of matrices as a whole on the rows that any of them still needs. Blocks of two
rows stay until the end, and are then diagonalised in closed form.

A matrix has nothing to do in the rows beyond its own. There the bulge, f,
is zero, and so is the rotation's sine: the recurrence below then gives back d and e as
they were. That is why no operation of a sweep has to be masked, and why the neighbours
of a matrix cannot change its bits, but for the sign of a zero.
"""

from ._compile import inline, kernel
from ._simd import any_lane, fill, fma, maximum, select, sqrt

# Sweeps per eigenvalue before a matrix is given up: about two are usual, and LAPACK
# allows 30 as well.
SWEEPS_PER_EIGENVALUE = 30


@kernel
def qr_iteration(d, e, n, z, columns, reach, half, s, const):
    """Diagonalise T in place.

    Parameters
    ----------
    d, e : (n,)
        Diagonal and off-diagonal of T, of order one; e[n-1] is not used. `d` returns
        the eigenvalues, unsorted, and `e` what is left off the diagonal: zeros, where
        the iteration converged.
    z : (n, ≥ columns)
        Row j is multiplied by the rotations as column j of Q is. Its vectors have the
        lanes of `d`, or, where that has one, any number of entries of the row.
    columns : int
        Even, and 0 for eigenvalues alone.
    reach : int
        Entries of `z` that are so far behind the diagonal, or less, may be other than
        zero: 0 for the identity, n if they all may.
    half, s : (2, n)
        Scratch for the rotations of two sweeps: the tangents of half of their angles,
        and the sines.
    """
    _sweep_until_pairs(d, e, n, z, columns, reach, half, s, const)
    _solve_pairs(d, e, n, z, columns, const)


@kernel
def _sweep_until_pairs(d, e, n, z, columns, reach, half, s, const):
    """Sweep until no block has more than two rows, or give up."""
    for done in range(0, SWEEPS_PER_EIGENVALUE * n, 2):
        lo, corner, end = _active(d, e, n - 1, const)
        if end == 0:
            return
        _sweep(d, e, lo, corner, end, columns, half[0], s[0], const)
        lo, corner, second_end = _active(d, e, end, const)
        if second_end > 0:
            _sweep(d, e, lo, corner, second_end, columns, half[1], s[1], const)
        for i in range(second_end, end):
            half[1, i], s[1, i] = const.zero, const.zero
        _rotate_rows(z, columns, reach + done, half, s, end)
        if second_end == 0:
            return
    _active(d, e, n - 1, const)


@inline
def _active(d, e, end, const):
    """The rows that have to be worked on, and zero for what is negligible in `e`.

    Returns
    -------
    lo
        In each lane the first row of the lowest block of three rows or more, or −1.
    corner
        The last two diagonal entries of that block, and the entry between them.
    end : int
        The last row of such a block in any lane, or 0.
    """
    first = fill(d[0], 0)  # of the block that row i belongs to
    lo, last = first - 1, 0
    above, between, below = first, first, first
    alone = first == const.zero  # whether a block begins with row i
    d_i = d[0]
    for i in range(end):
        d_next, e_i = d[i + 1], e[i]
        size = abs(e_i)
        # A NaN is not negligible.
        negligible = (size <= const.eps * (abs(d_i) + abs(d_next))) | (
            size < const.floor
        )
        e_i = select(negligible, const.zero, e_i)
        e[i] = e_i
        short = negligible | alone  # no more than two rows, up to here
        alone = negligible
        lo = select(short, lo, first)
        if any_lane(~short):
            last = i + 1
        above = select(short, above, d_i)
        between = select(short, between, e_i)
        below = select(short, below, d_next)
        first = select(negligible, i + 1, first)
        d_i = d_next
    return lo, (above, between, below), last


@kernel
def _sweep(d, e, lo, corner, end, columns, half, s, const):
    """Chase one bulge from row `lo` down in each lane, and note the rotations.

    For no columns they are not noted.
    """
    above, between, below = corner
    shift = _wilkinson_shift(above, between, below, const)
    zero = fill(d[0], 0)
    cosine, sine, p, g = zero + 1, zero, zero, zero
    for i in range(end):
        d_i, e_i = d[i], e[i]
        start = lo == i
        before = g
        g = select(start, d_i - shift, g)
        sine = select(start, const.one, sine)
        f = sine * e_i
        b = cosine * e_i
        cosine, sine, r = _givens(g, f, const)
        if columns > 0:
            half[i], s[i] = sine / (const.one + cosine), sine
        if i > 0:
            e[i - 1] = select(start, before, r)
        g = d_i - p
        t = fma(d[i + 1] - g, sine, const.two * (cosine * b))
        p = sine * t
        d[i] = g + p
        g = fma(cosine, t, -b)
    d[end] = d[end] - p
    e[end - 1] = g


@inline
def _givens(g, f, const):
    """As `bed.engines.scalar.rotations.givens`, but the identity wherever f is zero.

    And with c ≥ 0, where r has the sign of g: the angle is a right one at most.
    """
    square = fma(f, f, g * g)
    idle = (f == const.zero) | (square < const.tiny)
    # One division instead of two, for one more rounding: they are the slowest part.
    inverse = const.one / sqrt(square)
    negative = g < const.zero
    cosine = select(idle, const.one, abs(g) * inverse)
    sine = select(idle, const.zero, select(negative, -f, f) * inverse)
    return cosine, sine, select(idle, g, select(negative, -square, square) * inverse)


@inline
def _wilkinson_shift(a, b, c, const):
    """As `bed.engines.scalar.shifts.wilkinson_shift`; NaN where a = c and b = 0."""
    delta = (a - c) * const.half
    step = b * (b / (abs(delta) + sqrt(fma(delta, delta, b * b))))
    return select(delta >= const.zero, c - step, c + step)


@kernel
def _rotate_rows(z, columns, reach, half, s, end):
    """Apply the rotations of two sweeps to the rows 0 … end.

    In one pass, the second sweep one row behind the first, and for two columns at a
    time: an entry is loaded and stored once for both sweeps, and what goes from one row
    to the next stays in registers. Each sweep carries entries one row up, and rows that
    stay zero are left out.
    """
    half_1, s_1, half_2, s_2 = half[0], s[0], half[1], s[1]
    for k in range(0, columns, 2):
        # In entries of a row: of vectors with several, more rows than needed are taken.
        begin = maximum(0, k - reach - 2)
        if begin >= end:
            break
        row = z[begin]
        carried_0, carried_1 = row[k], row[k + 1]  # by the first sweep
        waiting_0, waiting_1 = carried_0, carried_1  # for the second sweep
        for i in range(begin, end):
            row = z[i + 1]
            tangent, sine = half_1[i], s_1[i]
            x_0, carried_0 = _rotated(carried_0, row[k], tangent, sine)
            x_1, carried_1 = _rotated(carried_1, row[k + 1], tangent, sine)
            if i == begin:
                waiting_0, waiting_1 = x_0, x_1
                continue
            row = z[i - 1]
            tangent, sine = half_2[i - 1], s_2[i - 1]
            row[k], waiting_0 = _rotated(waiting_0, x_0, tangent, sine)
            row[k + 1], waiting_1 = _rotated(waiting_1, x_1, tangent, sine)
        above, row = z[end - 1], z[end]
        tangent, sine = half_2[end - 1], s_2[end - 1]
        above[k], row[k] = _rotated(waiting_0, carried_0, tangent, sine)
        above[k + 1], row[k + 1] = _rotated(waiting_1, carried_1, tangent, sine)


@inline
def _rotated(x, y, tangent, sine):
    """c·x + s·y and c·y − s·x, by the tangent of half of the angle.

    Three shears take three operations where c and s take four: any matrix of
    determinant one is a product of shears (Daubechies and Sweldens, Factoring wavelet
    transforms into lifting steps, J. Fourier Anal. Appl. 4, 1998). The tangent is not
    above one, so that entries do not grow on the way.
    """
    x = fma(tangent, y, x)
    y = fma(-sine, x, y)
    return fma(tangent, y, x), y


@kernel
def _solve_pairs(d, e, n, z, columns, const):
    """Diagonalise the blocks of two rows."""
    before = fill(d[0], 0)
    for i in range(n - 1):
        between = e[i]
        after = e[i + 1] if i < n - 2 else fill(before, 0)
        alone = (before == const.zero) & (after == const.zero)
        before = between
        between = select(alone, between, const.zero)
        if not any_lane(between != const.zero):
            continue
        cosine, sine, step = _two_by_two(d[i], between, d[i + 1], const)
        d[i], d[i + 1] = d[i] + step, d[i + 1] - step
        # Zero, but for a NaN.
        e[i] = select(alone, step - step, before)
        row, next_row = z[i], z[i + 1]
        for k in range(columns):
            x, y = row[k], next_row[k]
            row[k] = fma(sine, y, cosine * x)
            next_row[k] = fma(-sine, x, cosine * y)


@inline
def _two_by_two(a, b, c, const):
    """As `bed.engines.scalar.two_by_two.two_by_two`, in every lane."""
    delta = (a - c) * const.half
    square = b * b
    size = abs(delta) + sqrt(fma(delta, delta, square))
    size = select(b == const.zero, const.one, size)
    inverse = const.one / sqrt(fma(size, size, square))
    along = select(delta >= const.zero, size, -size)
    cosine, sine = size * inverse, select(delta >= const.zero, b, -b) * inverse
    return cosine, sine, square / along
