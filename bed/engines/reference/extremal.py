"""A few pairs from an end of the spectrum: bisection and twisted factorisations.

After stage 1 only what is asked for is computed. With T the tridiagonal matrix, negated
where the largest eigenvalues are wanted, so that these are always the smallest:

1. Eigenvalue j is bracketed by counts of negative pivots of T − x (Golub and Van Loan,
   section 8.4.1), until the bracket is below rounding.
2. At its lower end two factorisations of T − x, from above and from below, meet in the
   row r where their sum γ is smallest in magnitude. The vector z with zᵣ = 1 for which
   (T − x) z = γ eᵣ follows from their pivots without a subtraction, and x + γ/‖z‖² is
   its Rayleigh quotient (B. N. Parlett and I. S. Dhillon, "Fernando's solution to
   Wilkinson's problem", Linear Algebra and its Applications 267, 1997).
3. Vectors are made orthogonal to those before, and the reflectors applied to them.

Where eigenvalues coincide one vector comes twice, and little is left of the second. A
matrix where that happens, or where a residual is not small, is left to `eigh`.
"""

import numpy as np
from array_api_compat import array_namespace, device

from bed._status import Status
from bed.engines._float_mode import default_float_mode
from bed.engines._outputs import ends_at

from .eigh import eigh, hermitian, scale, unscale
from .tridiagonalize import tridiagonalize

# Of a residual in T, in units of n·eps: a quarter of what is promised for the whole.
RESIDUAL = 2


def extremal_pays(n, k, dtype):
    """Whether the function below does less than `eigh`: few vectors of many."""
    del dtype
    return n > 2 * k


@np.errstate(all="ignore")
@default_float_mode()
def eigh_extremal(a, uplo="L", k=1, which="largest", *, out=None):
    """Pairs from an end of the spectrum; see the contract in `bed.engines`.

    Returns
    -------
    w : (batch, k) real array
        Ascending.
    v : (batch, n, k) array
    status : (batch,) int32 array
    """
    xp = array_namespace(a)
    batch, n, _ = a.shape
    full = hermitian(a, uplo)  # (batch, n, n)
    finite = xp.all(xp.isfinite(full), axis=(1, 2))  # (batch,)
    scaled, exponent = scale(xp.where(finite[:, None, None], full, 0))
    d, e, u, weights, phases = tridiagonalize(scaled)
    sign = -1 if which == "largest" else 1
    w, z, solved = smallest_pairs(sign * d, sign * e, k)
    order = slice(None, None, sign)  # ascending again
    w = unscale(sign * w[:, order], exponent)
    v = _reflect(z[:, :, order], u, weights, phases)

    status = xp.zeros(batch, dtype=xp.int32, device=device(a))
    status = xp.where(xp.any(xp.isinf(w), axis=1), int(Status.OVERFLOW), status)
    status = xp.where(finite, status, int(Status.NOT_FINITE))
    w = xp.where(finite[:, None], w, xp.nan)
    v = xp.where(finite[:, None, None], v, xp.nan)
    left = finite & ~solved
    if xp.any(left):
        part = ends_at(n, k, which)
        all_w, all_v, found = eigh(a[left, :, :], uplo)
        w[left, :], v[left, :, :] = all_w[:, part], all_v[:, :, part]
        infinite = xp.any(xp.isinf(w[left, :]), axis=1)
        overflow = found == int(Status.OVERFLOW)
        status[left] = xp.where(overflow & ~infinite, int(Status.OK), found)
    if out is None:
        return w, v, status
    for x, result in zip(out, (w, v, status), strict=True):
        x[...] = result
    return out


def smallest_pairs(d, e, k):
    """The k smallest eigenvalues of T, and their eigenvectors.

    Parameters
    ----------
    d : (batch, n) array
        Diagonals, of order one.
    e : (batch, n - 1) array
        Off-diagonals.

    Returns
    -------
    w : (batch, k) array
        Ascending.
    z : (batch, n, k) array
        As columns.
    solved : (batch,) bool array
        Whether all are right to rounding.
    """
    xp = array_namespace(d)
    n = d.shape[1]
    tolerance = RESIDUAL * n * float(xp.finfo(d.dtype).eps)
    low = bisect(d, e, k)
    columns: list = []
    w = xp.empty_like(low)
    solved = xp.all(xp.isfinite(d), axis=1)
    for j in range(k):
        x, step = twisted(d, e, low[:, j])
        for other in columns:
            x = x - _sum(x * other)[:, None] * other
        square = _sum(x * x)
        solved = solved & (square >= 0.5)
        x = x / xp.sqrt(square)[:, None]
        w[:, j] = low[:, j] + step
        if j > 0:
            w[:, j] = xp.maximum(w[:, j], w[:, j - 1])
        difference = (d - w[:, j : j + 1]) * x
        difference[:, 1:] += e * x[:, :-1]
        difference[:, :-1] += e * x[:, 1:]
        solved = solved & (_sum(difference**2) <= tolerance**2)
        columns.append(x)
    return w, xp.stack(columns, axis=2), solved


def bisect(d, e, k):
    """Lower ends (batch, k) of brackets of the k smallest eigenvalues."""
    xp = array_namespace(d)
    info = xp.finfo(d.dtype)
    beside = xp.zeros_like(d)
    beside[:, 1:] += xp.abs(e)
    beside[:, :-1] += xp.abs(e)
    low = xp.min(d - beside, axis=1)[:, None]  # (batch, 1)
    high = xp.max(d + beside, axis=1)[:, None]
    wanted = xp.arange(k, device=device(d))
    low, high = (xp.broadcast_to(x, (d.shape[0], k)) for x in (low, high))
    width = 1.0
    while width > float(info.eps) / 4:
        x = (low + high) / 2
        below = xp.zeros_like(x)
        pivot = xp.ones_like(x)
        for i in range(d.shape[1]):
            pivot = d[:, i : i + 1] - x - (e[:, i - 1 : i] ** 2 / pivot if i else 0)
            pivot = _off_zero(pivot)
            below = below + xp.astype(pivot < 0, below.dtype)
        above = below > wanted
        low, high = xp.where(above, low, x), xp.where(above, x, high)
        width /= 2
    return low


def twisted(d, e, shift):
    """An eigenvector (batch, n) of T for an eigenvalue at `shift`.

    Returns
    -------
    x : (batch, n) array
        Of norm one.
    step : (batch,) array
        Its Rayleigh quotient, less the shift.
    """
    xp = array_namespace(d)
    n = d.shape[1]
    t = d - shift[:, None]
    above, below = xp.asarray(t, copy=True), xp.asarray(t, copy=True)
    for i in range(n - 1):
        above[:, i + 1] -= e[:, i] ** 2 / _off_zero(above[:, i])
        k = n - 2 - i
        below[:, k] -= e[:, k] ** 2 / _off_zero(below[:, k + 1])
    sums = above + below - t
    row = xp.argmin(xp.abs(sums), axis=1)  # (batch,)
    x = xp.astype(xp.arange(n, device=device(d)) == row[:, None], d.dtype)
    for i in range(n - 1):
        k = n - 2 - i
        follow = -e[:, k] / _off_zero(above[:, k]) * x[:, k + 1]
        x[:, k] = xp.where(row > k, follow, x[:, k])
    for i in range(n - 1):
        follow = -e[:, i] / _off_zero(below[:, i + 1]) * x[:, i]
        x[:, i + 1] = xp.where(row <= i, follow, x[:, i + 1])
    square = _sum(x * x)
    smallest = sums[xp.arange(d.shape[0], device=device(d)), row]
    return x / xp.sqrt(square)[:, None], smallest / square


def _reflect(z, u, weights, phases):
    """P z for vectors (batch, n, k), with P of `tridiagonalize`."""
    xp = array_namespace(u)
    x = phases[:, :, None] * xp.astype(z, u.dtype)
    for k in range(u.shape[2] - 1, -1, -1):
        u_k = u[:, :, k : k + 1]  # (batch, n, 1)
        inner = xp.sum(xp.conj(u_k) * x, axis=1)[:, None, :]
        x = x - 2 * weights[:, k][:, None, None] * u_k * inner
    return x


def _off_zero(pivot):
    """A pivot that can be divided by; what replaces zero counts as negative."""
    xp = array_namespace(pivot)
    tiny = float(xp.finfo(pivot.dtype).smallest_normal)
    return xp.where(xp.abs(pivot) < tiny, -tiny, pivot)


def _sum(x):
    return array_namespace(x).sum(x, axis=-1)
