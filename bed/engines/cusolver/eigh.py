"""cupy.linalg.eigh on a cleaned and scaled copy of the batch."""

import cupy

from bed.engines._library import finish, prepare
from bed.engines._outputs import allocate


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of CuPy arrays; see the contract in `bed.engines`.

    CuPy does not return cuSOLVER's convergence report, so a matrix counts as converged
    where its eigenvalues are finite.
    """
    batch, n, _ = a.shape
    w, v, status = out or allocate(
        cupy.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
    )
    scaled, exponent, finite = prepare(cupy, a, uplo)
    if eigenvectors:
        w[...], v[...] = cupy.linalg.eigh(scaled, UPLO=uplo)
    else:
        w[...] = cupy.linalg.eigvalsh(scaled, UPLO=uplo)
    converged = cupy.isfinite(w).all(axis=-1)
    finish(cupy, w, v, status, exponent, finite, converged)
    return w, v, status
