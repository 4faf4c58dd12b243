"""First divided differences of the functions that have names, for arrays.

Of arrays a ≥ b, elementwise, in the forms of `bed.engines.scalar.functions`, whose text
derives them. Nothing is subtracted from what nearly equals it, but for a − b itself.
"""

import math
import sys


def where(xp, condition, x, other):
    """``x``, or a number where the condition does not hold.

    Inside of an expression it keeps what has no value out of the graph that is
    differentiated again: zero times infinity would spoil the rest.
    """
    return xp.where(condition, x, xp.full_like(x, other))


def identity(xp, a, b):
    """One."""
    return xp.ones_like(a - b)


def sqrt(xp, a, b):
    """1/(√a + √b); zero of two zeros."""
    size = xp.sqrt(a) + xp.sqrt(b)
    some = size > 0
    return where(xp, some, 1 / where(xp, some, size, 1), 0)


def invsqrt(xp, a, b):
    """−1/(x y (x + y)) with x = √a, y = √b, in an order that does not overflow."""
    x, y = xp.sqrt(a), xp.sqrt(b)
    return -((1 / x) * (1 / y)) / (x + y)


def log(xp, a, b):
    """log(a/b)/(a − b)."""
    d = a - b
    apart = d != 0
    quotient = log_ratio(xp, a, b) / where(xp, apart, d, 1)
    return xp.where(apart, quotient, 1 / a)


def log_ratio(xp, a, b):
    """log(a/b) of b > 0."""
    d = a - b
    usual = b > d / float(xp.finfo(d.dtype).max)  # d/b does not overflow
    near = xp.log1p(where(xp, usual, d, 0) / where(xp, usual, b, 1))
    far = xp.log(where(xp, ~usual, a, 1)) - xp.log(where(xp, ~usual, b, 1))
    return xp.where(usual, near, far)


def exp(xp, a, b):
    """eᵃ (1 − e⁻ᵈ)/d with d = a − b."""
    d = gap(xp, a, b)
    return times_exp(xp, a, falling(xp, d))


def falling(xp, d):
    """(1 − e⁻ᵈ)/d; one at zero."""
    apart = d != 0
    return where(xp, apart, -xp.expm1(-d) / where(xp, apart, d, 1), 1)


def times_exp(xp, a, factor, divisor=1):
    """eᵃ·factor/divisor, which may be in range where eᵃ is not."""
    largest = min(float(xp.finfo(a.dtype).max), sys.float_info.max)
    usual = xp.abs(a) < math.log(largest) - 2  # where eᵃ is a normal number
    whole = xp.exp(where(xp, usual, a, 0))
    half = xp.exp(where(xp, ~usual, a, 0) / 2)
    return xp.where(usual, whole * factor / divisor, half * factor * (half / divisor))


def gap(xp, a, b):
    """a − b, not more than the largest number."""
    huge = float(xp.finfo(a.dtype).max)
    d = a - b
    return where(xp, d <= huge, d, huge)


def power(xp, a, b, p):
    """Of xᵖ with magnitudes M ≥ m of a and b: M^(p − 1) u, or mᵖ/M u if p < 0.

    u is that of `power_ratio`. No p − 1 is rounded: large and small x would show it.
    """
    if p == 0:
        return xp.zeros_like(a - b)
    if p == 1:
        return xp.ones_like(a - b)
    u, larger, smaller = power_ratio(xp, a, b, p)
    half = (smaller if p < 0 else larger) ** (p / 2)  # the power may be out of range
    return where(xp, u != 0, (half / larger) * u * half, 0)


def power_ratio(xp, a, b, p):
    """The quotient u of `power`, M, and m; zero and 1 of two zeros.

    With z = (m/M)^|p| = exp(−|p| log(M/m)) it is ±(1 − z)/(1 − m/M), and |p| where a
    and b are equal. Where they have opposite signs, as they may for whole p, that of
    m/M is plus, and that of z for odd p.
    """
    mixed = p % 1 == 0
    larger, smaller = a, b
    if mixed:
        size_a, size_b = xp.abs(a), xp.abs(b)
        larger, smaller = xp.maximum(size_a, size_b), xp.minimum(size_a, size_b)
    none = larger == 0
    larger = where(xp, ~none, larger, 1)
    some = smaller > 0
    r = abs(p) * log_ratio(xp, larger, where(xp, some, smaller, 1))
    numerator = where(xp, some, -xp.expm1(-r), 1)
    denominator = (larger - smaller) / larger
    if mixed:
        opposite = (a > 0) & (b < 0)
        denominator = xp.where(opposite, 1 + smaller / larger, denominator)
        if p % 2 == 1:
            numerator = xp.where(opposite, 2 - numerator, numerator)
    apart = denominator > 0
    u = where(xp, apart, numerator / where(xp, apart, denominator, 1), abs(p))
    u = where(xp, ~none, u, 0)
    if not mixed:
        return (u if p > 0 else -u), larger, smaller
    if p % 2 == 0:
        negative = (a < -b) if p > 0 else (a > -b)
        u = xp.where(negative, -u, u)
    elif p < 0:
        u = xp.where(opposite, u, -u)
    return u, larger, smaller


def power_root(x, p):
    """x^(p/2 − 1) of x > 0, without rounding p − 2."""
    quarter = x ** (p / 4)  # x^(p/2) may overflow
    return quarter * (quarter / x)


def abs_(xp, a, b):
    """1, −1, or (a + b)/(a − b) for a > 0 > b; zero of two zeros."""
    opposite = (a > 0) & (b < 0)
    x, y = where(xp, opposite, a, 1) / 2, where(xp, opposite, b, -1) / 2
    result = (x + y) / (x - y)
    result = where(xp, opposite | (b < 0), result, 1)
    result = where(xp, (a > 0) | (b >= 0), result, -1)
    return where(xp, (a > 0) | (b < 0), result, 0)


def sign(xp, a, b):
    """2/(a − b) for a > 0 > b, half of that if one is zero, else zero."""
    opposite = (a > 0) & (b < 0)
    x, y = where(xp, opposite, a, 1), where(xp, opposite, b, -1)
    result = where(xp, opposite, 1 / (x / 2 - y / 2), 0)
    edge = ((a > 0) & (b == 0)) | ((a == 0) & (b < 0))
    return xp.where(edge, 1 / where(xp, edge, a - b, 1), result)


def clamp(xp, a, b, low, high):
    """Of min(max(x, low), high): 1 inside and at both ends, 0 outside."""
    top = where(xp, a <= high, a, high) if high < math.inf else a
    bottom = where(xp, b >= low, b, low) if low > -math.inf else b
    inside = (a <= high) & (b >= low)
    outside = (a < low) | (b > high)
    plain = inside | outside
    d = where(xp, ~plain, a / 2 - b / 2, 1)
    result = where(xp, ~plain, top / 2 - bottom / 2, 1) / d
    return where(xp, ~outside, result, 0)
