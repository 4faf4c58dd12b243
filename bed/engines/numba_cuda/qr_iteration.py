"""Stage 3: implicit QR iteration on real symmetric tridiagonal matrices.

Wilkinson shifts, shrinkage from the bottom and splits at every negligible off-diagonal
entry (Golub and Van Loan, algorithm 8.3.3; shrinkage is the paper's section 3.2, here
for each matrix at its own speed). One thread of a block finds the rotations of a sweep,
and then each of its threads applies them to a row of V of its own.
"""

import numpy as np
from numba import cuda

from bed._status import Status
from bed.engines.scalar import rotations, shifts, two_by_two

from ._block import (
    MAX_COLUMNS,
    MAX_N,
    MAX_THREADS,
    any_thread,
    exponent_of,
    fill,
    is_finite,
    largest,
    thread_count,
    thread_index,
    times_power_of_two,
)
from ._compile import device, kernel

# Sweeps per eigenvalue before a matrix is given up: about two are usual, and LAPACK
# allows 30 as well.
SWEEPS_PER_EIGENVALUE = 30

_OK, _OVERFLOW = int(Status.OK), int(Status.OVERFLOW)
_NOT_FINITE, _NO_CONVERGENCE = int(Status.NOT_FINITE), int(Status.NO_CONVERGENCE)

_givens = device(rotations.givens)
_wilkinson_shift = device(shifts.wilkinson_shift)
_two_by_two = device(two_by_two.two_by_two)


@kernel
def qr_iteration(
    d, e, exponent, z, planes, w, status, sweeps, start, vectors, in_shared, const
):
    """Diagonalise every T of a batch, and multiply the rotations onto its V.

    Parameters
    ----------
    d, e : (batch, n), (batch, n − 1)
        Diagonal and off-diagonal of T, of any scale. Not written.
    exponent : (batch,) int32
        The matrix is T · 2**exponent.
    z : (batch, n·n·planes)
        V before and after, in real numbers: row by row, `planes` of them an element.
        Not touched unless `vectors`.
    planes : int
        1 for real and 2 for complex eigenvectors.
    w : (batch, n)
        Returns the eigenvalues, ascending.
    status : (batch,) int32
    sweeps : int
        How many may be made before a matrix counts as not converging.
    start : bool
        Whether V starts as the identity instead of as `z`.
    vectors : bool
        Whether eigenvectors are wanted.
    in_shared : bool
        Whether V is worked on in dynamic shared memory instead of in `z`.
    """
    batch, n = d.shape
    memory = cuda.shared.array(0, dtype=d.dtype)
    diagonal = cuda.shared.array(MAX_N, dtype=d.dtype)
    off_diagonal = cuda.shared.array(MAX_N, dtype=d.dtype)
    found = cuda.shared.array(MAX_THREADS, dtype=d.dtype)
    order = cuda.shared.array(MAX_N, dtype=np.int32)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        finite, k = _load(d[b], e[b], diagonal, off_diagonal, found, const)
        converged = False
        stored = z[b if vectors else 0]
        m = memory if in_shared else stored
        pitch = (n * planes | 1) if in_shared else n * planes
        if finite:
            if vectors:
                _columns_to_rows(stored, m, pitch, n, planes, start, in_shared, const)
            converged = _iterate(
                diagonal, off_diagonal, n, m, pitch, planes, sweeps, vectors, const
            )
        if converged:
            _sort(diagonal, order, n)
            _store_values(diagonal, order, n, k + exponent[b], w[b], status, b, const)
            if vectors:
                _rows_to_columns(m, pitch, stored, n, planes, order, in_shared)
        else:
            fill(w[b], n, np.nan)
            if vectors:
                fill(stored, n * n * planes, np.nan)
            if thread_index() == 0:
                status[b] = _NO_CONVERGENCE if finite else _NOT_FINITE
        cuda.syncthreads()  # before the next matrix uses the same memory


@device
def _load(d, e, diagonal, off_diagonal, found, const):
    """Copy T, scaled by a power of two to max|·| in [0.5, 1).

    Returns
    -------
    finite : bool
    k : int
        The matrix is what was copied times 2**k.
    """
    n = d.shape[0]
    size = const.zero
    finite = True
    for i in range(thread_index(), n, thread_count()):
        finite = finite and is_finite(d[i])
        size = max(size, abs(d[i]))
        if i < n - 1:
            finite = finite and is_finite(e[i])
            size = max(size, abs(e[i]))
    if any_thread(not finite):
        return False, 0
    k = exponent_of(largest(size, found))
    for i in range(thread_index(), n, thread_count()):
        diagonal[i] = times_power_of_two(d[i], -k, const.one)
        if i < n - 1:
            off_diagonal[i] = times_power_of_two(e[i], -k, const.one)
    cuda.syncthreads()
    return True, k


@device
def _iterate(d, e, n, m, pitch, planes, sweeps, vectors, const):
    """Sweep, or solve blocks of two rows, until every off-diagonal entry is negligible.

    Parameters
    ----------
    d, e : shared
        T, of order one. `d` returns the eigenvalues, unsorted.
    m : (n, n·planes), flat
        Row j is multiplied by the rotations as column j of V is, if `vectors`.

    Returns
    -------
    bool
        Whether that was reached within `sweeps`.
    """
    c = cuda.shared.array(MAX_N, dtype=d.dtype)
    s = cuda.shared.array(MAX_N, dtype=d.dtype)
    window = cuda.shared.array(2, dtype=np.int32)
    hi = n - 1
    for done in range(sweeps + 1):
        if thread_index() == 0:
            lo, hi = _window(d, e, hi, const)
            window[0], window[1] = lo, hi
            if hi > 0 and done < sweeps:
                if hi - lo == 1:
                    _solve_pair(d, e, c, s, lo, const)
                else:
                    _sweep(d, e, c, s, lo, hi, const)
        cuda.syncthreads()
        lo, hi = window[0], window[1]
        if hi == 0:
            return True
        if vectors and done < sweeps:
            _rotate(m, pitch, n * planes, c, s, lo, hi)
        cuda.syncthreads()
    return False


@device
def _window(d, e, hi, const):
    """First and last row of the lowest block without a negligible off-diagonal entry.

    Below `hi` there is none any more. The last row is 0 when all are negligible.
    """
    while hi > 0 and _negligible(d, e, hi - 1, const):
        hi -= 1
    lo = max(hi - 1, 0)
    while lo > 0 and not _negligible(d, e, lo - 1, const):
        lo -= 1
    return lo, hi


@device
def _negligible(d, e, i, const):
    """Whether off-diagonal entry i is below rounding; a NaN is not."""
    size = abs(e[i])
    return size <= const.eps * (abs(d[i]) + abs(d[i + 1])) or size < const.floor


@device
def _solve_pair(d, e, c, s, i, const):
    """Diagonalise rows i and i + 1, which are a block of their own."""
    c[i], s[i], step = _two_by_two(
        d[i], e[i], d[i + 1], const.half, const.zero, const.one
    )
    d[i] += step
    d[i + 1] -= step
    e[i] = const.zero


@device
def _sweep(d, e, c, s, lo, hi, const):
    """Chase one bulge from row `lo` to row `hi`; no entry of `e` between is zero.

    Rotation i, of rows i and i + 1, is left in c[i] and s[i].
    """
    mu = _wilkinson_shift(d[hi - 1], e[hi - 1], d[hi], const.half, const.zero)
    g = d[lo] - mu
    c_i, s_i, p = const.one, const.one, const.zero
    for i in range(lo, hi):
        f = s_i * e[i]
        b = c_i * e[i]
        c_i, s_i, r = _givens(g, f, const.tiny, const.zero, const.one)
        c[i], s[i] = c_i, s_i
        if i > lo:
            e[i - 1] = r
        g = d[i] - p
        t = (d[i + 1] - g) * s_i + (c_i * b + c_i * b)
        p = s_i * t
        d[i] = g + p
        g = c_i * t - b
    d[hi] -= p
    e[hi - 1] = g


@device
def _rotate(m, pitch, columns, c, s, lo, hi):
    """Apply a sweep's rotations to rows `lo` … `hi`; a thread has whole columns."""
    for k in range(thread_index(), columns, thread_count()):
        x = m[lo * pitch + k]
        for i in range(lo, hi):
            y = m[(i + 1) * pitch + k]
            m[i * pitch + k] = c[i] * x + s[i] * y
            x = c[i] * y - s[i] * x
        m[hi * pitch + k] = x


@device
def _sort(d, order, n):
    """Indices of `d` in ascending order, equal values in their order of appearance."""
    for i in range(thread_index(), n, thread_count()):
        rank = 0
        for j in range(n):
            if d[j] < d[i] or (d[j] == d[i] and j < i):
                rank += 1
        order[rank] = i
    cuda.syncthreads()


@device
def _store_values(d, order, n, exponent, w, status, b, const):
    """Scale the eigenvalues back and store them in order, with the status."""
    overflows = False
    for i in range(thread_index(), n, thread_count()):
        w[i] = times_power_of_two(d[order[i]], exponent, const.one)
        overflows = overflows or not is_finite(w[i])
    overflows = any_thread(overflows)
    if thread_index() == 0:
        status[b] = _OVERFLOW if overflows else _OK


@device
def _columns_to_rows(stored, m, pitch, n, planes, start, in_shared, const):
    """Row j of `m` is column j of what is stored, or of the identity for a start."""
    if not (start or in_shared):
        _transpose(m, n, planes)
        return
    for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            for p in range(planes):
                x = const.one if i == j and p == 0 else const.zero
                if not start:
                    x = stored[(i * n + j) * planes + p]
                m[j * pitch + i * planes + p] = x
    cuda.syncthreads()


@device
def _rows_to_columns(m, pitch, stored, n, planes, order, in_shared):
    """Store row order[j] of `m` as column j."""
    if in_shared:
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
                for p in range(planes):
                    x = m[order[j] * pitch + i * planes + p]
                    stored[(i * n + j) * planes + p] = x
        return
    line = cuda.shared.array(MAX_COLUMNS, dtype=m.dtype)
    _transpose(m, n, planes)
    columns = n * planes
    for i in range(n):
        for k in range(thread_index(), columns, thread_count()):
            line[k] = m[i * columns + order[k // planes] * planes + k % planes]
        cuda.syncthreads()
        for k in range(thread_index(), columns, thread_count()):
            m[i * columns + k] = line[k]
        cuda.syncthreads()


@device
def _transpose(m, n, planes):
    """Transpose a matrix in its place."""
    for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, i, cuda.blockDim.x):
            for p in range(planes):
                upper, lower = (j * n + i) * planes + p, (i * n + j) * planes + p
                m[upper], m[lower] = m[lower], m[upper]
    cuda.syncthreads()
