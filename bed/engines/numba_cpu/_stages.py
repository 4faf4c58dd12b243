"""The stages of the solver by themselves, for batches.

`tridiagonalize` is stages one and two, `eigh_tridiagonal` stage three. Like `eigh` they
take any strides, never write to their input, and give a matrix the same bits wherever
in a batch it is.
"""

import numpy as np
from numba import types

from bed.engines._outputs import allocate, allocate_reduced

from ._blocks import in_blocks
from ._compile import kernel
from ._entries import Entries, inputs, outputs
from ._load import load_matrices, load_tridiagonal, scale
from ._store import fill_lost, keep_order, store_rows, store_vectors, unscale
from ._tasks import solve_batch
from ._vector_array import as_rows
from .back_transform import back_transform
from .eigh import ALONE_FROM, NO_VECTORS, diagonalize, set_identity
from .tridiagonalize import tridiagonalize as reduce_block


def tridiagonalize(a, uplo="L", *, out=None):
    """Reduce a batch of symmetric or Hermitian matrices to real tridiagonal ones.

    A = Q T Qᴴ by Householder reflectors (Golub and Van Loan, algorithm 8.3.1), with
    errors within 8·n·eps of max|a|.

    Parameters
    ----------
    a : (batch, n, n) array
        float32, float64, complex64 or complex128; n ≥ 1.
    uplo : {"L", "U"}
        The triangle that is read; the imaginary part of the diagonal is not.
    out : tuple of arrays, optional
        ``(d, e, q)`` to fill, C-contiguous.

    Returns
    -------
    d : (batch, n) real array
        Diagonal of T.
    e : (batch, n - 1) real array
        Off-diagonal entries, of any sign.
    q : (batch, n, n) array
        Unitary. A matrix with NaN or Inf has NaN in all three; entries of T that are
        too large for the dtype are infinite.
    """
    batch, n, _ = a.shape
    d, e, q = out or allocate_reduced(np.empty, (batch, n), a.dtype)
    solve_batch(_tridiagonalize, (uplo == "L",), (a,), (d, e, q))
    return d, e, q


def eigh_tridiagonal(d, e, *, eigenvectors=True, out=None):
    """Eigenvalues and eigenvectors of a batch of symmetric tridiagonal matrices.

    Implicit QR iteration with the Wilkinson shift (Golub and Van Loan, algorithm
    8.3.3), with errors within 8·n·eps of the largest entry.

    Parameters
    ----------
    d : (batch, n) array
        Diagonals, float32 or float64; n ≥ 1.
    e : (batch, n - 1) array
        Off-diagonal entries, of the same dtype.
    eigenvectors : bool
        False leaves them out; `v` is None then.
    out : tuple of arrays, optional
        ``(w, v, status)`` to fill, C-contiguous.

    Returns
    -------
    w : (batch, n) array
        Eigenvalues, ascending.
    v : (batch, n, n) array or None
        Eigenvectors as columns.
    status : (batch,) int32 array
        `Status` of every matrix. Where it is NOT_FINITE or NO_CONVERGENCE, `w` and `v`
        are NaN; where it is OVERFLOW, the eigenvalues that do not fit are infinite.
    """
    batch, n = d.shape
    w, v, status = out or allocate(
        np.empty, (batch, n), d.dtype, eigenvectors=eigenvectors
    )
    v_or_none = v if eigenvectors else NO_VECTORS[d.dtype.char]
    solve_batch(_eigh_tridiagonal, (), (d, e), (w, v_or_none, status))
    return w, v, status


@kernel
def _tridiagonalize_block(start, count, arrays, work, const):
    """`arrays` are ``(n, lower, a, d, e, q)``."""
    n, lower, a, d, e, q = arrays
    planes = work.planes
    load_matrices(a, n, start, count, lower, work)
    first, second, finite = scale(work.z, n, planes * n, planes, const)
    reduce_block(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.scratch, const
    )
    back_transform(work.matrix, n, work.reflectors, work.tau, const)
    keep_order(work.order, n)
    unscale(work.d, n, first, second)
    unscale(work.e, n - 1, first, second)
    lost = ~finite
    fill_lost(work.t, 2, n, lost)
    fill_lost(work.z, n, planes * n, lost)
    store_rows(work, work.d_at, n, start, count, d)
    store_rows(work, work.e_at, n - 1, start, count, e)
    store_vectors(work, 0, n, start, count, q, const)


@kernel
def _eigh_tridiagonal_block(start, count, arrays, work, const):
    """`arrays` are ``(n, d, e, has_v, w, v, status)``."""
    n, d, e, has_v, w, v, status = arrays
    load_tridiagonal(d, e, n, start, count, work)
    scaling = scale(work.t, 2, n, 0, const)
    columns = work.columns if has_v else 0
    set_identity(work.z, n, columns * work.neighbours, const)
    lost = diagonalize(
        n, start, count, scaling, work.rotated, columns, 0, w, status, work, const
    )
    if has_v:
        fill_lost(work.z, n, n, lost)
        store_vectors(work, 0, n, start, count, v, const)


def _build_tridiagonalize(width):
    solve = in_blocks(_tridiagonalize_block, width)

    def tridiagonalize_batch(start, stop, lower, a, d, e, q):
        n, views = a.shape[1], (as_rows(a), as_rows(d), as_rows(e), as_rows(q))
        solve(start, stop, n, a, d, (n, lower, *views))

    return tridiagonalize_batch


def _build_eigh_tridiagonal(width):
    solve = in_blocks(_eigh_tridiagonal_block, width)

    def eigh_tridiagonal_batch(start, stop, d, e, w, v, status):
        n, has_v = d.shape[1], v.size > 0
        results = has_v, as_rows(w), as_rows(v), as_rows(status)
        solve(start, stop, n, d, d, (n, as_rows(d), as_rows(e), *results))

    return eigh_tridiagonal_batch


_tridiagonalize = Entries(
    "tridiagonalize",
    _build_tridiagonalize,
    lambda dtype, real: (
        types.boolean,
        inputs(dtype, 3),
        outputs(real, 2),
        outputs(real, 2),
        outputs(dtype, 3),
    ),
    ALONE_FROM,
)
_eigh_tridiagonal = Entries(
    "eigh_tridiagonal",
    _build_eigh_tridiagonal,
    lambda dtype, real: (
        inputs(real, 2),
        inputs(real, 2),
        outputs(real, 2),
        outputs(real, 3),
        outputs(types.int32, 1),
    ),
    ALONE_FROM,
)
