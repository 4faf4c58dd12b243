"""Shifts of the QR iteration."""

from math import sqrt


def wilkinson_shift(a, b, c, half, zero):
    """Eigenvalue of [[a, b], [b, c]] nearer to c (of two equally near, the smaller).

    b must not be zero. The form avoids the cancellation of the textbook's formula.
    (Golub and Van Loan, section 8.3.5; the paper's shift μ of section 3.2.)
    """
    delta = (a - c) * half
    size = abs(delta) + sqrt(delta * delta + b * b)
    step = b * (b / size)
    return c - step if delta >= zero else c + step
