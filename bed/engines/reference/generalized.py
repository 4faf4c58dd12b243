"""The generalised problem A x = λ B x around an `eigh` of any engine.

With B = L Lᴴ, C = L⁻¹ A L⁻ᴴ has the same eigenvalues, and eigenvectors u = Lᴴ x (Golub
and Van Loan, algorithm 8.7.1). Every step is one for the whole batch, and updates all
that is left at once: no sums, whose order a library may choose by strides.

Rows and columns are scaled by powers of two, so that the diagonal of B is of order one:
nothing overflows or underflows on the way, whatever the units, and no rounding changes.
"""

import numpy as np
from array_api_compat import array_namespace, device

from bed._status import Status
from bed.engines._float_mode import default_float_mode

from .back_transform import conjugate_transpose
from .eigh import eigh, halves, hermitian, scale


@np.errstate(all="ignore")
@default_float_mode()
def eigh_generalized(a, b, uplo="L", *, eigenvectors=True, out=None, solve=eigh):
    """Eigenvalues and eigenvectors of a batch of pairs; see the contract.

    Takes memory for some six batches of matrices.

    Parameters
    ----------
    solve : callable
        The `eigh` of an engine.
    """
    xp = array_namespace(a, b)
    full_a, full_b = hermitian(a, uplo), hermitian(b, uplo)  # (batch, n, n)
    finite = xp.all(xp.isfinite(full_a) & xp.isfinite(full_b), axis=(1, 2))  # (batch,)
    scaled, exponent = scale(xp.where(finite[:, None, None], full_a, 0))
    roots, definite = _roots(full_b)
    inverse = _power(-roots, full_b)  # (batch, n)
    smallest = xp.min(roots, axis=1)
    ratio = _power(smallest[:, None] - roots, full_b)
    scaled_b = full_b * inverse[:, :, None] * inverse[:, None, :]
    factor, definite = cholesky(scaled_b, definite)
    c = scaled * ratio[:, :, None] * ratio[:, None, :]
    for _ in range(2):  # (L⁻¹ (L⁻¹ A)ᴴ)ᴴ
        c = conjugate_transpose(solve_lower(factor, c))
    known = (finite & definite)[:, None, None]
    c = xp.where(known, c, xp.nan)

    w, v, status = solve(c, "L", eigenvectors=eigenvectors, out=out)
    largest = _power(-smallest, full_b)  # (batch,)
    for factor_w in halves(exponent, w.dtype):  # by turns, for range
        w[...] = w * xp.clip(factor_w * largest, max=xp.finfo(w.dtype).max)[:, None]
    overflow = (status == int(Status.OK)) & xp.any(xp.isinf(w), axis=1)
    status[...] = xp.where(overflow, int(Status.OVERFLOW), status)
    status[...] = xp.where(definite, status, int(Status.NOT_DEFINITE))
    status[...] = xp.where(finite, status, int(Status.NOT_FINITE))
    if eigenvectors:
        v[...] = solve_adjoint(factor, v) * inverse[:, :, None]
    return w, v, status


def _roots(b):
    """Exponents k (batch, n) of powers of two, with bᵢᵢ in [1, 4)·4^kᵢ.

    Also whether all of the diagonal is positive and finite, (batch,).
    """
    xp = array_namespace(b)
    diagonal = xp.stack([xp.real(b[:, i, i]) for i in range(b.shape[1])], axis=1)
    positive = (diagonal > 0) & xp.isfinite(diagonal)
    exponent = xp.floor(xp.log2(xp.where(positive, diagonal, 1)) / 2)
    return xp.astype(exponent, xp.int64), xp.all(positive, axis=1)


def _power(exponent, like):
    """2**exponent in the real dtype of matrices, of (batch, n) integers."""
    first, second = halves(exponent, array_namespace(like).real(like[:1, 0, 0]).dtype)
    return first * second


def cholesky(b, definite):
    """Lower triangular L with B = L Lᴴ, column by column.

    Parameters
    ----------
    b : (batch, n, n) array
        Of order one.
    definite : (batch,) bool array
        Where this is known to be possible so far.

    Returns
    -------
    factor : (batch, n, n) array
        With anything above the diagonal, and anything where it is not possible.
    definite : (batch,) bool array
        Where all pivots are positive.
    """
    xp = array_namespace(b)
    factor = _copy(b)
    for k in range(b.shape[1]):
        pivot = xp.real(factor[:, k, k])
        definite = definite & (pivot > 0)
        root = xp.sqrt(xp.where(definite, pivot, 1))
        column = factor[:, k + 1 :, k] / root[:, None]
        factor[:, k, k] = root
        factor[:, k + 1 :, k] = column
        factor[:, k + 1 :, k + 1 :] -= column[:, :, None] * xp.conj(column)[:, None, :]
    return factor, definite


def solve_lower(factor, x):
    """L⁻¹ X for (batch, n, n) arrays, row by row from the first on."""
    x = _copy(x)
    for k in range(x.shape[1]):
        row = x[:, k, :] / factor[:, k, k, None]
        x[:, k, :] = row
        x[:, k + 1 :, :] -= factor[:, k + 1 :, k, None] * row[:, None, :]
    return x


def solve_adjoint(factor, x):
    """L⁻ᴴ X for (batch, n, n) arrays, row by row from the last on."""
    xp = array_namespace(factor, x)
    x = _copy(x)
    for k in reversed(range(x.shape[1])):
        row = x[:, k, :] / factor[:, k, k, None]
        x[:, k, :] = row
        x[:, :k, :] -= xp.conj(factor[:, k, :k, None]) * row[:, None, :]
    return x


def _copy(x):
    """In C order whatever the strides, and to be written."""
    copied = array_namespace(x).empty(x.shape, dtype=x.dtype, device=device(x))
    copied[...] = x
    return copied
