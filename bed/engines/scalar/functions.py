"""Functions of one eigenvalue, and their first divided differences.

`function` is a `Function` and `p`, `q` are its parameters; `const` are the `Constants`
of the dtype. What is outside of the domain, or below a floor, the caller has dealt
with: see `bed._functions`.

No form below subtracts what is nearly equal, but for a − b, which is exact where it
matters. Of sqrt and 1/sqrt: a − b = (x − y)(x + y) with x = √a, y = √b. Of log, exp and
powers: what is left of f(a) − f(b) = f(b)(f(a)/f(b) − 1) is `log1p` and `expm1` (N. J.
Higham, Functions of Matrices, SIAM 2008, sections 1.2 and 10.5 for the differences that
their derivatives are made of).
"""

from math import exp, expm1, log, log1p, sqrt

from bed._functions import Function

SQRT, INVSQRT, LOG = int(Function.SQRT), int(Function.INVSQRT), int(Function.LOG)
EXP, POWER, ABS = int(Function.EXP), int(Function.POWER), int(Function.ABS)
SIGN, CLAMP = int(Function.SIGN), int(Function.CLAMP)


def value(function, x, p, q, const):
    """f(x)."""
    if function == SQRT:
        return sqrt(x)
    if function == INVSQRT:
        return const.one / sqrt(x)
    if function == LOG:
        return log(x)
    if function == EXP:
        return exp(x)
    if function == POWER:
        return x**p
    if function == ABS:
        return abs(x)
    if function == SIGN:
        if x == const.zero:
            return const.zero
        return const.one if x > const.zero else -const.one
    if function == CLAMP:
        return min(max(x, p), q)
    return x


def difference(function, a, b, p, q, const):
    """f[a, b], in any order of a and b."""
    if a < b:
        a, b = b, a
    if function == SQRT:
        return sqrt_difference(a, b, const)
    if function == INVSQRT:
        return invsqrt_difference(a, b, const)
    if function == LOG:
        return log_difference(a, b, const)
    if function == EXP:
        return exp_difference(a, b, const)
    if function == POWER:
        return power_difference(a, b, p, const)
    if function == ABS:
        return abs_difference(a, b, const)
    if function == SIGN:
        return sign_difference(a, b, const)
    if function == CLAMP:
        return clamp_difference(a, b, p, q, const)
    return const.one


def sqrt_difference(a, b, const):
    """1/(√a + √b); zero of two zeros."""
    size = sqrt(a) + sqrt(b)
    return const.one / size if size > const.zero else const.zero


def invsqrt_difference(a, b, const):
    """−1/(x y (x + y)) with x = √a, y = √b, in an order that does not overflow."""
    x, y = sqrt(a), sqrt(b)
    return -((const.one / x) * (const.one / y)) / (x + y)


def log_difference(a, b, const):
    """log(1 + d/b)/d with d = a − b ≥ 0."""
    if a == b:
        return const.one / a
    return log_ratio(a, b, const) / (a - b)


def log_ratio(a, b, const):
    """log(a/b) for a > b > 0."""
    ratio = (a - b) / b
    if ratio <= const.huge:
        return log1p(ratio)
    return log(a) - log(b)


def exp_difference(a, b, const):
    """eᵃ (1 − e⁻ᵈ)/d with d = a − b ≥ 0."""
    if a == b:
        return exp(a)
    d = min(a - b, const.huge)
    rest = -expm1(-d) / d
    if abs(a) < const.exp_range:
        return exp(a) * rest
    half = exp(a * const.half)  # the result may be in range where eᵃ is not
    return half * rest * half


def power_difference(a, b, p, const):
    """Of xᵖ with a ≥ b: both positive but for whole numbers p."""
    zero = const.zero
    one = const.one
    if b >= zero:
        return positive_power(a, b, p, one, const)
    odd = p % const.two != zero
    if a <= zero:
        return positive_power(-b, -a, p, one if odd else -one, const)
    larger, smaller = max(a, -b), min(a, -b)
    if not odd:
        return positive_power(larger, smaller, p, (a + b) / (a - b), const)
    rest = (one + exp(-abs(p) * log_ratio(larger, smaller, const))) / (a - b)
    return times_power(larger if p > zero else smaller, p, rest, one, const)


def positive_power(a, b, p, factor, const):
    """aᵖ (1 − (b/a)ᵖ)/d, or bᵖ ((a/b)ᵖ − 1)/d if p < 0, with d = a − b, a ≥ b ≥ 0.

    Times a factor.
    """
    zero, one = const.zero, const.one
    if p == zero:
        return zero
    if p == one:
        return factor
    if a == zero:
        return zero
    if a == b:
        rest = p / a
    elif b == zero:
        rest = one / a
    else:
        r = p * log_ratio(a, b, const)
        rest = (-expm1(-r) if p > zero else expm1(r)) / (a - b)
    return times_power(a if p > zero else b, p, rest, factor, const)


def times_power(x, p, rest, factor, const):
    """xᵖ·rest·factor: x^(p − 1) is not taken, as p − 1 is rounded, which shows."""
    if rest == const.zero or factor == const.zero:
        return const.zero
    both = rest * factor
    power, half = x**p, x ** (p * const.half)
    if abs(both) < const.tiny:
        return half * rest * factor * half
    if power >= const.tiny and power <= const.huge:
        return power * both
    return half * both * half  # the result may be in range where the power is not


def abs_difference(a, b, const):
    """1, −1, or (a + b)/(a − b) for a > 0 > b; zero of two zeros."""
    zero, one = const.zero, const.one
    if b >= zero:
        return one if a > zero else zero
    if a <= zero:
        return -one
    if a - b > const.huge:
        a, b = a * const.half, b * const.half
    return (a + b) / (a - b)


def sign_difference(a, b, const):
    """2/(a − b) for a > 0 > b, half of that if one is zero, else zero."""
    zero, half = const.zero, const.half
    if a > zero and b < zero:
        return const.one / (a * half - b * half)
    if a > zero and b == zero:
        return const.one / a
    if a == zero and b < zero:
        return -const.one / b
    return zero


def clamp_difference(a, b, low, high, const):
    """Of min(max(x, low), high); 1 at both ends."""
    zero, one = const.zero, const.one
    if a < low or b > high:
        return zero
    if b >= low and a <= high:
        return one
    top, bottom = min(a, high), max(b, low)
    if a - b > const.huge:
        a, b = a * const.half, b * const.half
        top, bottom = top * const.half, bottom * const.half
    return (top - bottom) / (a - b)
