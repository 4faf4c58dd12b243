"""Stage 1: Householder reduction of Hermitian matrices to real tridiagonal ones.

A = Q T Qᴴ with Q = H₀ H₁ … H₍n₋₂₎; the paper's section 3.1 (symmetric rank-2 update,
eqs. 5 and 6) in the numbering of Golub and Van Loan, algorithm 8.3.1. A block of
threads reduces one matrix after another.
"""

import numpy as np
from numba import cuda

from bed.engines.scalar import reflectors

from ._block import (
    GROUPS,
    MAX_N,
    MAX_THREADS,
    PIECE,
    any_thread,
    combine_rows,
    combined,
    copy,
    exponent_of,
    fill,
    is_finite,
    largest,
    thread_count,
    thread_index,
    times_power_of_two,
    total,
)
from ._compile import device, kernel

_reflector = device(reflectors.reflector)


@kernel
def tridiagonalize(a, conjugate, h, d, e, tau, exponent, unscale, in_shared, const):
    """Reduce every matrix of a batch.

    Parameters
    ----------
    a : (batch, n, n)
        Its lower triangles are read, conjugated if `conjugate`.
    h : (batch, n·n) or (blocks, n·n)
        Row k of a matrix returns uₖ in columns k+1 …, with its leading one. Fewer than
        a batch are scratch, one for each block.
    d, e, tau : (batch, n), (batch, n − 1), (batch, n)
        Diagonal and off-diagonal of T for matrices scaled to order one, and the factors
        τ, n − 1 of them. NaN in all of `d` and `e` of a matrix that is not finite.
    exponent : (batch,) int32
        A = Q T Qᴴ · 2**exponent.
    unscale : bool
        Whether to multiply T by that power. Entries may overflow then.
    in_shared : bool
        Whether the matrix is worked on in dynamic shared memory instead of in `h`.
    """
    batch, n, _ = a.shape
    found = cuda.shared.array(MAX_THREADS, dtype=d.dtype)
    memory = cuda.shared.array(0, dtype=h.dtype)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        stored = h[b % h.shape[0]]
        m = memory if in_shared else stored
        pitch = (n | 1) if in_shared else n  # odd, for fewer bank conflicts
        if _load(a[b], conjugate, m, pitch, exponent, b, found, const):
            _reduce(m, pitch, n, d[b], e[b], tau[b], const)
            if in_shared and h.shape[0] == batch:
                copy(m, pitch, stored, n, n, n)
            if unscale:
                cuda.syncthreads()
                _unscale(d[b], exponent[b], const)
                _unscale(e[b], exponent[b], const)
        else:
            fill(d[b], n, np.nan)
            fill(e[b], n - 1, np.nan)
        cuda.syncthreads()  # before the next matrix uses the same memory


@device
def _load(a, conjugate, m, pitch, exponent, b, found, const):
    """Copy a lower triangle into a full Hermitian matrix with max|·| in [0.5, 1).

    Returns
    -------
    bool
        Whether the matrix is finite; if not, `m` is not set.
    """
    n = a.shape[0]
    size = const.zero
    finite = True
    for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
            x = a[i, j]
            if i == j:  # its imaginary part is not part of the matrix
                finite = finite and is_finite(x.real)
                size = max(size, abs(x.real))
            else:
                finite = finite and is_finite(x)
                size = max(size, max(abs(x.real), abs(x.imag)))
    if any_thread(not finite):
        return False
    k = exponent_of(largest(size, found))
    if thread_index() == 0:
        exponent[b] = k
    for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
            if i == j:
                x = a[i, i].real
                m[i * pitch + i] = times_power_of_two(x, -k, const.one)
            else:
                z = times_power_of_two(a[i, j], -k, const.one)
                if conjugate:
                    z = z.conjugate()
                m[i * pitch + j] = z
                m[j * pitch + i] = z.conjugate()
    cuda.syncthreads()
    return True


@device
def _unscale(x, exponent, const):
    for i in range(thread_index(), x.shape[0], thread_count()):
        x[i] = times_power_of_two(x[i], exponent, const.one)


@device
def _reduce(m, pitch, n, d, e, tau, const):
    """Reduce one matrix in place; all threads find the same scalars."""
    u = cuda.shared.array(MAX_N, dtype=m.dtype)
    p = cuda.shared.array(MAX_N, dtype=m.dtype)
    partial = cuda.shared.array((GROUPS, MAX_N), dtype=m.dtype)
    terms = cuda.shared.array(MAX_N, dtype=d.dtype)
    pieces = cuda.shared.array(PIECE, dtype=d.dtype)
    t, threads = thread_index(), thread_count()
    for k in range(n - 1):
        for j in range(k + 1 + t, n, threads):
            x = m[k * pitch + j].conjugate()  # row k is the conjugate of column k
            u[j] = x
            terms[j] = x.real * x.real + x.imag * x.imag
        cuda.syncthreads()
        tail = total(terms, k + 2, n, pieces, const.zero)
        beta, tau_r, tau_i, scale_r, scale_i = _reflector(
            u[k + 1].real, u[k + 1].imag, tail, const.negligible, const.zero, const.one
        )
        tau_k = tau_r + tau_i * const.i
        if t == 0:
            d[k], e[k], tau[k] = m[k * pitch + k].real, beta, tau_k
        cuda.syncthreads()
        if tau_r == const.zero and tau_i == const.zero:
            continue
        scale = scale_r + scale_i * const.i
        for j in range(k + 1 + t, n, threads):
            u[j] = u[j] * scale if j > k + 1 else const.one
            m[k * pitch + j] = u[j]
        cuda.syncthreads()
        if k == n - 2:  # a phase does not change the last diagonal entry
            continue

        # y = A u: the rows of the lower right block are its conjugate columns.
        combine_rows(m, pitch, u, k + 1, n, partial, const.zero)
        cuda.syncthreads()
        for j in range(k + 1 + t, n, threads):
            y = combined(partial, j).conjugate()
            p[j] = y
            terms[j] = u[j].real * y.real + u[j].imag * y.imag
        cuda.syncthreads()
        # p = τ y, K = |τ|² uᴴy/2, q = p − K u: then Hᴴ A H = A − q uᴴ − u qᴴ.
        square = tau_r * tau_r + tau_i * tau_i
        half_k = const.half * square * total(terms, k + 1, n, pieces, const.zero)
        for j in range(k + 1 + t, n, threads):
            p[j] = tau_k * p[j] - half_k * u[j]
        cuda.syncthreads()
        for i in range(k + 1 + cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(k + 1 + cuda.threadIdx.x, n, cuda.blockDim.x):
                m[i * pitch + j] -= p[i] * u[j].conjugate() + u[i] * p[j].conjugate()
        cuda.syncthreads()
    if t == 0:
        d[n - 1] = m[(n - 1) * pitch + n - 1].real
