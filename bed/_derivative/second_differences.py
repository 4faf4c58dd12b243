"""Second divided differences of the functions that have names, for arrays.

Of arrays a ≥ b ≥ c, elementwise: f[a, b, c] = (f[a, b] − f[b, c])/(a − c), and f″/2
where all are equal (C. de Boor, "Divided differences", Surveys in Approximation Theory
1, 2005). That quotient is right where a − c is large beside them. Else there are

- forms without a subtraction for sqrt, 1/sqrt, abs, sign and clamp;
- the series around the mean m of a, b and c,

      f[a, b, c] = Σⱼ f^(j+2)(m)/(j + 2)! · hⱼ(a − m, b − m, c − m),

  with hⱼ the sum of all products of j factors. These are the coefficients of
  1/((1 − αt)(1 − βt)(1 − γt)) in powers of t, and α + β + γ = 0, so that
  hⱼ = −e₂ hⱼ₋₂ + e₃ hⱼ₋₃, e₂ = αβ + βγ + γα, e₃ = αβγ;
- for powers, which are exp(p log x), the rule of the composition.

In float64 the quotient is taken from where it loses a factor of about ten.
"""

import math

from . import first_differences as first
from .first_differences import where

# Spreads up to which the series are summed: that of log beside a, and that of exp.
NEAR_LOG = 0.25
NEAR_EXP = 0.7
# Powers of a smaller spread beside a are composed.
NEAR_POWER = 0.75


def identity(xp, a, b, c):
    """Zero."""
    return xp.zeros_like(a - b + c)


def sqrt(xp, a, b, c):
    """−1/((x + y)(y + z)(z + x)) with x = √a, y = √b, z = √c; zero of two zeros."""
    outer = first.sqrt(xp, a, b) * first.sqrt(xp, b, c)
    return -outer * first.sqrt(xp, a, c)


def invsqrt(xp, a, b, c):
    """(x + y + z)/(x y z (x + y)(y + z)(z + x)), what is large with what is small."""
    x, y, z = xp.sqrt(a), xp.sqrt(b), xp.sqrt(c)
    one, other = (1 / x) * (1 / z), (1 / (x + y)) * (1 / (y + z))
    return (one * other) * ((1 / y) * ((x + y + z) / (x + z)))


def log(xp, a, b, c):
    """By the quotient, or the series: −1/m² Σ (−1)ʲ/(j + 2) hⱼ of the gaps over m."""
    near = a - c <= NEAR_LOG * a
    series, mean = _log_series(xp, near, a, b, c)
    a, b, c = _apart(xp, ~near, a, b, c)
    quotient = (first.log(xp, a, b) - first.log(xp, b, c)) / (a - c)
    return xp.where(near, -(series / mean) / mean, quotient)


def _log_series(xp, near, a, b, c):
    """The sum for `log`, and m; one where they are not near."""
    x, y = where(xp, near, a - b, 0), where(xp, near, b - c, 0)
    mean = where(xp, near, b, 1) + (x - y) / 3
    largest = NEAR_LOG / 1.25  # of the gaps to m, beside m: where b = c
    return _series(xp, x / mean, y / mean, lambda j: (-1) ** j / (j + 2), largest), mean


def exp(xp, a, b, c):
    """eᵃ (φ(x) − e⁻ˣ φ(y))/(x + y) with φ(t) = (1 − e⁻ᵗ)/t, x = a − b, y = b − c."""
    numerator, divisor = exp_parts(xp, first.gap(xp, a, b), first.gap(xp, b, c))
    return first.times_exp(xp, a, numerator, divisor)


def exp_parts(xp, x, y):
    """Numerator and denominator of `exp` without eᵃ, the latter one for a series."""
    near = x + y <= NEAR_EXP
    s, t = where(xp, near, x, 0), where(xp, near, y, 0)
    largest = NEAR_EXP / 1.5
    series = _series(xp, s, t, lambda j: 1 / math.factorial(j + 2), largest)
    series = xp.exp(-(2 * s + t) / 3) * series
    s, t = where(xp, ~near, x, 1), where(xp, ~near, y, 1)
    quotient = first.falling(xp, s) - xp.exp(-s) * first.falling(xp, t)
    spread = first.gap(xp, s, -t)
    return xp.where(near, series, quotient), where(xp, ~near, spread, 1)


def power(xp, a, b, c, p):
    """Of xᵖ, by the quotient or by composition.

    Where all are negative it is that of their magnitudes, negated for odd p.
    """
    if p in (0, 1):
        return identity(xp, a, b, c)
    if p == 2:
        return xp.ones_like(a - b + c)
    mixed = p % 1 == 0
    if mixed:
        negative = a <= 0
        a, c = xp.where(negative, -c, a), xp.where(negative, -a, c)
        b = xp.where(negative, -b, b)
    near = (c > 0) & (a - c <= NEAR_POWER * a)
    apart = ~near & (a > c)  # three zeros are neither
    slow = 0.5 < p < 2  # as p → 1 the quotient cancels whatever the spread
    if slow:
        composed, quotient = _composed_near_one, _quotient_near_one
    else:
        composed, quotient = _composed, _quotient_of_root if 0 < p < 1 else _quotient
    x, y, z = (where(xp, near, t, 1) for t in (a, b, c))
    series = composed(xp, x, y, z, p)
    x, y, z = _apart(xp, apart, a, b, c)
    result = where(xp, apart, quotient(xp, x, y, z, p), 0)
    result = xp.where(near, series, result)
    return xp.where(negative, -result, result) if mixed and p % 2 == 1 else result


def _composed(xp, a, b, c, p):
    """By the rule of the composition; a/c is not large here."""
    inner, r = _composition(xp, a, b, c, p)
    root = first.power_root(r, p)
    return root * inner * root


def _composed_near_one(xp, a, b, c, p):
    """The same of f = x g, g = x^q, q = p − 1: a g[a, b, c] + g[b, c]."""
    q = p - 1  # without rounding
    if q == 0:
        return xp.zeros_like(a)
    inner, r = _composition(xp, a, b, c, q)
    u, _, _ = first.power_ratio(xp, b, c, q)
    if q > 0:
        inner = inner + xp.exp((1 - q) * first.log_ratio(xp, a, b)) * u
    else:
        inner = inner * (a / c) + (c / b) * u
    half = r ** (q / 2)
    return (half / r) * inner * half


def _composition(xp, a, b, c, p):
    """r^(2 − p) of xᵖ, and r: a for p > 0, else c.

    With F(t) = eᵖᵗ and t = log x it is F[a, b, c] t[a, b] t[a, c] + F[b, c] t[a, b, c],
    where F is taken relative to its largest value, F(log r), and t in units of r.
    """
    r = a if p > 0 else c
    x, y = abs(p) * first.log_ratio(xp, a, b), abs(p) * first.log_ratio(xp, b, c)
    if p > 0:
        numerator, divisor = exp_parts(xp, x, y)
        slope = xp.exp(-x) * first.falling(xp, y)
    else:
        numerator, divisor = exp_parts(xp, y, x)
        slope = first.falling(xp, y)
    curve = p * (numerator / divisor)
    curve = curve * (r * first.log(xp, a, b)) * (r * first.log(xp, a, c))
    near = a - c <= NEAR_LOG * a
    series, mean = _log_series(xp, near, a, b, c)
    s, t, u = _apart(xp, ~near, a, b, c)
    r_far = s if p > 0 else u
    bend = r_far * first.log(xp, s, t) - r_far * first.log(xp, t, u)
    bend = xp.where(near, -series * (r / mean) ** 2, bend * (r_far / (s - u)))
    return p * (curve + slope * bend), r


def _quotient(xp, a, b, c, p):
    """(f[a, b] − f[b, c])/(a − c) for p > 2 or p < 0.

    Relative to the power of the largest magnitude, or of the smallest if p < 0; what is
    left is in range where the first differences are not.
    """
    u, larger, smaller = first.power_ratio(xp, a, b, p)
    v, larger_2, smaller_2 = first.power_ratio(xp, b, c, p)
    span = a / 2 - c / 2  # a − c may overflow, too
    if p > 2:
        top = xp.maximum(larger, larger_2)
        inner = u * (larger / top) ** (p - 2) * (larger / span)
        inner = inner - v * (larger_2 / top) ** (p - 2) * (larger_2 / span)
        root = first.power_root(top, p)
        return where(xp, inner != 0, root * (inner / 2) * root, 0)
    least, unit = xp.minimum(smaller, smaller_2), xp.minimum(larger, larger_2)
    root = least ** (p / 4)
    if p > -1:  # a quotient may underflow that counts
        one, other = (
            (smaller ** (p / 4) / root) ** 4,
            (smaller_2 ** (p / 4) / root) ** 4,
        )
    else:
        one, other = (least / smaller) ** -p, (least / smaller_2) ** -p
    inner = u * one * (unit / larger) - v * other * (unit / larger_2)
    inner = inner / 2
    result = xp.where(
        unit < 1,
        inner / unit / span * root * root * root * root,
        (root / unit * root) * inner * (root / span * root),
    )
    return where(xp, inner != 0, result, 0)


def _quotient_of_root(xp, a, b, c, p):
    """The same for 0 < p ≤ 1/2; of two zeros zero."""
    some = b > 0
    a, b = where(xp, some, a, 2), where(xp, some, b, 1)
    u, _, _ = first.power_ratio(xp, a, b, p)
    v, _, _ = first.power_ratio(xp, b, c, p)
    one, other = a ** (p / 2) / xp.sqrt(a), b ** (p / 2) / xp.sqrt(b)
    inner = (one / other) ** 2 * u - v
    return where(xp, some, other * inner * (other / (a - c)), 0)


def _quotient_near_one(xp, a, b, c, p):
    """Of f = x g, g = x^q, q = p − 1: (a g[a, b] − c g[b, c])/(a − c).

    Of two zeros it is zero for p < 1.
    """
    q = p - 1
    some = b > 0
    b = where(xp, some, b, 1)
    u, _, _ = first.power_ratio(xp, a, b, q)
    v, _, _ = first.power_ratio(xp, b, c, q)
    if q > 0:
        result = a**q * u - b**q * (c / b) * v
    else:
        result = b**q * u - c**p / b * v
    return xp.where(
        some, result / (a - c), (a ** (p / 2) / a) ** 2 if p > 1 else xp.zeros_like(a)
    )


def _apart(xp, condition, a, b, c):
    """The three where the condition holds, else some with gaps."""
    return (
        where(xp, condition, a, 4),
        where(xp, condition, b, 2),
        where(xp, condition, c, 1),
    )


def _series(xp, x, y, factor, largest):
    """Σ factor(j) hⱼ of gaps x = a − b, y = b − c; to the mean they are not larger."""
    e2 = -(x * x + x * y + y * y) / 3
    e3 = (2 * x + y) * (x - y) * (x + 2 * y) / 27
    eps = float(xp.finfo(x.dtype).eps)
    h = [xp.ones_like(x), xp.zeros_like(x), -e2]
    total = factor(0) + factor(2) * h[2]
    j = 3
    while abs(factor(j)) * largest**j > eps / 8:
        h = [h[1], h[2], e3 * h[0] - e2 * h[1]]
        total = total + factor(j) * h[2]
        j += 1
    return total


def abs_(xp, a, b, c):
    """2|c|/((a − c)(b − c)) with b ≥ 0, else 2a/((a − b)(a − c)); a > 0 > c.

    The difference of two zeros is zero: 1/(a − c) if c = b = 0, or b = a = 0.
    """
    a, b, c, unit = _smaller(xp, a, b, c)
    opposite = (a > 0) & (c < 0)
    x, y, z = (where(xp, opposite, t, u) for t, u in ((a, 1), (b, 0), (c, -1)))
    lone = xp.where(y >= 0, -z, x)
    beside = xp.where(y >= 0, y - z, x - y)
    edge = (b == 0) & (a != c) & ~opposite
    span = where(xp, edge, a - c, 1)
    result = where(xp, opposite, 2 * (lone / beside) / (x - z), 0)
    return unit * where(xp, ~edge, result, 1) / span


def sign(xp, a, b, c):
    """−2/((a − c)(b − c)) for b > 0 > c, 2/((a − b)(a − c)) for a > 0 > b, else zero.

    Where one is zero, or two are, it is what the first differences make of it.
    """
    a, b, c, unit = _smaller(xp, a, b, c)
    one, other = first.sign(xp, a, b), first.sign(xp, b, c)
    apart = a > c
    span = where(xp, apart, a - c, 1)
    # Between a > 0 > c: 1/a − 1/|c| of the two.
    between = (b == 0) & (a > 0) & (c < 0)
    x, z = where(xp, between, a, 1), where(xp, between, -c, 1)
    of_both = (z - x) / xp.maximum(x, z) / xp.minimum(x, z)
    rest = xp.where(between, of_both, one - other)
    return unit * unit * where(xp, apart, rest / span, 0)


def clamp(xp, a, b, c, low, high):
    """Of max(x, low) − max(x, high), each (t − c)/(b − c)/(a − c) for a ≥ b ≥ t > c.

    And (a − t)/(a − b)/(a − c) for a ≥ t > b.
    """
    if low == high:
        return identity(xp, a, b, c)
    a, b, c, unit = _smaller(xp, a, b, c)
    span = where(xp, a > c, a - c, 1)
    result = xp.zeros_like(span)
    if low > -math.inf:
        t = low * unit
        result = kink(xp, a, b, c, t, (a >= t) & (c < t), b >= t)
    if high < math.inf:
        t = high * unit
        result = result - kink(xp, a, b, c, t, (a > t) & (c <= t), b > t)
    if -math.inf < low and high < math.inf:
        above, below = b > high * unit, b < low * unit
        both = (a > high * unit) & (c < low * unit) & (above | below)
        width = (high * 0.25 - low * 0.25) * 4
        beside = where(xp, both, xp.where(above, b - c, a - b), 1)
        step = width * unit / beside
        result = xp.where(both, xp.where(above, -step, step), result)
    return unit * (result / span)


def kink(xp, a, b, c, t, crosses, two_above):
    """(a − c) times the difference of max(x, t)."""
    x, z = where(xp, crosses, a, 1), where(xp, crosses, c, 0)
    y = xp.where(crosses, b, xp.where(two_above, x, z))
    up = xp.where(two_above, t - z, x - t)
    beside = xp.where(two_above, y - z, x - y)
    return where(xp, crosses, up / beside, 0)


def _smaller(xp, a, b, c):
    """The three, or a quarter of them where a − c would overflow, and one or 1/4."""
    large = float(xp.finfo(a.dtype).max) / 4
    unit = where(xp, (a <= large) & (c >= -large), xp.ones_like(a), 0.25)
    return a * unit, b * unit, c * unit, unit
