"""Give a library's own batched `eigh` the engine contract.

Libraries read the triangle they are told to and little else can be relied on: scale,
NaN, the imaginary diagonal, one failure in a batch. So every matrix is copied, cleaned,
scaled by a power of two and, where it is not finite, replaced by the identity first.
"""

import numpy as np

from bed._status import Status


def prepare(xp, a, uplo: str):
    """Copy the triangle that is read, scaled to max|a| in [0.5, 1), the rest zero.

    Parameters
    ----------
    a : (batch, n, n), read only

    Returns
    -------
    scaled : (batch, n, n); the identity where the input is not finite
    exponent : (batch,) int32, so that ``a = scaled * 2**exponent``
    finite : (batch,) bool
    """
    read = xp.tril(a) if uplo == "L" else xp.triu(a)  # a copy  # (batch, n, n)
    n = a.shape[-1]
    diagonal = xp.arange(n)
    if a.dtype.kind == "c":
        # The imaginary part of the diagonal is not part of the matrix.
        read[:, diagonal, diagonal] = read[:, diagonal, diagonal].real
        size = xp.maximum(abs(read.real), abs(read.imag))
    else:
        size = abs(read)
    largest = size.max(axis=(-2, -1))  # (batch,)
    finite = xp.isfinite(largest)  # max keeps NaN
    read = xp.where(finite[:, None, None], read, xp.eye(n, dtype=a.dtype))
    exponent = xp.frexp(xp.where(finite, largest, 1))[1]
    # In two halves: 2**-exponent alone may overflow where the product does not.
    half = exponent // 2
    read *= xp.ldexp(xp.ones_like(largest), -half)[:, None, None]
    read *= xp.ldexp(xp.ones_like(largest), half - exponent)[:, None, None]
    return read, exponent, finite


def finish(xp, w, v, status, exponent, finite, converged) -> None:
    """Scale the eigenvalues back, blank what failed, fill in the status; in place."""
    half = exponent // 2
    one = xp.ones((), dtype=w.dtype)
    with np.errstate(over="ignore", under="ignore"):  # the status tells
        w *= xp.ldexp(one, half)[:, None]
        w *= xp.ldexp(one, exponent - half)[:, None]
    overflow = xp.isinf(w).any(axis=-1)
    # As plain integers: CuPy takes no other scalars.
    status[...] = xp.where(overflow, int(Status.OVERFLOW), int(Status.OK))
    status[~converged] = int(Status.NO_CONVERGENCE)
    status[~finite] = int(Status.NOT_FINITE)
    failed = ~(finite & converged)
    w[failed] = xp.nan
    if v is not None:
        v[failed] = xp.nan
