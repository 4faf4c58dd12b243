"""The stages of the solver by themselves, for batches.

`tridiagonalize` is stages one and two, `eigh_tridiagonal` stage three. Like `eigh` they
take any strides, never write to their input, and give a matrix the same bits wherever
in a batch it is.
"""

import numpy as np

from bed.engines._outputs import allocate, allocate_reduced

from ._compile import NARROW, WIDE, constants, entry, kernel, source_digest
from ._float_mode import enter_default_mode, never_inlined, restore_mode
from ._load import load_matrices, load_tridiagonal, scale
from ._store import (
    fill_lost,
    judge,
    keep_order,
    sort,
    store_rows,
    store_status,
    store_vectors,
    unscale,
)
from ._tasks import for_tasks, readable
from ._workspace import count_for_wide, workspace
from .back_transform import back_transform
from .qr_iteration import qr_iteration
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
    const = constants(d.dtype)

    def solve(part: slice) -> None:
        _tridiagonalize(
            readable(a[part]), uplo == "L", d[part], e[part], q[part], const
        )

    for_tasks(solve, batch, n, d.itemsize)
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
    const = constants(d.dtype)
    v_or_none = v if eigenvectors else np.empty((0, 0, 0), d.dtype)

    def solve(part: slice) -> None:
        _eigh_tridiagonal(
            readable(d[part]), readable(e[part]),
            w[part], v_or_none[part], status[part], const,
        )  # fmt: skip

    for_tasks(solve, batch, n, d.itemsize)
    return w, v, status


def _cached_entries(sources: str):
    """The compiled functions that are kept on disk, as in `eigh`."""

    @entry
    def tridiagonalize_batch(a, lower, d, e, q, const):
        if len(sources) > 0:  # to be part of the key; always true
            mode, failed = enter_default_mode(), False
            try:
                _tridiagonalize_batch(a, lower, d, e, q, const)
            except Exception:  # nothing else can be caught; only memory can be lacking
                failed = True
            restore_mode(mode)
            if failed:
                raise MemoryError("no memory for the blocks of matrices")

    @entry
    def eigh_tridiagonal_batch(d, e, w, v, status, const):
        if len(sources) > 0:
            mode, failed = enter_default_mode(), False
            try:
                _eigh_tridiagonal_batch(d, e, w, v, status, const)
            except Exception:  # nothing else can be caught; only memory can be lacking
                failed = True
            restore_mode(mode)
            if failed:
                raise MemoryError("no memory for the blocks of matrices")

    return tridiagonalize_batch, eigh_tridiagonal_batch


@kernel
def _tridiagonalize_batch(a, lower, d, e, q, const):
    never_inlined()
    batch, n, _ = a.shape
    wide = count_for_wide(batch, d)
    if wide > 0:
        work, memory = workspace(n, a, d, WIDE)
        _tridiagonalize_range(a, 0, wide, lower, d, e, q, work, memory, const)
    if wide < batch:
        work, memory = workspace(n, a, d, NARROW)
        _tridiagonalize_range(a, wide, batch, lower, d, e, q, work, memory, const)


@kernel
def _tridiagonalize_range(a, start, stop, lower, d, e, q, work, memory, const):
    """Reduce ``a[start:stop]`` in blocks."""
    n, planes, lanes = a.shape[1], work.planes, work.lanes
    for i in range(start, stop, lanes):
        count = min(lanes, stop - i)
        load_matrices(a, i, count, lower, work)
        first, second, finite = scale(work.z, n, planes * n, planes, const)
        reduce_block(
            work.matrix, n, work.reflectors,
            work.d, work.e, work.tau, work.p, work.q, const,
        )  # fmt: skip
        back_transform(work.matrix, n, work.reflectors, work.tau, const)
        keep_order(work.order, n)
        unscale(work.d, n, first, second)
        unscale(work.e, n - 1, first, second)
        lost = ~finite
        fill_lost(work.t, 2, n, lost)
        fill_lost(work.z, n, planes * n, lost)
        store_rows(work, work.d_at, i, count, d)
        store_rows(work, work.e_at, i, count, e)
        store_vectors(work, i, count, q, const)


@kernel
def _eigh_tridiagonal_batch(d, e, w, v, status, const):
    never_inlined()
    batch, n = d.shape
    wide = count_for_wide(batch, d)
    if wide > 0:
        work, memory = workspace(n, d, d, WIDE)
        _eigh_tridiagonal_range(d, e, 0, wide, w, v, status, work, memory, const)
    if wide < batch:
        work, memory = workspace(n, d, d, NARROW)
        _eigh_tridiagonal_range(d, e, wide, batch, w, v, status, work, memory, const)


@kernel
def _eigh_tridiagonal_range(d, e, start, stop, w, v, status, work, memory, const):
    """Solve the matrices ``start:stop`` in blocks; `v` is empty if it is not wanted."""
    n, lanes = d.shape[1], work.lanes
    columns = work.columns if v.size > 0 else 0
    for block in range(start, stop, lanes):
        count = min(lanes, stop - block)
        load_tridiagonal(d, e, block, count, work)
        first, second, finite = scale(work.t, 2, n, 0, const)
        for i in range(n if columns > 0 else 0):
            for j in range(n):
                work.z[i, j] = const.one if i == j else const.zero
        qr_iteration(work.d, work.e, n, work.z, columns, work.c, work.s, const)
        sort(work.d, work.order, n)
        unscale(work.d, n, first, second)
        lost = judge(work.d, work.e, n, finite, work.code, const)
        store_status(work, block, count, status)
        fill_lost(work.t, 1, n, lost)
        store_rows(work, work.d_at, block, count, w)
        if columns > 0:
            fill_lost(work.z, n, columns, lost)
            store_vectors(work, block, count, v, const)


_tridiagonalize, _eigh_tridiagonal = _cached_entries(source_digest())
