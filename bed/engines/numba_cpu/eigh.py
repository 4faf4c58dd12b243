"""One matrix after another, a block of them in each thread."""

from functools import lru_cache
from math import frexp, ldexp

import numpy as np

from bed._status import Status
from bed.engines._outputs import allocate
from bed.engines._threads import for_blocks

from ._compile import constants, entry, inline, kernel, number, source_digest
from .back_transform import back_transform
from .qr_iteration import qr_iteration
from .tridiagonalize import tridiagonalize

# Entries in a block: large enough that handing it out does not count, small enough that
# threads end at about the same time and a copy of a strided block stays in the cache.
BLOCK_ENTRIES = 1 << 15

_OK, _OVERFLOW = int(Status.OK), int(Status.OVERFLOW)
_NOT_FINITE, _NO_CONVERGENCE = int(Status.NOT_FINITE), int(Status.NO_CONVERGENCE)


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of host arrays; see the contract in `bed.engines`.

    Householder tridiagonalisation, backward accumulation and implicit QR sweeps with
    the Wilkinson shift, each matrix on its own from beginning to end. The first call
    for a dtype compiles, and the result is kept on disk.
    """
    batch, n, _ = a.shape
    w, v, status = out or allocate(
        np.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
    )
    const = _constants(a.dtype)
    # The kernel tells by its size whether eigenvectors are wanted.
    v_or_none = v if eigenvectors else np.empty((0, 0, 0), dtype=a.dtype)

    def solve(start: int, stop: int) -> None:
        # One compiled version serves every stride: blocks that are not contiguous are
        # copied, and all are handed over read-only.
        block = np.ascontiguousarray(a[start:stop]).view()
        block.flags.writeable = False
        _entry(
            block, uplo == "L", w[start:stop], v_or_none[start:stop],
            status[start:stop], const,
        )  # fmt: skip

    for_blocks(solve, batch, max(1, BLOCK_ENTRIES // (n * n)))
    return w, v, status


_constants = lru_cache(constants)


def _cached_entry(sources: str):
    """The compiled function that is kept on disk, for this state of the sources."""

    @entry
    def solve_block(a, lower, w, v, status, const):
        if len(sources) > 0:  # named here to be part of the key; always true
            _solve_block(a, lower, w, v, status, const)

    return solve_block


@kernel
def _solve_block(a, lower, w, v, status, const):
    """Solve ``a[i]`` for every i; `v` is empty if eigenvectors are not wanted."""
    batch, n, _ = a.shape
    vectors = v.size > 0
    full = np.empty((n, n), a.dtype)
    q = np.empty((n, n), a.dtype)
    tau = np.empty(n, a.dtype)
    scratch = np.empty(n, a.dtype)
    d = np.empty(n, w.dtype)
    e = np.empty(n, w.dtype)
    order = np.empty(n, np.intp)
    # Rows of Qᵀ as real numbers, real and imaginary parts apart: the rotations of the
    # QR iteration are real.
    planes = full.itemsize // d.itemsize
    z = np.empty((n, planes * n if vectors else 0), w.dtype)
    for i in range(batch):
        exponent, finite = _load(a[i], lower, full, const)
        converged = False
        if finite:
            tridiagonalize(full, d, e, tau, scratch, const)
            if vectors:
                back_transform(full, tau, q, scratch, const)
                _to_rows(q, z, planes)
            converged = qr_iteration(d, e, z, const)
        if not converged:
            status[i] = _NO_CONVERGENCE if finite else _NOT_FINITE
            w[i] = np.nan
            if vectors:
                v[i] = np.nan
            continue
        _sort(d, order)
        status[i] = _OK
        for j in range(n):
            w[i, j] = ldexp(d[order[j]], exponent)
            if np.isinf(w[i, j]):
                status[i] = _OVERFLOW
        if vectors:
            _from_rows(z, planes, order, v[i])


@kernel
def _load(a, lower, full, const):
    """Copy one triangle into a full Hermitian matrix with max|·| in [0.5, 1).

    Returns
    -------
    exponent : int
        a = full · 2**exponent.
    finite : bool
        If not, `full` is not set.
    """
    n = a.shape[0]
    largest = const.zero
    finite = True
    for i in range(n):
        for j in range(i + 1):
            x = a[i, j] if lower else a[j, i]
            size = abs(x.real)
            if j < i:  # the imaginary part of the diagonal is not read
                size = max(size, abs(x.imag))
                finite = finite and np.isfinite(x.imag)
            finite = finite and np.isfinite(x.real)
            largest = max(largest, size)
    if not finite:
        return 0, False
    exponent = frexp(largest)[1]
    # In two halves: 2**-exponent alone may overflow where the product does not.
    half = exponent // 2
    first, second = ldexp(const.one, -half), ldexp(const.one, half - exponent)
    for i in range(n):
        for j in range(i):
            x = (a[i, j] if lower else np.conj(a[j, i])) * first * second
            full[i, j] = x
            full[j, i] = np.conj(x)
        full[i, i] = a[i, i].real * first * second
    return exponent, True


@inline
def _to_rows(q, z, planes):
    """z[j] = column j of q, real parts first and then imaginary parts."""
    n = q.shape[0]
    for i in range(n):
        for j in range(n):
            z[j, i] = q[i, j].real
            if planes == 2:
                z[j, n + i] = q[i, j].imag


@inline
def _from_rows(z, planes, order, v):
    """Store row order[j] of z as column j of v."""
    n = v.shape[0]
    imaginary = (planes - 1) * n
    for i in range(n):
        for j in range(n):
            row = z[order[j]]
            v[i, j] = number(v, row[i], row[imaginary + i])


@kernel
def _sort(d, order):
    """Indices of `d` in ascending order, equal values in their order of appearance."""
    for i in range(d.shape[0]):
        j = i
        while j > 0 and d[order[j - 1]] > d[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


_entry = _cached_entry(source_digest())
