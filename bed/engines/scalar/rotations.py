"""Givens rotations. The convention, for every engine that is written in Python:

    [ c  s] [g]   [r]          c = g/r,  s = f/r,  r = √(f² + g²) ≥ 0
    [-s  c] [f] = [0]

Applied to rows x and y of a matrix: x' = c·x + s·y and y' = c·y − s·x. Where f is zero,
`numba_cpu` and the reference take the identity, and r = g. `numba_cpu` and `raw_cuda`
have c ≥ 0 and give r the sign of g.
(Golub and Van Loan, Matrix Computations, 4th ed., section 5.1.8.)
"""

from math import sqrt


def givens(g, f, tiny, zero, one):
    """Rotation that turns (g, f) into (r, 0).

    Squares below `tiny` count as zero: the caller's matrix is scaled to order one and
    both entries are rounding noise then. The rotation is the identity in that case.

    Returns
    -------
    c, s, r
    """
    square = f * f + g * g
    if square < tiny:
        return one, zero, zero
    r = sqrt(square)
    return g / r, f / r, r
