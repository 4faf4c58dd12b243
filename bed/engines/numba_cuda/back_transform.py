"""Stage 2: Q = H₀ H₁ … H₍n₋₂₎ from the reflectors of `tridiagonalize`, in their place.

Backward accumulation (Golub and Van Loan, section 5.1.6): reflector k meets only the
lower right block that the later ones have filled, and lies in a row above it. A block
of threads forms one Q after another.
"""

from math import isnan

import numpy as np
from numba import cuda

from ._block import (
    GROUPS,
    MAX_N,
    combine_rows,
    combined,
    copy,
    fill,
    thread_count,
    thread_index,
)
from ._compile import device, kernel


@kernel
def back_transform(h, d, tau, in_shared, const):
    """Form Q for every matrix of a batch.

    Parameters
    ----------
    h : (batch, n·n)
        Reflectors as `tridiagonalize` left them; returns Q, which is NaN where `d` is.
    d, tau : (batch, n)
    in_shared : bool
        Whether Q is formed in dynamic shared memory instead of in `h`.
    """
    batch, n = d.shape
    memory = cuda.shared.array(0, dtype=h.dtype)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        m = memory if in_shared else h[b]
        pitch = (n | 1) if in_shared else n
        if not isnan(d[b, 0]):
            if in_shared:
                copy(h[b], n, m, pitch, n, n)
                cuda.syncthreads()
            _accumulate(m, pitch, n, tau[b], const)
            if in_shared:
                copy(m, pitch, h[b], n, n, n)
        else:
            fill(h[b], n * n, np.nan)
        cuda.syncthreads()  # before the next matrix uses the same memory


@device
def _accumulate(m, pitch, n, tau, const):
    """Multiply the reflectors of one matrix together, from the last to the first."""
    u = cuda.shared.array(MAX_N, dtype=m.dtype)
    partial = cuda.shared.array((GROUPS, MAX_N), dtype=m.dtype)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    t, threads = thread_index(), thread_count()
    if t == 0:
        m[(n - 1) * pitch + n - 1] = const.one
    for k in range(n - 2, -1, -1):
        for j in range(k + 1 + t, n, threads):
            u[j] = m[k * pitch + j]
        cuda.syncthreads()
        # Row and column k of Q, up to the reflectors before.
        for j in range(k + 1 + t, n, threads):
            m[k * pitch + j] = const.zero
            m[j * pitch + k] = const.zero
        if t == 0:
            m[k * pitch + k] = const.one
        tau_k = tau[k]
        if tau_k.real == const.zero and tau_k.imag == const.zero:
            continue
        combine_rows(m, pitch, u, k + 1, n, partial, const.zero)
        cuda.syncthreads()
        for j in range(k + 1 + x, n, cuda.blockDim.x):
            s = tau_k * combined(partial, j)
            for i in range(k + 1 + y, n, cuda.blockDim.y):
                m[i * pitch + j] -= u[i] * s
        cuda.syncthreads()
    cuda.syncthreads()  # the last reflector may have been the identity
