"""A block of matrices after another, one in each lane; threads share the batch."""

import numpy as np

from bed.engines._outputs import allocate

from ._compile import NARROW, WIDE, constants, entry, kernel, source_digest
from ._float_mode import enter_default_mode, never_inlined, restore_mode
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
from ._tasks import for_tasks, readable
from ._workspace import count_for_wide, workspace
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
    const = constants(w.dtype)
    # The kernel tells by its size whether eigenvectors are wanted.
    v_or_none = v if eigenvectors else np.empty((0, 0, 0), dtype=a.dtype)

    def solve(part: slice) -> None:
        _entry(
            readable(a[part]),
            uplo == "L",
            w[part],
            v_or_none[part],
            status[part],
            const,
        )

    for_tasks(solve, batch, n, w.itemsize)
    return w, v, status


def _cached_entry(sources: str):
    """The compiled function that is kept on disk, for this state of the sources."""

    @entry
    def solve_batch(a, lower, w, v, status, const):
        if len(sources) > 0:  # named here to be part of the key; always true
            mode, failed = enter_default_mode(), False
            try:
                _solve_batch(a, lower, w, v, status, const)
            except Exception:  # nothing else can be caught; only memory can be lacking
                failed = True
            restore_mode(mode)
            if failed:
                raise MemoryError("no memory for the blocks of matrices")

    return solve_batch


@kernel
def _solve_batch(a, lower, w, v, status, const):
    """Solve ``a[i]`` for every i; `v` is empty if eigenvectors are not wanted."""
    never_inlined()
    batch, n, _ = a.shape
    wide = count_for_wide(batch, w)
    if wide > 0:
        work, memory = workspace(n, a, w, WIDE)
        _solve_range(a, 0, wide, lower, w, v, status, work, memory, const)
    if wide < batch:
        work, memory = workspace(n, a, w, NARROW)
        _solve_range(a, wide, batch, lower, w, v, status, work, memory, const)


@kernel
def _solve_range(a, start, stop, lower, w, v, status, work, memory, const):
    """Solve ``a[start:stop]`` in blocks of as many matrices as there are lanes.

    `memory` is what `work` needs to be in use, see `workspace`.
    """
    lanes = work.lanes
    for i in range(start, stop, lanes):
        count = min(lanes, stop - i)
        _solve_block(a, i, count, lower, w, v, status, work, const)


@kernel
def _solve_block(a, start, count, lower, w, v, status, work, const):
    """Solve ``a[start]`` and those that follow it, as many as `count`."""
    n, planes = a.shape[1], work.planes
    columns = work.columns if v.size > 0 else 0
    load_matrices(a, start, count, lower, work)
    first, second, finite = scale(work.z, n, planes * n, planes, const)
    tridiagonalize(
        work.matrix, n, work.reflectors, work.d, work.e, work.tau, work.p, work.q, const
    )
    if columns > 0:
        back_transform(work.matrix, n, work.reflectors, work.tau, const)
    qr_iteration(work.d, work.e, n, work.z, columns, work.c, work.s, const)
    sort(work.d, work.order, n)
    unscale(work.d, n, first, second)
    lost = judge(work.d, work.e, n, finite, work.code, const)
    store_status(work, start, count, status)
    fill_lost(work.t, 1, n, lost)
    store_rows(work, work.d_at, start, count, w)
    if columns > 0:
        fill_lost(work.z, n, columns, lost)
        store_vectors(work, start, count, v, const)


_entry = _cached_entry(source_digest())
