"""Eigenvalues and eigenvectors of a symmetric 2 × 2 matrix in closed form."""

from math import sqrt


def two_by_two(a, b, c, half, zero, one):
    """Rotation that diagonalises [[a, b], [b, c]], by at most 45°.

    It is Jacobi's (Golub and Van Loan, section 8.5.2). LAPACK's dlaev2 finds the
    smaller eigenvalue from the determinant; here one entry of the diagonal gets what
    the other loses, b² over a sum of squares. That has the same error, of a few units
    in the last place of what is added, and is zero more often where the matrix is
    singular: b² is divided, and not a quotient multiplied.

    Parameters
    ----------
    a, b, c : float
        Of order one; b is zero, or large enough that its square is a normal number.

    Returns
    -------
    cosine, sine
        As of `rotations`, for the rows of a and c in this order.
    step
        The eigenvalues are a + step and c − step.
    """
    if b == zero:
        return one, zero, zero
    delta = (a - c) * half
    square = b * b
    size = abs(delta) + sqrt(delta * delta + square)
    r = sqrt(size * size + square)
    if delta < zero:
        return size / r, -b / r, -(square / size)
    return size / r, b / r, square / size
