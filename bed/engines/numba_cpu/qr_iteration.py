"""Implicit QR iteration on one symmetric tridiagonal matrix.

Wilkinson shifts, shrinkage from the bottom and splits at every negligible coupling
(Golub and Van Loan, algorithm 8.3.3; shrinkage is the paper's section 3.2, here for
each matrix at its own speed).
"""

from bed.engines.scalar import rotations, shifts

from ._compile import inline, kernel

# Sweeps per eigenvalue before a matrix is given up: about two are usual, and LAPACK
# allows 30 as well.
SWEEPS_PER_EIGENVALUE = 30

_givens = inline(rotations.givens)
_wilkinson_shift = inline(shifts.wilkinson_shift)


@kernel
def qr_iteration(d, e, z, const):
    """Diagonalise T in place.

    Parameters
    ----------
    d, e : (n,)
        Diagonal and couplings (n − 1 of them), of order one. `d` returns the
        eigenvalues, unsorted.
    z : (n, m)
        Row j is multiplied by the rotations as column j of Qᵀ is; m may be 0 for
        eigenvalues alone.

    Returns
    -------
    bool
        Whether every coupling became negligible.
    """
    n = d.shape[0]
    hi = n - 1
    for _ in range(SWEEPS_PER_EIGENVALUE * n):
        while hi > 0 and _negligible(d, e, hi - 1, const):
            hi -= 1
        if hi <= 0:
            return True
        lo = hi - 1
        while lo > 0 and not _negligible(d, e, lo - 1, const):
            lo -= 1
        _sweep(d, e, z, lo, hi, const)
    while hi > 0 and _negligible(d, e, hi - 1, const):
        hi -= 1
    return hi <= 0


@inline
def _negligible(d, e, i, const):
    """Whether coupling i is below rounding; a NaN is not."""
    size = abs(e[i])
    return size <= const.eps * (abs(d[i]) + abs(d[i + 1])) or size < const.floor


@kernel
def _sweep(d, e, z, lo, hi, const):
    """Chase one bulge from row `lo` to row `hi`; the couplings between are not zero."""
    mu = _wilkinson_shift(d[hi - 1], e[hi - 1], d[hi], const.half, const.zero)
    g = d[lo] - mu
    c, s, p = const.one, const.one, const.zero
    for i in range(lo, hi):
        f = s * e[i]
        b = c * e[i]
        c, s, r = _givens(g, f, const.tiny, const.zero, const.one)
        if i > lo:
            e[i - 1] = r
        g = d[i] - p
        t = (d[i + 1] - g) * s + (c * b + c * b)
        p = s * t
        d[i] = g + p
        g = c * t - b
        x, y = z[i], z[i + 1]
        for k in range(z.shape[1]):
            h = x[k]
            x[k] = c * h + s * y[k]
            y[k] = c * y[k] - s * h
    d[hi] -= p
    e[hi - 1] = g
