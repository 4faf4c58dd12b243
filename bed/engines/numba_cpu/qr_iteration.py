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

# With known shifts, so many times larger entries are negligible: most of what one sweep
# leaves is below, and residuals are as without.
NEGLIGIBLE_IF_KNOWN = 8

# Up to so many eps an off-diagonal entry may be what rounding has left.
NOISE = 64


@kernel
def qr_iteration(d, e, n, z, columns, reach, half, s, shifts, known, const):
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
    shifts : (n,)
        What `d` returned before from the same T; not read if `known` is false.
    known : bool
        Whether to begin with these for shifts, see `_known_shift`.
    """
    _sweep_until_pairs(d, e, n, z, columns, reach, half, s, shifts, known, const)
    _solve_pairs(d, e, n, z, columns, const)


@kernel
def _sweep_until_pairs(d, e, n, z, columns, reach, half, s, shifts, known, const):
    """Sweep until no block has more than two rows, or give up."""
    eps = const.eps * NEGLIGIBLE_IF_KNOWN if known else const.eps
    tried = fill(d[0], -1)  # the last row of the block that was swept before
    for done in range(0, SWEEPS_PER_EIGENVALUE * n, 2):
        last, end = n - 1, 0
        for k in range(2):
            lo, hi, corner, last = _active(d, e, last, eps, const)
            if k == 0:
                end = last
            if last > 0:
                shift = _wilkinson_shift(corner, const)
                if known:
                    fresh = hi != tried
                    shift = _known_shift(shifts, shift, hi, fresh, corner, last, const)
                    tried = hi
                _sweep(d, e, lo, shift, last, columns, half[k], s[k], const)
            for i in range(last, end):
                half[k, i], s[k, i] = const.zero, const.zero
        if end == 0:
            return
        _rotate_rows(z, columns, reach + done, half, s, end)
        if last == 0:
            return
    _active(d, e, n - 1, eps, const)


@inline
def _known_shift(shifts, shift, hi, fresh, corner, last, const):
    """The eigenvalue that row `hi` had in the end, or `shift`, the Wilkinson shift.

    With an eigenvalue one sweep should split it off, where others take two (Greenbaum
    and Dongarra, Experiments with QR/QL methods for the symmetric tridiagonal
    eigenproblem, LAPACK working note 17, 1989). Rounding may get in the way, so it is
    tried once; and of a block that is rounding as a whole, in a matrix without full
    rank, it says nothing.
    """
    _, between, _ = corner
    fresh = fresh & (abs(between) > const.eps * NOISE)
    for i in range(2, last + 1):
        shift = select(fresh & (hi == i), shifts[i], shift)
    return shift


@inline
def _active(d, e, end, eps, const):
    """The rows that have to be worked on, and zero for what is negligible in `e`.

    Returns
    -------
    lo, hi
        In each lane the first and the last row of the lowest block of three rows or
        more, or −1.
    corner
        The last two diagonal entries of that block, and the entry between them.
    end : int
        The last row of such a block in any lane, or 0.
    """
    first = fill(d[0], 0)  # of the block that row i belongs to
    lo, last = first - 1, 0
    hi = lo
    above, between, below = first, first, first
    alone = first == const.zero  # whether a block begins with row i
    d_i = d[0]
    for i in range(end):
        d_next, e_i = d[i + 1], e[i]
        size = abs(e_i)
        # A NaN is not negligible.
        negligible = (size <= eps * (abs(d_i) + abs(d_next))) | (size < const.floor)
        e_i = select(negligible, const.zero, e_i)
        e[i] = e_i
        short = negligible | alone  # no more than two rows, up to here
        alone = negligible
        lo, hi = select(short, lo, first), select(short, hi, i + 1)
        if any_lane(~short):
            last = i + 1
        above = select(short, above, d_i)
        between = select(short, between, e_i)
        below = select(short, below, d_next)
        first = select(negligible, i + 1, first)
        d_i = d_next
    return lo, hi, (above, between, below), last


@kernel
def _sweep(d, e, lo, shift, end, columns, half, s, const):
    """Chase one bulge from row `lo` down in each lane, and note the rotations.

    For no columns they are not noted. A rotation is that of
    `bed.engines.scalar.rotations.givens`, but the identity wherever f is zero, and with
    c ≥ 0, where r has the sign of g. The next row does not wait for its square root:
    all that it needs at once follows from r², as in the variant of Pal, Walker and
    Kahan (Parlett, The Symmetric Eigenvalue Problem, section 8.15).
    """
    zero = fill(d[0], 0)
    cosine, sine, sine_square, p, g = zero + 1, zero, zero, zero, zero
    for i in range(end):
        d_i, e_i = d[i], e[i]
        start = lo == i
        before = g
        g = select(start, d_i - shift, g)
        sine = select(start, const.one, sine)
        sine_square = select(start, const.one, sine_square)
        f, b = sine * e_i, cosine * e_i
        square = fma(g, g, sine_square * (e_i * e_i))
        idle = (f == const.zero) | (square < const.tiny)
        inverse = const.one / square
        top = d_i - p
        t = fma(d[i + 1] - top, f, g * (b + b)) * inverse
        p = select(idle, const.zero, f * t)
        d[i] = top + p
        # Not f²/r²: f² may vanish where the sine is large.
        sine_square = select(idle, const.zero, f * inverse * f)
        # One rounding more than in 1/√r², and no second division.
        root = sqrt(inverse)
        negative = g < const.zero
        cosine = select(idle, const.one, abs(g) * root)
        sine = select(idle, const.zero, select(negative, -f, f) * root)
        r = select(idle, g, select(negative, -square, square) * root)
        if columns > 0:
            tangent = sine / (const.one + cosine)
            # Shears by what is not of one angle would stretch: the sine gets that of
            # the tangent, to first order in the rounding of c² + s² = 1.
            excess = fma(sine, sine, fma(cosine, cosine, -const.one))
            half[i], s[i] = tangent, fma(-const.half * tangent, excess, sine)
        if i > 0:
            e[i - 1] = select(start, before, r)
        g = select(idle, b, fma(g, t, -b))
    d[end] = d[end] - p
    e[end - 1] = g


@inline
def _wilkinson_shift(corner, const):
    """As `bed.engines.scalar.shifts.wilkinson_shift`; NaN where a = c and b = 0."""
    a, b, c = corner
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
