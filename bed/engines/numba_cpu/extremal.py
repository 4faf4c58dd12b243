"""A few pairs from an end of the spectrum: bisection and twisted factorisations.

The stages are those of `eigh`, on a block of matrices, but only what is asked for is
computed after the first. With T the tridiagonal matrix, negated where the largest
eigenvalues are wanted, so that these are always the smallest:

- Eigenvalue j is bracketed by counts of negative pivots of T − x (Golub and Van Loan,
  section 8.4.1), coarsely.
- From its lower end on, two factorisations of T − x, from above and from below, meet in
  the row r where their sum γ is smallest; the vector z with zᵣ = 1 for which (T − x) z
  = γ eᵣ is found without subtracting (B. N. Parlett and I. S. Dhillon, "Fernando's
  solution to Wilkinson's problem", 1997). x + γ/‖z‖² is its Rayleigh quotient, and the
  next x. Counts on both sides tell whether eigenvalue j is there. Where it is not, or
  that takes long, bisection goes on until the bracket is below rounding.
- Vectors are made orthogonal to those before, and reflectors applied to them alone.

Where eigenvalues coincide, one vector comes twice, and little is left of the second. A
matrix where that happens, or where a residual is not small, is left to `eigh`: whether
it is, depends on that matrix alone.
"""

import numpy as np
from numba import types

from bed._status import Status
from bed.engines._outputs import allocate_extremal, ends_at, forgive_overflow

from ._blocks import in_blocks
from ._compile import inline, kernel
from ._complex import number
from ._entries import Entries, inputs, outputs
from ._load import load_matrices, scale
from ._simd import any_lane, fill, fma, maximum, minimum, select, sqrt
from ._store import fill_lost, judge, store_columns, store_rows, store_status, unscale
from ._tasks import solve_batch
from ._vector_array import as_rows
from ._workspace import rows_beside, workspace_and_rows
from .back_transform import reflect
from .eigh import eigh
from .tridiagonalize import tridiagonalize

# Of a residual in T, in units of n roundoffs: a quarter of what the whole may have.
RESIDUAL = 4

# Where bisection gives way to Rayleigh quotients, in parts of the first bracket, and
# after how many of these it goes on.
COARSE = 2.0**-8
ROUNDS = 6

# The status of a matrix that is left to `eigh`, until that has solved it.
_LEFT = int(Status.NO_CONVERGENCE)

# With so many rows for each pair, and two more, pairs take less time than `eigh`, for
# all four dtypes: they are found one by one.
ROWS_A_PAIR = 4


def extremal_pays(n, k, dtype):
    """Whether the function below takes less time than `eigh`."""
    del dtype
    return n >= ROWS_A_PAIR * k + 2


def eigh_extremal(a, uplo="L", k=1, which="largest", *, out=None):
    """Pairs from an end of the spectrum; see the contract in `bed.engines`."""
    batch, n, _ = a.shape
    out = out or allocate_extremal(np.empty, (batch, n), k, a.dtype)
    if not extremal_pays(n, k, a.dtype):
        _solve_whole(a, uplo, k, which, out)
        return out
    solve_batch(_entries, (uplo == "L", which == "largest"), (a,), out)
    if out[2].any() and (left := np.flatnonzero(out[2] == _LEFT)).size:
        solved = allocate_extremal(np.empty, (left.size, n), k, a.dtype)
        _solve_whole(a[left], uplo, k, which, solved)
        for x, y in zip(out, solved, strict=True):
            x[left] = y
    return out


def _solve_whole(a, uplo, k, which, out):
    results = w, v, status = eigh(a, uplo)
    forgive_overflow(results, k, which)
    part = ends_at(w.shape[1], k, which)
    out[0][...], out[1][...], out[2][...] = w[:, part], v[:, :, part], status


@kernel
def _solve_block(start, count, arrays, work, const):
    """`arrays` are ``(n, k, lower, largest, a, w, v, status)``."""
    n, k, lower, largest, a, w, v, status = arrays
    planes = work.planes
    load_matrices(a, n, start, count, lower, work)
    first, second, finite = scale(work.z, n, planes * n, planes, const)
    tridiagonalize(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.scratch, const
    )
    vectors, views, _ = rows_beside(work, k, n)
    if largest:
        for i in range(n):
            work.d[i] = -work.d[i]
            work.e[i] = -work.e[i]
    solved = _smallest_pairs(vectors, k, largest, n, work, const)
    zero = fill(work.d[0], 0)
    left = select(solved, zero, zero + 1)
    for i in range(n):  # as what the iteration of `eigh` leaves
        work.d[i] = work.order[i] if i < k else zero
        work.e[i] = left
    unscale(work.d, n, first, second)
    lost = judge(work.d, work.e, n, finite, work.code, const)
    store_status(work, start, count, status)
    fill_lost(work.t, 1, k, lost)
    store_rows(work, work.d_at, k, start, count, w)
    for j in range(k):
        reflect(vectors[j], work.matrix, n, work.reflectors, work.tau)
    fill_lost(views, k, planes * n, lost)
    store_columns(work, n, k, start, count, v, const)


@kernel
def _smallest_pairs(vectors, k, backwards, n, work, const):
    """k eigenvalues of T to `work.order`, and eigenvectors to rows of `vectors`.

    Parameters
    ----------
    vectors : (k, n) numbers
    backwards : bool
        Whether T is negated: eigenvalues are stored negated and in reverse then.

    Returns
    -------
    solved
        Mask of the lanes where all are right.
    """
    d, e, values = work.d, work.e, work.order
    low, high = _bounds(d, e, work.s[1], n)
    tolerance = const.eps * (RESIDUAL * n)
    value, norm = low, maximum(-low, high)
    solved = norm >= const.zero  # everywhere
    for j in range(k):
        at = k - 1 - j if backwards else j
        x = vectors[at]
        low, found = _pair(x, j, n, low, high, norm, work, const)
        value = maximum(found, value)
        for i in range(j):
            _remove(x, vectors[k - 1 - i if backwards else i], n)
        if j > 0:
            solved = solved & (_normalize(x, n) >= const.half)
        residual = _residual(x, d, e, n, value)
        solved = solved & (residual <= tolerance * tolerance)
        values[at] = -value if backwards else value
    return solved


@inline
def _bounds(d, e, squares, n):
    """Bounds of all eigenvalues, by Gershgorin; `squares` gets those of e."""
    low, high, beside = d[0], d[0], fill(d[0], 0)
    for i in range(n):
        after = abs(e[i]) if i < n - 1 else fill(beside, 0)
        squares[i] = after * after
        low = minimum(low, d[i] - (beside + after))
        high = maximum(high, d[i] + (beside + after))
        beside = after
    return low, high


@inline
def _pair(x, j, n, low, high, norm, work, const):
    """Eigenvalue j, which is between `low` and `high`, and its vector x.

    Returns
    -------
    low
        A lower bound of this eigenvalue and of those after it.
    value
    """
    d, e, squares = work.d, work.e, work.s[1]
    small = const.eps * norm + const.tiny  # not zero, that a zero matrix has a radius
    width = const.one * COARSE
    low, high = _bisect(d, squares, n, j, low, high, const.one, width, const)
    bound, shift = low, low
    while True:  # a second time at most
        rounds = ROUNDS if width > const.eps else 1
        while True:
            step = _twisted(x, d, e, n, shift, work, const)
            far = abs(step) > small
            rounds -= 1
            if rounds <= 0 or not any_lane(far):
                break
            moved = minimum(maximum(shift + step, low), high)
            shift = select(far, moved, shift)
        value = shift + step
        if width <= const.eps:
            return bound, value
        certain = _encloses(d, squares, n, j, value, 4 * small, const) & ~far
        if not any_lane(~certain):
            return bound, value
        low, _ = _bisect(
            d, squares, n, j, low, high, width, const.eps * const.half, const
        )
        shift = select(certain, shift, low)
        width = const.eps


@kernel
def _bisect(d, squares, n, j, low, high, width, end, const):
    """A narrower bracket of eigenvalue j: its width goes from `width` to `end`."""
    while width > end:
        x = (low + high) * const.half
        q, square = fill(x, 1), fill(x, 0)
        below = square
        for i in range(n):
            q = _off_zero((d[i] - x) - square / q, const)
            below = select(q < const.zero, below + 1, below)
            square = squares[i]
        above = below > j
        high = select(above, x, high)
        low = select(above, low, x)
        width = width * const.half
    return low, high


@kernel
def _encloses(d, squares, n, j, value, radius, const):
    """Whether eigenvalue j is within a radius of a value."""
    x, y = value - radius, value + radius
    p, q, square = fill(x, 1), fill(x, 1), fill(x, 0)
    left, right = square, square
    for i in range(n):
        p = _off_zero((d[i] - x) - square / p, const)
        q = _off_zero((d[i] - y) - square / q, const)
        left = select(p < const.zero, left + 1, left)
        right = select(q < const.zero, right + 1, right)
        square = squares[i]
    return (left <= j) & (right > j)


@inline
def _off_zero(pivot, const):
    return select(abs(pivot) < const.tiny, -const.tiny, pivot)


@kernel
def _twisted(x, d, e, n, shift, work, const):
    """An eigenvector of T to the numbers x, of norm one, for an eigenvalue at `shift`.

    Returns
    -------
    step
        Its Rayleigh quotient, less the shift.
    """
    up, down, sums = work.half[0], work.half[1], work.s[0]
    pivot = d[0] - shift
    for i in range(n - 1):
        sums[i] = pivot
        factor = -e[i] / _off_zero(pivot, const)
        up[i] = factor
        pivot = fma(e[i], factor, d[i + 1] - shift)
    sum_, row = pivot, fill(pivot, n - 1)
    pivot = d[n - 1] - shift
    for i in range(n - 2, -1, -1):
        factor = -e[i] / _off_zero(pivot, const)
        down[i] = factor
        below = e[i] * factor
        pivot = (d[i] - shift) + below
        here = sums[i] + below
        smaller = abs(here) < abs(sum_)
        sum_ = select(smaller, here, sum_)
        row = select(smaller, i, row)

    zero = fill(pivot, 0)
    z = select(row == n - 1, const.one, zero)
    x[n - 1] = number(x, z, zero)
    for i in range(n - 2, -1, -1):
        z = select(row > i, up[i] * z, select(row == i, const.one, zero))
        x[i] = number(x, z, zero)
    for i in range(n - 1):
        z = select(row <= i, down[i] * x[i].real, x[i + 1].real)
        x[i + 1] = number(x, z, zero)
    return sum_ / _normalize(x, n)


@inline
def _normalize(x, n):
    """Divide real parts by their norm; the square of what that was."""
    total = fill(x[0].real, 0)
    for i in range(n):
        total = fma(x[i].real, x[i].real, total)
    inverse = 1 / sqrt(total)
    for i in range(n):
        x[i] = inverse * x[i]
    return total


@inline
def _remove(x, other, n):
    """Make x orthogonal to a vector of norm one, both real."""
    inner = fill(x[0].real, 0)
    for i in range(n):
        inner = fma(x[i].real, other[i].real, inner)
    for i in range(n):
        x[i] = fma(-inner, other[i], x[i])


@inline
def _residual(x, d, e, n, value):
    """|T x − value·x|² of a real x."""
    total, before = fill(value, 0), fill(value, 0)
    for i in range(n):
        part = fma(d[i] - value, x[i].real, before)
        if i < n - 1:
            part = fma(e[i], x[i + 1].real, part)
            before = e[i] * x[i].real
        total = fma(part, part, total)
    return total


def _build(width):
    solve = in_blocks(_solve_block, width, workspace_and_rows)

    def extremal_batch(start, stop, lower, largest, a, w, v, status):
        n, k = a.shape[1], w.shape[1]
        views = as_rows(a), as_rows(w), as_rows(v), as_rows(status)
        solve(start, stop, n, a, w, (n, k, lower, largest, *views))

    return extremal_batch


def _signature(dtype, real):
    results = outputs(real, 2), outputs(dtype, 3), outputs(types.int32, 1)
    return types.boolean, types.boolean, inputs(dtype, 3), *results


_entries = Entries("eigh_extremal", _build, _signature)
