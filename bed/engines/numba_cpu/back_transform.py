"""Q = H₀ H₁ … H₍n₋₂₎ from the reflectors of `tridiagonalize`.

Backward accumulation (Golub and Van Loan, section 5.1.6): reflector k meets only the
lower right block that the later ones have filled.
"""

from ._compile import kernel
from ._rows import combine_rows


@kernel
def back_transform(a, tau, q, s, const):
    """Form Q.

    Parameters
    ----------
    a, tau
        As `tridiagonalize` left them.
    q : (n, n)
        Filled with Q.
    s : (n,)
        Scratch, of the dtype of `a`.
    """
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            q[i, j] = const.zero
        q[i, i] = const.one
    for k in range(n - 2, -1, -1):
        t = tau[k]
        if t.real == const.zero and t.imag == const.zero:
            continue
        v = a[k]
        combine_rows(v, q, k + 1, s, const)
        for i in range(k + 1, n):
            tv_i = t * v[i]
            q_i = q[i]
            for j in range(k + 1, n):
                q_i[j] -= tv_i * s[j]
