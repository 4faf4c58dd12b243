"""Functions of matrices, V diag(f(w)) Vᴴ; see the contract in `bed.engines`.

Any engine that has `eigh` has them by this: none needs one of its own.
"""

import numpy as np
from array_api_compat import array_namespace, device

from bed._derivative import divided_differences
from bed._status import Status
from bed.engines._float_mode import default_float_mode

from .back_transform import conjugate_transpose
from .eigh import eigh as _eigh
from .eigh import hermitian


def spectral(a, uplo, function, *, out=None, eigh=_eigh):
    """f(A) of a batch of matrices.

    Parameters
    ----------
    a : (batch, n, n) array
    uplo : {"L", "U"}
    function : Spectral
    out : tuple of arrays, optional
        ``(f, w, v, status)`` to fill; `w` and `v` may be None, and are not kept then.
    eigh : callable, optional
        That of an engine.

    Returns
    -------
    f : (batch, n, n) array, Hermitian
    w : (batch, n) real array or None
    v : (batch, n, n) array or None
    status : (batch,) int32 array
    """
    xp = array_namespace(a)
    if out is None:
        w, v, failure = eigh(a, uplo)
        f, status = spectral_product(w, v, function)
        kept = w, v
    else:
        f, *kept, status = out
        shapes = a.shape[:-1], a.shape
        dtypes = xp.real(a[:0, 0, 0]).dtype, a.dtype
        w, v = (
            xp.empty(shape, dtype=dtype, device=device(a)) if x is None else x
            for x, shape, dtype in zip(kept, shapes, dtypes, strict=True)
        )
        failure = xp.empty_like(status)
        eigh(a, uplo, out=(w, v, failure))
        spectral_product(w, v, function, out=(f, status))
    unsolved = failure == int(Status.NO_CONVERGENCE)  # the other one shows in w
    status[...] = xp.where(unsolved, failure, status)
    return f, *kept, status


@np.errstate(all="ignore")
@default_float_mode()
def spectral_product(w, v, function, *, out=None):
    """f(A) from the eigenvalues and eigenvectors of A.

    Parameters
    ----------
    w : (batch, n) real array
    v : (batch, n, n) array
    function : Spectral
    out : tuple of arrays, optional
        ``(f, status)`` to fill.

    Returns
    -------
    f : (batch, n, n) array, Hermitian
    status : (batch,) int32 array
    """
    xp = array_namespace(w, v)
    w, v = c_ordered(w), c_ordered(v)
    values = divided_differences.values(function, w)
    f = xp.matmul(v * values[:, None, :], conjugate_transpose(v))
    status = xp.zeros(w.shape[0], dtype=xp.int32, device=device(w))
    overflow = xp.any(xp.isinf(values), axis=1)
    status = xp.where(overflow, int(Status.OVERFLOW), status)
    outside = xp.any(xp.isnan(values), axis=1)
    status = xp.where(outside, int(Status.DOMAIN), status)
    failed = xp.any(xp.isnan(w), axis=1)
    status = xp.where(failed, int(Status.NOT_FINITE), status)
    # Products round (i, j) and (j, i) differently.
    f = xp.where(outside[:, None, None], xp.nan, hermitian(f))
    if out is None:
        out = xp.empty_like(f), xp.empty(w.shape[0], dtype=xp.int32, device=device(w))
    out[0][...] = f
    out[1][...] = status
    return out


def c_ordered(x):
    """A copy in C order: strides would decide about the last bits of products."""
    xp = array_namespace(x)
    copy = xp.empty(x.shape, dtype=x.dtype, device=device(x))
    copy[...] = x
    return copy
