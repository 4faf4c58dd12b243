"""Sums over the rows of a matrix, and over a row.

Four terms at a time in a tree: a fourth of the loads and stores, and rounding errors
that grow with n/4. Terms that are all alike, as in a matrix of ones, round the same way
every time, and a plain running sum would lose n/4 units in the last place.
"""

import numpy as np

from ._compile import inline, kernel, number


@kernel
def combine_rows(v, m, start, out, const):
    """out[j] = Σᵢ conj(v[i]) m[i, j] for j ≥ start, over i ≥ start."""
    n = m.shape[0]
    for j in range(start, n):
        out[j] = number(m, const.zero, const.zero)
    i = start
    while i + 4 <= n:
        v0, v1 = np.conj(v[i]), np.conj(v[i + 1])
        v2, v3 = np.conj(v[i + 2]), np.conj(v[i + 3])
        m0, m1, m2, m3 = m[i], m[i + 1], m[i + 2], m[i + 3]
        for j in range(start, n):
            out[j] += (v0 * m0[j] + v1 * m1[j]) + (v2 * m2[j] + v3 * m3[j])
        i += 4
    while i < n:
        v0 = np.conj(v[i])
        m0 = m[i]
        for j in range(start, n):
            out[j] += v0 * m0[j]
        i += 1


@inline
def _product(x, y):
    """Real part of conj(x)·y."""
    return x.real * y.real + x.imag * y.imag


@kernel
def inner(x, y, start, const):
    """Real part of Σ conj(x[j]) y[j] over j ≥ start."""
    n = x.shape[0]
    total = const.zero
    j = start
    while j + 4 <= n:
        total += (_product(x[j], y[j]) + _product(x[j + 1], y[j + 1])) + (
            _product(x[j + 2], y[j + 2]) + _product(x[j + 3], y[j + 3])
        )
        j += 4
    while j < n:
        total += _product(x[j], y[j])
        j += 1
    return total
