"""A block of matrices after another, one in each lane; threads share the batch."""

from functools import partial

import numpy as np
from numba import types

from bed.engines._outputs import allocate

from ._blocks import in_blocks
from ._compile import inline, kernel
from ._entries import Entries, inputs, outputs
from ._load import load_matrices, scale
from ._store import (
    fill_lost,
    judge,
    sort,
    store_rows,
    store_status,
    store_vectors,
    unscale,
)
from ._tasks import one_entry, solve_batch
from ._vector_array import as_rows
from .back_transform import back_transform
from .qr_iteration import qr_iteration
from .tridiagonalize import tridiagonalize


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of host arrays; see the contract in `bed.engines`.

    Householder tridiagonalisation, backward accumulation and implicit QR sweeps with
    the Wilkinson shift, of as many matrices at a time as a vector has lanes. The first
    call for a dtype compiles, and the result is kept on disk.
    """
    batch, n, _ = a.shape
    w, v, status = out or allocate(
        np.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
    )
    # The kernel tells by its size whether eigenvectors are wanted.
    v_or_none = v if eigenvectors else NO_VECTORS[a.dtype.char]
    solve_batch(_entries, (uplo == "L",), (a,), (w, v_or_none, status))
    return w, v, status


def solve_part(a, lower, w, v, status):
    """Solve a part of a batch, of contiguous arrays, in this thread."""
    _entries(a.dtype)(0, len(a), (lower, a, w, v, status))


def prepared(batch, n, dtype, uplo, eigenvectors):
    """A function for batches of one shape; see the contract in `bed.engines`."""
    entry = one_entry(_entries, batch, n, dtype)
    if entry is None:
        return None
    if eigenvectors:
        return partial(entry, 0, batch, uplo == "L")
    lower, absent = uplo == "L", NO_VECTORS[dtype.char]

    def run(a, w, v, status):
        entry(0, batch, lower, a, w, absent, status)

    return run


NO_VECTORS = {kind: np.empty((0, 0, 0), kind) for kind in "fdFD"}


@kernel
def _solve_block(start, count, arrays, work, const):
    """`arrays` are ``(n, lower, a, has_v, w, v, status)``."""
    n, lower, a, has_v, w, v, status = arrays
    planes = work.planes
    load_matrices(a, n, start, count, lower, work)
    scaling = scale(work.z, n, planes * n, planes, const)
    tridiagonalize(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.p, work.q, const
    )
    if has_v:
        back_transform(work.matrix, n, work.reflectors, work.tau, const)
    diagonalize(n, start, count, scaling, (has_v, w, v, status), work, const)


@inline
def diagonalize(n, start, count, scaling, outputs, work, const):
    """The last stage for a block, from T and Qᵀ in `work` to the outputs of a batch.

    Parameters
    ----------
    n, start, count : int
    scaling
        What `scale` returned.
    outputs
        ``(has_v, w, v, status)``; `has_v` tells whether eigenvectors are wanted.
    """
    first, second, finite = scaling
    has_v, w, v, status = outputs
    columns = work.columns if has_v else 0
    qr_iteration(work.d, work.e, n, work.z, columns, work.c, work.s, const)
    sort(work.d, work.order, n)
    unscale(work.d, n, first, second)
    lost = judge(work.d, work.e, n, finite, work.code, const)
    store_status(work, start, count, status)
    fill_lost(work.t, 1, n, lost)
    store_rows(work, work.d_at, n, start, count, w)
    if has_v:
        fill_lost(work.z, n, columns, lost)
        store_vectors(work, n, start, count, v, const)


def _build(width):
    solve = in_blocks(_solve_block, width)

    def eigh_batch(start, stop, lower, a, w, v, status):
        n, has_v = a.shape[1], v.size > 0
        results = has_v, as_rows(w), as_rows(v), as_rows(status)
        solve(start, stop, n, a, w, (n, lower, as_rows(a), *results))

    return eigh_batch


def _signature(dtype, real):
    results = outputs(real, 2), outputs(dtype, 3), outputs(types.int32, 1)
    return types.boolean, inputs(dtype, 3), *results


_entries = Entries("eigh", _build, _signature)
