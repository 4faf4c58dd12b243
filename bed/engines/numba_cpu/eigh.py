"""A block of matrices after another, one in each lane; threads share the batch."""

from functools import partial

import numpy as np
from numba import types

from bed.engines._outputs import allocate

from ._blocks import in_blocks
from ._compile import by_type, inline, kernel
from ._complex import ComplexVector
from ._entries import Entries, inputs, outputs
from ._load import load_matrices, scale
from ._simd import select
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
from ._workspace import in_pairs, rows_beside, workspace_and_vectors
from .back_transform import back_transform, multiply
from .qr_iteration import qr_iteration
from .tridiagonalize import tridiagonalize


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of host arrays; see the contract in `bed.engines`.

    Householder tridiagonalisation and implicit QR sweeps with the Wilkinson shift, of
    as many matrices at a time as a vector has lanes. The sweeps rotate Qᵀ where
    matrices are real, and where they are complex the identity, which the reflectors
    meet afterwards. The first call for a dtype compiles, and the result is kept on
    disk.
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
    batch, n, _ = a.shape
    _entries(a.dtype)(0, batch, n, (lower, a, w, v, status))


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


# Where registers that are filled from the rows of one matrix make up for what the sums
# along a row take longer.
ALONE_FROM = 24

# Where it pays to find the eigenvalues first, for shifts.
KNOWN_FROM = 48

NO_VECTORS = {kind: np.empty((0, 0, 0), kind) for kind in "fdFD"}


@kernel
def _solve_block(start, count, arrays, work, const):
    """`arrays` are ``(n, lower, a, has_v, w, v, status)``."""
    n, lower, a, has_v, w, v, status = arrays
    planes = work.planes
    load_matrices(a, n, start, count, lower, work)
    scaling = scale(work.z, n, planes * n, planes, const)
    tridiagonalize(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.scratch, const
    )
    at, rows, z, rotated = _vectors(work, n)
    columns, reach = _begin_vectors(work, z, n, const) if has_v else (0, 0)
    lost = diagonalize(
        n, start, count, scaling, rotated, columns, reach, w, status, work, const
    )
    if has_v:
        _end_vectors(work, rows, z, n, const)
        fill_lost(z, n, planes * n, lost)
        store_vectors(work, at, n, start, count, v, const)


@inline
def diagonalize(
    n, start, count, scaling, rotated, columns, reach, w, status, work, const
):
    """The last stage for a block, from T in `work` to the outputs of a batch.

    Parameters
    ----------
    n, start, count : int
    scaling
        What `scale` returned.
    rotated, columns, reach
        As `qr_iteration` takes them, the first as its `z`.

    Returns
    -------
    lost
        Mask of the lanes without a result.
    """
    first, second, finite = scaling
    _iterate(n, rotated, columns, reach, work, const)
    unscale(work.d, n, first, second)
    lost = judge(work.d, work.e, n, finite, work.code, const)
    store_status(work, start, count, status)
    fill_lost(work.t, 1, n, lost)
    store_rows(work, work.d_at, n, start, count, w)
    return lost


@inline
def _iterate(n, rotated, columns, reach, work, const):
    """Sorted eigenvalues to `work.d`, and where they came from to `work.order`.

    Of large matrices the eigenvalues are found first, in a fraction of the time. With
    them for shifts, eigenvectors take about three fifths of the rotations. They are
    also what is returned, and so the same with and without eigenvectors.
    """
    half, s, order = work.half, work.s, work.order
    known = columns > 0 and n >= KNOWN_FROM
    eigenvalues, left, shifts = work.ahead[0], work.ahead[1], work.ahead[2]
    d, e, now = work.d, work.e, columns
    if known:
        for i in range(n):
            eigenvalues[i], left[i] = d[i], e[i]
        d, e, now = eigenvalues, left, 0
    # Functions that are called at one place become a part of this one, which saves a
    # twentieth of the time at n = 2.
    for run in range(2 if known else 1):
        qr_iteration(d, e, n, rotated, now, reach, half, s, shifts, run > 0, const)
        if known and run == 0:
            for i in range(n):
                shifts[i] = d[i]
        sort(d, order, n)
        d, e, now = work.d, work.e, columns
    if known:
        for i in range(n):
            d[i] = eigenvalues[i]
        for i in range(n - 1):
            e[i] = select(left[i] == const.zero, e[i], left[i])


@inline
def set_identity(z, n, columns, const):
    """The identity, with zeros beyond column n."""
    for i in range(n):
        for j in range(columns):
            z[i, j] = const.one if i == j else const.zero


def _vectors(work, n):
    """Rows that become eigenvectors: where they begin, and three views of them.

    As numbers, as vectors, and as `Workspace.rotated` is. Those of real matrices take
    the place of the reflectors; those of complex ones lie beside them, as the
    reflectors are needed until the end.
    """
    raise NotImplementedError


def _begin_vectors(work, z, n, const):
    """Set `z` to what is rotated; returns the `columns` and `reach` of `rotated`."""
    raise NotImplementedError


def _end_vectors(work, rows, z, n, const):
    """Turn what `qr_iteration` has rotated into eigenvectors."""
    raise NotImplementedError


def _is_complex(work):
    matrix = work.types[work.fields.index("matrix")]
    return isinstance(matrix.dtype, ComplexVector)


@by_type(_vectors)
def _vectors_of(work, n):
    def real(work, n):
        return 0, work.matrix, work.z, work.rotated

    def complex_(work, n):
        rows, z, rotated = rows_beside(work, n, work.row)
        return work.rows_at, rows, z, rotated

    return complex_ if _is_complex(work) else real


@by_type(_begin_vectors)
def _begin_vectors_of(work, z, n, const):
    def real(work, z, n, const):
        back_transform(work.matrix, n, work.reflectors, work.tau, const)
        return work.columns, n

    def complex_(work, z, n, const):
        columns = in_pairs(n, work.neighbours)
        set_identity(z, n, columns * work.neighbours, const)
        return columns, 0

    return complex_ if _is_complex(work) else real


@by_type(_end_vectors)
def _end_vectors_of(work, rows, z, n, const):
    def real(work, rows, z, n, const):
        pass

    def complex_(work, rows, z, n, const):
        multiply(rows, z, work.matrix, n, work.reflectors, work.tau, const)

    return complex_ if _is_complex(work) else real


def _build(width):
    solve = in_blocks(_solve_block, width, workspace_and_vectors)

    def eigh_batch(start, stop, lower, a, w, v, status):
        n, has_v = a.shape[1], v.size > 0
        results = has_v, as_rows(w), as_rows(v), as_rows(status)
        solve(start, stop, n, a, w, (n, lower, as_rows(a), *results))

    return eigh_batch


def _signature(dtype, real):
    results = outputs(real, 2), outputs(dtype, 3), outputs(types.int32, 1)
    return types.boolean, inputs(dtype, 3), *results


_entries = Entries("eigh", _build, _signature, ALONE_FROM)
