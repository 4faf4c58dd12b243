"""A few pairs from an end of the spectrum: bisection and twisted factorisations.

The stages are those of `eigh`, on a block of matrices, but only what is asked for is
computed after the first. With T the tridiagonal matrix, negated where the largest
eigenvalues are wanted, so that these are always the smallest:

- Eigenvalue j is bracketed by counts of negative pivots of T − x (Golub and Van Loan,
  section 8.4.1), which no matrix upsets: so often that the bracket is below rounding.
- At its lower end two factorisations of T − x, from above and from below, meet in the
  row r where their sum γ is smallest; the vector z with one in row r and zero elsewhere
  but for γ in the product (T − x) z is found without subtracting (B. N. Parlett and
  I. S. Dhillon, "Fernando's solution to Wilkinson's problem", 1997). x + γ/‖z‖² is its
  Rayleigh quotient.
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
from ._simd import fill, fma, maximum, minimum, select, sqrt
from ._store import fill_lost, judge, store_columns, store_rows, store_status, unscale
from ._tasks import solve_batch
from ._workspace import rows_beside
from .back_transform import reflect
from .eigh import eigh
from .tridiagonalize import tridiagonalize

# Of a residual in T, in units of n roundoffs: a quarter of what the whole may have.
RESIDUAL = 4

# With so many rows for each pair, and two more, pairs take less time than `eigh`. They
# are found one by one, and their eigenvalues bit by bit.
ROWS_A_PAIR = {"f": 4, "F": 4, "d": 6, "D": 6}


def extremal_pays(n, k, dtype):
    """Whether the function below takes less time than `eigh`."""
    return n >= ROWS_A_PAIR[dtype.char] * k + 2


def eigh_extremal(a, uplo="L", k=1, which="largest", *, out=None):
    """Pairs from an end of the spectrum; see the contract in `bed.engines`."""
    batch, n, _ = a.shape
    out = out or allocate_extremal(np.empty, (batch, n), k, a.dtype)
    if not extremal_pays(n, k, a.dtype):
        _solve_whole(a, uplo, k, which, out)
        return out
    solve_batch(_entries, (uplo == "L", which == "largest"), (a,), out)
    (left,) = np.nonzero(out[2] == Status.NO_CONVERGENCE)
    if left.size:
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
    """`arrays` are ``(a, lower, largest, w, v, status)``."""
    a, lower, largest, w, v, status = arrays
    n, planes, k = a.shape[1], work.planes, w.shape[1]
    load_matrices(a, start, count, lower, work)
    first, second, finite = scale(work.z, n, planes * n, planes, const)
    tridiagonalize(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.p, work.q, const
    )
    vectors, views, floats, memory = rows_beside(k, n, a, w, work)
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
    store_rows(work, work.d_at, start, count, w)
    for j in range(k):
        reflect(vectors[j], work.matrix, n, work.reflectors, work.tau)
    fill_lost(views, k, planes * n, lost)
    store_columns(floats, planes, start, count, v, const)
    return len(memory)  # used here, so that it is not freed before


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
    squares = work.s[1]
    low, high = _bounds(d, e, squares, n)
    tolerance = const.eps * (RESIDUAL * n)
    value = low
    solved = low == low
    for j in range(k):
        at = k - 1 - j if backwards else j
        low = _bisect(d, squares, n, j, low, high, const)
        x = vectors[at]
        step = _twisted(x, d, e, n, low, work, const)
        value = maximum(low + step, value)
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


@kernel
def _bisect(d, squares, n, j, low, high, const):
    """The lower end of a bracket of eigenvalue j, which is between `low` and `high`."""
    width = const.one
    while width > const.eps * const.half:
        x = (low + high) * const.half
        q, below = fill(x, 1), fill(x, 0)
        square = fill(x, 0)
        for i in range(n):
            q = _off_zero((d[i] - x) - square / q, const)
            below = select(q < const.zero, below + 1, below)
            square = squares[i]
        above = below > j
        high = select(above, x, high)
        low = select(above, low, x)
        width = width * const.half
    return low


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
    up, down, sums = work.c[0], work.c[1], work.s[0]
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
    solve = in_blocks(_solve_block, width)

    def extremal_batch(start, stop, lower, largest, a, w, v, status):
        solve(start, stop, a.shape[1], a, w, (a, lower, largest, w, v, status))

    return extremal_batch


def _signature(dtype, real):
    results = outputs(real, 2), outputs(dtype, 3), outputs(types.int32, 1)
    return types.boolean, types.boolean, inputs(dtype, 3), *results


_entries = Entries("eigh_extremal", _build, _signature)
