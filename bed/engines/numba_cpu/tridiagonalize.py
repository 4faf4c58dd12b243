"""Stage 1: Householder reduction of Hermitian matrices to real tridiagonal ones.

A = Q T Qᴴ with Q = H₀ H₁ …; the paper's section 3.1 (symmetric rank-2 update, eqs. 5
and 6) in the numbering of Golub and Van Loan, algorithm 8.3.1.

Of a matrix only the upper triangle is held, so that a reflector, which is a conjugated
column of the lower one, is a row and contiguous. Two rows are worked on at a time: each
entry of u, p and q that is loaded serves both. Where real matrices are too large for
the first cache, the update of a step waits, but for the row that becomes a reflector,
until the next one passes over the matrix to multiply it.

Sums are made of short parts, and of groups of these: terms that are all alike, as in a
matrix of equal entries, round the same way every time, and a running sum of n of them
would lose n units in the last place.
"""

from ._compile import GROUP, by_type, inline, kernel
from ._complex import ComplexVector, conj, fma, fma_conj, number, reciprocal, select
from ._rows import (
    add,
    chunk,
    nothing,
    product,
    product_real,
    put,
    take,
    together,
)
from ._simd import fill, minimum, sqrt

# Size from which on the updates of real matrices wait.
LARGE = 24


@kernel
def tridiagonalize(a, n, reflectors, d, e, tau, scratch, const):
    """Reduce `a` in place.

    Parameters
    ----------
    a : (n, ≥ n)
        Upper triangle, of order one. On return row k < reflectors holds the reflector
        uₖ in columns k+1 …, with its leading one.
    reflectors : int
        n − 2 for real matrices; n − 1 for complex ones, where the last reflector makes
        the last off-diagonal entry real. Not negative.
    d, e : (n,)
        Diagonal and off-diagonal of T, real; n − 1 of the latter are set.
    tau : (n,)
        Factors of the reflectors.
    scratch : tuple of three (n,)
    """
    p, q, r = scratch
    waits = _waits(a, n)
    for k in range(reflectors):
        d[k] = a[k, k].real
        row = a[k]  # the conjugate of column k
        beta, t, scale = _reflector(a, conj(row[k + 1]), _tail(row, k + 2, n), const)
        e[k] = beta
        tau[k] = t
        row[k + 1] = number(a, const.one, const.zero)
        for j in range(k + 2, n, together(row)):
            put(row, j, scale * conj(take(row, j)))
        if k < n - 2:  # a phase does not change the last diagonal entry
            if k == 0 or not waits:
                _multiply(a, row, p, q, k + 1, n, const)
            else:
                _update_and_multiply(a, a[k - 1], r, row, p, q, k + 1, n, const)
            _complete(row, t, p, q, k + 1, n, const)
            if waits and k < n - 3:
                _update_row(a[k + 1], row, p, k + 1, n)
                p, r = r, p
            else:
                _rank_2_update(a, row, p, k + 1, n)
    for k in range(reflectors, n):
        d[k] = a[k, k].real
        if k < n - 1:
            e[k] = a[k, k + 1].real


@inline
def _reflector(a, first, tail, const):
    """β, τ and 1/(x₀ − β) of the vectors x that begin with `first`.

    As `bed.engines.scalar.reflectors.reflector`, which see, in every lane.
    """
    real, imag = first.real, first.imag
    beyond = fma(imag, imag, tail)
    idle = beyond <= const.negligible
    norm = sqrt(fma(real, real, beyond))
    beta = select(real > const.zero, -norm, norm)
    none = number(a, const.zero, const.zero)
    gap = real - beta
    scale = reciprocal(number(a, gap, imag))
    t = number(a, -gap / beta, -imag / beta)
    return select(idle, real, beta), select(idle, none, t), select(idle, none, scale)


@inline
def _tail(row, start, n):
    """Σ |row[j]|² over j ≥ start."""
    total = zero = fill(row[start - 1].real, 0)
    for begin in range(start, n, GROUP):
        group = zero
        for first in range(begin, minimum(begin + GROUP, n), chunk(row)):
            part = nothing(row).real
            for j in range(first, minimum(first + chunk(row), n), together(row)):
                x = take(row, j)
                part = product_real(x, x, part)
            group = add(group, part)
        total = total + group
    return total


@kernel
def _multiply(a, u, y, other, start, n, const):
    """y = A u on rows and columns ≥ start of the upper triangle `a`.

    Every entry is used twice, for its row and for its mirror image. The latter sums are
    collected in `y` and in `other` by turns, for shorter chains of rounding errors.
    """
    none, zero = nothing(a), number(a, const.zero, const.zero)
    for j in range(start, n, together(y)):
        put(y, j, none)
        put(other, j, none)
    i = start
    while i + 1 < n:
        row_0, row_1 = a[i], a[i + 1]
        u_0, u_1 = u[i], u[i + 1]
        corner = row_0[i + 1]
        y_0 = fma(row_0[i].real, u_0, corner * u_1)
        y_1 = fma(row_1[i + 1].real, u_1, u_0 * conj(corner))
        for begin in range(i + 2, n, GROUP):
            group_0, group_1 = zero, zero
            for first in range(begin, minimum(begin + GROUP, n), chunk(a)):
                part_0, part_1 = none, none
                for j in range(first, minimum(first + chunk(a), n), together(a)):
                    a_0, a_1, u_j = take(row_0, j), take(row_1, j), take(u, j)
                    part_0 = product(a_0, u_j, part_0)
                    part_1 = product(a_1, u_j, part_1)
                    put(y, j, take(y, j) + fma_conj(u_1, a_1, u_0 * conj(a_0)))
                group_0, group_1 = add(group_0, part_0), add(group_1, part_1)
            y_0, y_1 = y_0 + group_0, y_1 + group_1
        y[i], y[i + 1] = y[i] + y_0, y[i + 1] + y_1
        y, other = other, y
        i += 2
    if i < n:
        y[i] = fma(a[i, i].real, u[i], y[i])


def _waits(a, n):
    """Whether an update waits for the next multiplication; no bit depends on it.

    Complex numbers would need more registers than there are for both in one pass.
    """
    raise NotImplementedError


@by_type(_waits)
def _waits_of(a, n):
    if isinstance(a.dtype, ComplexVector):
        return lambda a, n: False
    return lambda a, n: n >= LARGE


@inline
def _updated(x, minus_u_i, minus_q_i, u_j, q_j):
    """Entry (i, j) of A − q uᴴ − u qᴴ, of which x is that of A."""
    return fma_conj(minus_u_i, q_j, fma_conj(minus_q_i, u_j, x))


@kernel
def _update_and_multiply(a, u, q, x, y, other, start, n, const):
    """`_rank_2_update` by u and q and `_multiply` by x, in one pass."""
    none, zero = nothing(a), number(a, const.zero, const.zero)
    for j in range(start, n, together(y)):
        put(y, j, none)
        put(other, j, none)
    i = start
    while i + 1 < n:
        row_0, row_1 = a[i], a[i + 1]
        u_0, u_1, q_0, q_1 = -u[i], -u[i + 1], -q[i], -q[i + 1]
        x_0, x_1 = x[i], x[i + 1]
        a_0 = _updated(row_0[i], u_0, q_0, u[i], q[i])
        corner = _updated(row_0[i + 1], u_0, q_0, u[i + 1], q[i + 1])
        a_1 = _updated(row_1[i + 1], u_1, q_1, u[i + 1], q[i + 1])
        row_0[i], row_0[i + 1], row_1[i + 1] = a_0, corner, a_1
        y_0 = fma(a_0.real, x_0, corner * x_1)
        y_1 = fma(a_1.real, x_1, x_0 * conj(corner))
        for begin in range(i + 2, n, GROUP):
            group_0, group_1 = zero, zero
            for first in range(begin, minimum(begin + GROUP, n), chunk(a)):
                part_0, part_1 = none, none
                for j in range(first, minimum(first + chunk(a), n), together(a)):
                    u_j, q_j, x_j = take(u, j), take(q, j), take(x, j)
                    new_0 = _updated(take(row_0, j), u_0, q_0, u_j, q_j)
                    new_1 = _updated(take(row_1, j), u_1, q_1, u_j, q_j)
                    put(row_0, j, new_0)
                    put(row_1, j, new_1)
                    part_0 = product(new_0, x_j, part_0)
                    part_1 = product(new_1, x_j, part_1)
                    put(y, j, take(y, j) + fma_conj(x_1, new_1, x_0 * conj(new_0)))
                group_0, group_1 = add(group_0, part_0), add(group_1, part_1)
            y_0, y_1 = y_0 + group_0, y_1 + group_1
        y[i], y[i + 1] = y[i] + y_0, y[i + 1] + y_1
        y, other = other, y
        i += 2
    if i < n:
        a_i = _updated(a[i, i], -u[i], -q[i], u[i], q[i])
        a[i, i] = a_i
        y[i] = fma(a_i.real, x[i], y[i])


@kernel
def _update_row(row, u, q, i, n):
    """Row i of what `_rank_2_update` makes."""
    u_i, q_i = -u[i], -q[i]
    for j in range(i, n, together(row)):
        put(row, j, _updated(take(row, j), u_i, q_i, take(u, j), take(q, j)))


@kernel
def _complete(u, t, p, other, start, n, const):
    """From p + other = A u to q = τ p − (|τ|² uᴴp/2) u: HᴴAH = A − q uᴴ − u qᴴ."""
    inner = zero = fill(u[start].real, 0)
    for begin in range(start, n, GROUP):
        group = zero
        for first in range(begin, minimum(begin + GROUP, n), chunk(p)):
            part = nothing(p).real
            for j in range(first, minimum(first + chunk(p), n), together(p)):
                x, y = take(u, j), take(p, j) + take(other, j)
                part = product_real(x, y, part)
                put(p, j, y)
            group = add(group, part)
        inner = inner + group
    square = fma(t.real, t.real, t.imag * t.imag)
    factor = -const.half * square * inner
    for j in range(start, n, together(p)):
        put(p, j, fma(factor, take(u, j), t * take(p, j)))


@kernel
def _rank_2_update(a, u, q, start, n):
    """A − q uᴴ − u qᴴ on rows and columns ≥ start of the upper triangle `a`."""
    i = start
    while i + 1 < n:
        row_0, row_1 = a[i], a[i + 1]
        u_0, u_1, q_0, q_1 = -u[i], -u[i + 1], -q[i], -q[i + 1]
        row_0[i] = _updated(row_0[i], u_0, q_0, u[i], q[i])
        for j in range(i + 1, n, together(a)):
            u_j, q_j = take(u, j), take(q, j)
            new_0 = _updated(take(row_0, j), u_0, q_0, u_j, q_j)
            new_1 = _updated(take(row_1, j), u_1, q_1, u_j, q_j)
            put(row_0, j, new_0)
            put(row_1, j, new_1)
        i += 2
    if i < n:
        a[i, i] = _updated(a[i, i], -u[i], -q[i], u[i], q[i])
