"""Householder reflectors. The convention, for every engine but the reference:

    H = I − τ u uᴴ,  u₀ = 1,   Hᴴ x = β e₁,  β real

β has the sign opposite to the real part of x₀, so that x₀ − β never cancels; for a
complex x₀ the factor τ is complex and H is unitary but not Hermitian.
(LAPACK's convention; Golub and Van Loan, section 5.1. The reference has the paper's
Hermitian H = I − 2 u uᴴ/‖u‖², with a complex β.)
"""

from math import sqrt


def reflector(real, imag, tail, negligible, zero, one):
    """Reflector of a vector x from x₀ and the squared norm of the rest.

    Parameters
    ----------
    real, imag : float
        x₀; `imag` is zero for real matrices.
    tail : float
        Σ |xᵢ|² over i ≥ 1.
    negligible : float
        What is at most this in square is dropped. Squares of smaller entries lose
        digits to underflow, and are far below rounding in a matrix of order one.

    Returns
    -------
    beta, tau_real, tau_imag : float
        Zero τ means that H is the identity.
    scale_real, scale_imag : float
        The rest of u is the rest of x times this factor 1/(x₀ − β).
    """
    if tail + imag * imag <= negligible:
        return real, zero, zero, zero, zero
    norm = sqrt(tail + (real * real + imag * imag))
    beta = -norm if real > zero else norm
    gap = real - beta
    if imag == zero:
        return beta, -gap / beta, zero, one / gap, zero
    square = gap * gap + imag * imag
    return beta, -gap / beta, -imag / beta, gap / square, -imag / square
