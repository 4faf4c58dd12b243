"""Divided differences of a function that is given with its derivatives, for any arrays.

Either is right somewhere: the quotient (f(a) − f(b))/(a − b), whose error is that of
its terms, eps·(|f(a)| + |f(b)|)/|a − b|, and the mean of f′ over the interval, by the
rule of Gauss and Legendre. How far the rule is right no distance tells: that of log and
√ goes with the eigenvalues, that of exp and tanh does not. But two rules tell. On an
interval where f′ is analytic the error of m points falls as ρ⁻²ᵐ (L. N. Trefethen, "Is
Gauss quadrature better than Clenshaw–Curtis?", SIAM Review 50, 2008, theorem 4.5): that
of 2m points is the square of that of m, which is the difference of the two. The mean is
taken where its error is expected to be less than that of the quotient.

Second differences are (f[a, b] − f[b, c])/(a − c), or the mean of f″ over the triangle
(the formula of Hermite and Genocchi; see C. de Boor, "Divided differences", 2005)

    f[a, b, c] = ∫₀¹ ∫₀¹ f″((1 − u) b + u (c + v (a − c))) u dv du

by a product of such rules, chosen between in the same way. Functions are called with
arrays (..., n, n), with numbers between the eigenvalues.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .first_differences import where

# Points of the rule whose mean is taken; another one of half as many judges it.
POINTS = 10
POINTS_OF_TRIANGLE = 6  # in each direction

# Relative error of the first differences, in eps, as the second ones find it.
FIRST = 16


def differences_of(w: Any, f: Callable, df: Callable) -> Any:
    """f[wᵢ, wⱼ], (..., n, n), symmetric to the last bit.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues, in any order.
    f, df : callable
        The function and its derivative, elementwise.
    """
    return _first(w[..., :, None], w[..., None, :], f, df)


def second_differences_of(w: Any, k: int, f: Callable, df: Callable, d2f: Callable):
    """f[wᵢ, wₖ, wⱼ], (..., n, n), for one k; with the second derivative `d2f`."""
    xp = array_namespace(w)
    a, c = w[..., :, None], w[..., None, :]
    b = w[..., k, None, None] + 0 * (a + c)
    a, c = a + 0 * b, c + 0 * b
    # The quotient has the largest and the smallest in its denominator.
    low, high = xp.minimum(a, c), xp.maximum(a, c)
    b, high = xp.minimum(b, high), xp.maximum(b, high)
    low, b = xp.minimum(b, low), xp.maximum(b, low)
    span = high - low
    apart = span > 0
    one, other = _first(high, b, f, df), _first(b, low, f, df)
    quotient = (one - other) / where(xp, apart, span, 1)
    many, few = POINTS_OF_TRIANGLE, POINTS_OF_TRIANGLE // 2
    mean = _mean_over_triangle(xp, high, b, low, d2f, many, many)
    # Each direction by itself: the errors of both together may cancel.
    rough = xp.abs(_mean_over_triangle(xp, high, b, low, d2f, few, many) - mean)
    rough = rough + xp.abs(_mean_over_triangle(xp, high, b, low, d2f, many, few) - mean)
    eps = FIRST * float(xp.finfo(w.dtype).eps)
    error = eps * (xp.abs(one) + xp.abs(other)) / where(xp, apart, span, 1)
    smooth = rough**2 <= error * xp.abs(mean)
    return xp.where(smooth | ~apart, mean, quotient)


def _first(a, b, f, df):
    """f[a, b] of arrays that are broadcast."""
    xp = array_namespace(a, b)
    a, b = a + 0 * b, b + 0 * a
    d = a - b
    apart = d != 0
    d = where(xp, apart, d, 1)
    fa, fb = f(a), f(b)
    quotient = (fa - fb) / d
    rough, mean = _mean(a, b, df, POINTS // 2), _mean(a, b, df, POINTS)
    error = float(xp.finfo(a.dtype).eps) * (xp.abs(fa) + xp.abs(fb)) / xp.abs(d)
    smooth = xp.abs(rough - mean) ** 2 <= error * xp.abs(mean)
    return xp.where(smooth | ~apart, mean, quotient)


def _mean(a, b, df, points):
    """Of f′ over [b, a]; the same bits for [a, b]."""
    middle, half = a / 2 + b / 2, a / 2 - b / 2
    nodes, weights = np.polynomial.legendre.leggauss(points)
    total = 0
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        if node > 0:
            pair = df(middle + node * half) + df(middle - node * half)
            total = total + weight / 2 * pair
        elif abs(node) < 1e-9:
            total = total + weight / 2 * df(middle)
    return total


def _mean_over_triangle(xp, a, b, c, d2f, points, others):
    """Half of that of f″, with points in the directions of u and v."""
    total = xp.zeros_like(a)
    for u, by_u in _rule(points):
        for v, by_v in _rule(others):
            x = b + u * ((c - b) + v * (a - c))
            total = total + by_u * by_v * u * d2f(x)
    return total


def _rule(points):
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return zip((nodes / 2 + 0.5).tolist(), (weights / 2).tolist(), strict=True)
