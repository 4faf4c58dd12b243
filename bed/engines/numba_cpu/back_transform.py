"""Stage 2: Qᵀ from the reflectors of `tridiagonalize`, in their place.

Backward accumulation (Golub and Van Loan, section 5.1.6): reflector k meets only the
lower right block that the later ones have filled, and row k, which holds it, lies
outside of that. Rows of Qᵀ are what the rotations of the QR iteration combine.
"""

from ._compile import CHUNK, kernel
from ._complex import fma, fma_conj, number


@kernel
def back_transform(a, n, reflectors, tau, const):
    """Replace `a`, as `tridiagonalize` left it, by Qᵀ."""
    one, zero = number(a, const.one, const.zero), number(a, const.zero, const.zero)
    if reflectors < n - 1:
        a[n - 1, n - 1] = one
    for k in range(reflectors - 1, -1, -1):
        _apply(a, a[k], tau[k], k + 1, n)
    a[0, 0] = one
    for j in range(1, n):
        a[0, j] = zero
        a[j, 0] = zero


@kernel
def _apply(z, u, t, start, n):
    """Z (I − τ ū uᵀ) on rows and columns ≥ start.

    The first of these rows and columns are those of the identity and are not read; nor
    is the leading one of u.
    """
    first = z[start]
    first[start] = number(z, 1 - t.real, -t.imag)
    for j in range(start + 1, n):
        first[j] = -t * u[j]
    i = start + 1
    while i + 1 < n:
        row_0, row_1 = z[i], z[i + 1]
        s_0, s_1 = number(z, 0, 0), number(z, 0, 0)
        for chunk in range(start + 1, n, CHUNK):
            part_0, part_1 = number(z, 0, 0), number(z, 0, 0)
            for j in range(chunk, min(chunk + CHUNK, n)):
                u_j = u[j]
                part_0 = fma_conj(row_0[j], u_j, part_0)
                part_1 = fma_conj(row_1[j], u_j, part_1)
            s_0, s_1 = s_0 + part_0, s_1 + part_1
        s_0, s_1 = -t * s_0, -t * s_1
        row_0[start], row_1[start] = s_0, s_1
        for j in range(start + 1, n):
            u_j = u[j]
            row_0[j] = fma(s_0, u_j, row_0[j])
            row_1[j] = fma(s_1, u_j, row_1[j])
        i += 2
    if i < n:
        row = z[i]
        s = number(z, 0, 0)
        for chunk in range(start + 1, n, CHUNK):
            part = number(z, 0, 0)
            for j in range(chunk, min(chunk + CHUNK, n)):
                part = fma_conj(row[j], u[j], part)
            s = s + part
        s = -t * s
        row[start] = s
        for j in range(start + 1, n):
            row[j] = fma(s, u[j], row[j])
