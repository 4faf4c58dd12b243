"""Stage 2: what the reflectors of `tridiagonalize` make of rows.

Either they become Qᵀ, in their place, before the QR iteration rotates its rows.
Backward accumulation (Golub and Van Loan, section 5.1.6): reflector k meets only the
lower right block that the later ones have filled. No row of that needs another, so two
rows are taken through all their reflectors while they are in the cache. The last rows
come first, which frees row k, where reflector k is, after all that need it. Rows of Qᵀ
are what the rotations of the QR iteration combine.

Or the iteration rotates the rows of the identity, and its result is multiplied by Qᵀ.
Rotations are real: where matrices are complex that leaves them half of the columns,
which saves more than it costs that the reflectors meet full rows then.
"""

from ._compile import CHUNK, inline, kernel
from ._complex import fma, fma_conj, number
from ._rows import add, chunk, nothing, product_conj, put, take, together
from ._simd import minimum


@kernel
def back_transform(a, n, reflectors, tau, const):
    """Replace `a`, as `tridiagonalize` left it, by Qᵀ."""
    one, zero = number(a, const.one, const.zero), number(a, const.zero, const.zero)
    for i in range(n - 2, -1, -2):
        row, next_row = a[i], a[i + 1]
        if i < reflectors:
            _begin(next_row, row, tau[i], i + 1, n)
        else:
            next_row[i + 1] = one
        if i > 0:
            _apply(next_row, a[i - 1], tau[i - 1], i, n)
            _begin(row, a[i - 1], tau[i - 1], i, n)
            for j in range(1, i):
                row[j], next_row[j] = zero, zero
            _reflect_two(row, next_row, a, tau, i - 1, n)
    a[0, 0] = one
    for j in range(1, n):
        a[0, j] = zero
        a[j, 0] = zero


@kernel
def _begin(row, u, t, start, n):
    """Row `start` of I − τ ū uᵀ; the leading one of u is not read."""
    row[start] = number(row, 1 - t.real, -t.imag)
    for j in range(start + 1, n, together(row)):
        put(row, j, -t * take(u, j))


@kernel
def _apply(row, u, t, start, n):
    """A row times I − τ ū uᵀ; entry `start` is zero and is not read, nor u's one."""
    s, _ = _products(row, row, u, start + 1, n)
    s = -t * s
    row[start] = s
    _add(row, row, s, s, u, start + 1, n)


@inline
def _products(row_0, row_1, u, start, n):
    """xᵀū from `start` on for two rows x: an entry of u that is loaded serves both."""
    s_0, s_1 = number(row_0, 0, 0), number(row_0, 0, 0)
    for first in range(start, n, chunk(u)):
        part_0, part_1 = nothing(u), nothing(u)
        for j in range(first, minimum(first + chunk(u), n), together(u)):
            u_j = take(u, j)
            part_0 = product_conj(take(row_0, j), u_j, part_0)
            part_1 = product_conj(take(row_1, j), u_j, part_1)
        s_0, s_1 = add(s_0, part_0), add(s_1, part_1)
    return s_0, s_1


@inline
def _add(row_0, row_1, s_0, s_1, u, start, n):
    """Add multiples of u, from `start` on, to two rows, which may be the same."""
    for j in range(start, n, together(u)):
        u_j = take(u, j)
        x_0, x_1 = fma(s_0, u_j, take(row_0, j)), fma(s_1, u_j, take(row_1, j))
        put(row_0, j, x_0)
        put(row_1, j, x_1)


@kernel
def multiply(rows, z, a, n, reflectors, tau, const):
    """Multiply real rows, which `z` begins with, by Qᵀ to complex ones, in their place.

    Parameters
    ----------
    rows, z
        The same memory as (n, ≥ n) numbers and as vectors, of which two are a number.
    a, n, reflectors, tau
        As `tridiagonalize` left them.
    """
    for i in range(0, n, 2):
        # The last row of an odd number is done twice, at once.
        last = minimum(i + 1, n - 1)
        for row in range(i, last + 1):
            _widen(rows[row], z[row], n, const)
        _reflect_two(rows[i], rows[last], a, tau, reflectors, n)


@kernel
def _widen(row, reals, n, const):
    """Numbers from real parts in the same memory, from the end on: none is lost."""
    for j in range(n - 1, -1, -1):
        row[j] = number(row, reals[j], const.zero)


@kernel
def _reflect_two(row_0, row_1, a, tau, count, n):
    """As `_reflect`, of two rows, by reflectors count − 1 … 0. They get their ones.

    What one makes of the rows is multiplied by the next while it is in registers.
    """
    if count == 0:
        return
    s_0, s_1 = _products(row_0, row_1, a[count - 1], count + 1, n)
    for k in range(count - 1, 0, -1):
        u, t = a[k], -tau[k]
        s_0, s_1 = t * (row_0[k + 1] + s_0), t * (row_1[k + 1] + s_1)
        u[k + 1] = number(u, 1, 0)
        s_0, s_1 = _add_and_multiply(row_0, row_1, s_0, s_1, u, a[k - 1], k + 1, n)
    x_0, x_1, t = row_0[1], row_1[1], -tau[0]
    s_0, s_1 = t * (x_0 + s_0), t * (x_1 + s_1)
    row_0[1], row_1[1] = x_0 + s_0, x_1 + s_1
    _add(row_0, row_1, s_0, s_1, a[0], 2, n)


@inline
def _add_and_multiply(row_0, row_1, s_0, s_1, u, v, start, n):
    """`_add`, and what `_products` is of the sums and v."""
    sum_0, sum_1 = number(row_0, 0, 0), number(row_0, 0, 0)
    for first in range(start, n, chunk(u)):
        part_0, part_1 = nothing(u), nothing(u)
        for j in range(first, minimum(first + chunk(u), n), together(u)):
            u_j, v_j = take(u, j), take(v, j)
            x_0, x_1 = fma(s_0, u_j, take(row_0, j)), fma(s_1, u_j, take(row_1, j))
            put(row_0, j, x_0)
            put(row_1, j, x_1)
            part_0 = product_conj(x_0, v_j, part_0)
            part_1 = product_conj(x_1, v_j, part_1)
        sum_0, sum_1 = add(sum_0, part_0), add(sum_1, part_1)
    return sum_0, sum_1


@kernel
def reflect(x, a, n, reflectors, tau):
    """Q x in place of x (n,), with the reflectors that `tridiagonalize` left in `a`."""
    for k in range(reflectors - 1, -1, -1):
        _reflect(x, a[k], tau[k], k + 1, n)


@kernel
def _reflect(x, u, t, start, n):
    """x − τ (xᵀū) u, where u is zero before `start` and one there.

    The first term, which is often far larger than all others, is added last: small ones
    that are alike would all round the same way beside it.
    """
    s = number(x, 0, 0)
    for first in range(start + 1, n, CHUNK):
        part = number(x, 0, 0)
        for j in range(first, minimum(first + CHUNK, n)):
            part = fma_conj(x[j], u[j], part)
        s = s + part
    s = -t * (x[start] + s)
    x[start] = x[start] + s
    for j in range(start + 1, n):
        x[j] = fma(s, u[j], x[j])
