"""First divided differences of the functions that have names, for arrays.

Of arrays a ≥ b, elementwise, in the forms of `bed.engines.scalar.functions`, whose text
derives them. Nothing is subtracted from what nearly equals it, but for a − b itself.
"""

import math


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
    limit = -math.log(float(xp.finfo(a.dtype).smallest_normal))
    usual = xp.abs(a) < limit
    whole = xp.exp(where(xp, usual, a, 0))
    half = xp.exp(where(xp, ~usual, a, 0) / 2)
    return xp.where(usual, whole * factor / divisor, half * factor * (half / divisor))


def gap(xp, a, b):
    """a − b, not more than the largest number."""
    huge = float(xp.finfo(a.dtype).max)
    d = a - b
    return where(xp, d <= huge, d, huge)


def power(xp, a, b, p, span=None):
    """Of xᵖ; divided by `span`, if given, which is not smaller than |a| and |b|.

    Let M ≥ m be the magnitudes of a and b. With z = (m/M)^|p| = exp(−|p| log(M/m)) it
    is, up to the sign,

        M^(p − 1) (1 ∓ z)/(1 ∓ m/M)   for p > 0,
        mᵖ/M (1 ∓ z)/(1 ∓ m/M)        for p < 0.

    Both signs are minus where a and b have the same one; else that of m/M is plus, and
    that of z plus for odd p. The quotient is |p| at equality. No p − 1 is rounded: of
    large and small x, x^(p − 1) would show it.
    """
    if p == 0:
        return xp.zeros_like(a - b)
    if p == 1:
        return xp.ones_like(a - b)
    mixed = p % 1 == 0
    larger, smaller = a, b
    if mixed:
        size_a, size_b = xp.abs(a), xp.abs(b)
        larger, smaller = xp.maximum(size_a, size_b), xp.minimum(size_a, size_b)
    some = larger > 0
    larger = where(xp, some, larger, 1)
    opposite = (a > 0) & (b < 0) if mixed else None
    ratio = power_ratio(xp, larger, smaller, abs(p), opposite)
    if p < 0:
        half = smaller ** (p / 2)
        size = (half / larger) * (half if span is None else half / span)
    elif span is None or p <= 2:
        half = larger ** (p / 2)
        size = (half / larger) * half
        size = size if span is None else size / span
    else:
        root = power_root(larger, p)
        size = root * root * (larger / span)
    result = where(xp, some, size * ratio, 0)
    if not mixed or (p % 2 == 1 and p > 0):
        return -result if p < 0 else result
    negative = a < -b if p > 0 else a > -b
    if p % 2 == 1:
        negative = ~opposite
    return xp.where(negative, -result, result)


def power_ratio(xp, larger, smaller, p, opposite=None):
    """The quotient of `power` for p > 0; `opposite` are a and b of opposite signs."""
    some = smaller > 0
    r = p * log_ratio(xp, larger, where(xp, some, smaller, 1))
    minus = where(xp, some, -xp.expm1(-r), 1)  # 1 − z
    distance = (larger - smaller) / larger
    if opposite is not None:
        sum_ = 1 + smaller / larger
        distance = xp.where(opposite, sum_, distance)
        if p % 2 == 1:
            minus = xp.where(opposite, 2 - minus, minus)
    apart = distance > 0
    return where(xp, apart, minus / where(xp, apart, distance, 1), p)


def power_root(x, p):
    """x^(p/2 − 1) of x > 0, without rounding the exponent."""
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
