"""cupy.linalg.eigh on cleaned and scaled copies, in chunks that cuSOLVER can count."""

import cupy

from bed.engines._library import finish, prepare
from bed.engines._outputs import allocate

# CuPy calls cusolverDn<t>syevjBatched, which counts its workspace in a signed 32-bit
# integer and refuses a batch that needs 2³¹ elements or more. At n = 4 it asks for 1049
# a matrix, so that 2 047 171 matrices are the most, and at n = 2 for 1033
# (github.com/cupy/cupy/issues/7261): both are WORKSPACE + (n + 1)². NVIDIA publishes no
# formula, and these sizes are small, so chunks stay at a sixteenth of what that allows.
# It is still thousands of matrices, more than a GPU works on at a time, and it bounds
# the memory that copies take.
WORKSPACE = 1024
CHUNK_ELEMENTS = 2**27


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of CuPy arrays; see the contract in `bed.engines`.

    CuPy does not return cuSOLVER's convergence report, so a matrix counts as converged
    where its eigenvalues are finite. Copies and workspace of a chunk of the batch are
    allocated, so what is allocated does not grow with the batch beyond a chunk.
    """
    batch, n, _ = a.shape
    w, v, status = out or allocate(
        cupy.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
    )
    step = chunk(n)
    for start in range(0, batch, step):
        part = slice(start, start + step)
        v_part = v[part] if eigenvectors else None
        _solve(a[part], uplo, w[part], v_part, status[part])
    return w, v, status


def chunk(n: int) -> int:
    """Matrices of a call of cuSOLVER; depends on their size alone."""
    return max(1, CHUNK_ELEMENTS // (WORKSPACE + (n + 1) ** 2))


def _solve(a, uplo, w, v, status) -> None:
    """Fill the outputs for one chunk; `v` is None without eigenvectors."""
    scaled, exponent, finite = prepare(cupy, a, uplo)
    # CuPy takes the batched routine for any array of three dimensions, so that a chunk
    # of one matrix is solved like all others.
    if v is None:
        w[...] = cupy.linalg.eigvalsh(scaled, UPLO=uplo)
    else:
        w[...], v[...] = cupy.linalg.eigh(scaled, UPLO=uplo)
    converged = cupy.isfinite(w).all(axis=-1)
    finish(cupy, w, v, status, exponent, finite, converged)
