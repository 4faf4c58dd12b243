"""Householder reduction of one Hermitian matrix to a real tridiagonal one.

A = Q T Qᴴ with Q = H₀ H₁ … H₍n₋₂₎; the paper's section 3.1 (symmetric rank-2 update,
eqs. 5 and 6) in the numbering of Golub and Van Loan, algorithm 8.3.1.
"""

import numpy as np

from bed.engines.scalar import reflectors

from ._compile import inline, kernel, number
from ._rows import combine_rows, inner

_reflector = inline(reflectors.reflector)


@kernel
def tridiagonalize(a, d, e, tau, p, const):
    """Reduce `a` in place.

    Parameters
    ----------
    a : (n, n)
        The full matrix, of order one. On return row k holds the reflector vₖ in
        columns k+1 …, with its leading one.
    d, e, tau : (n,)
        Diagonal and couplings of T, real, and the factors τ; only n − 1 of the latter
        two are set.
    p : (n,)
        Scratch, of the dtype of `a`.
    """
    n = a.shape[0]
    for k in range(n - 1):
        d[k] = a[k, k].real
        row = a[k]  # the conjugate of column k
        tail = inner(row, row, k + 2, const)
        first = np.conj(row[k + 1])
        beta, tau_r, tau_i, scale_r, scale_i = _reflector(
            first.real, first.imag, tail, const.negligible, const.zero, const.one
        )
        e[k] = beta
        t = number(a, tau_r, tau_i)
        tau[k] = t
        if tau_r == const.zero and tau_i == const.zero:
            continue
        scale = number(a, scale_r, scale_i)
        row[k + 1] = number(a, const.one, const.zero)
        for j in range(k + 2, n):
            row[j] = np.conj(row[j]) * scale

        # y = A v; the rows of the lower right block are its conjugate columns.
        combine_rows(row, a, k + 1, p, const)
        for j in range(k + 1, n):
            p[j] = np.conj(p[j])
        # p = τ y, K = |τ|² vᴴy/2, q = p − K v: then Hᴴ A H = A − q vᴴ − v qᴴ.
        square = tau_r * tau_r + tau_i * tau_i
        half_k = const.half * square * inner(row, p, k + 1, const)
        for j in range(k + 1, n):
            p[j] = t * p[j] - row[j] * half_k
        for i in range(k + 1, n):
            v_i = row[i]
            q_i = p[i]
            a_i = a[i]
            for j in range(k + 1, n):
                a_i[j] -= q_i * np.conj(row[j]) + v_i * np.conj(p[j])
    d[n - 1] = a[n - 1, n - 1].real
