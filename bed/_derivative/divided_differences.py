"""Functions of eigenvalues and their divided differences, for any array namespace.

`bed._functions` says what functions are, what floors and domains do to eigenvalues, and
what the differences are where f′ has no value. The forms are in `first_differences` and
`second_differences`. They are right to a few eps, whatever the gaps: 4 eps for the
first differences, and 32 eps, or 32·p eps of powers p > 1, for the second ones. Where
terms of opposite signs truly cancel, as those of odd powers at eigenvalues of both
signs, of sign beside zero, or of two kinks, that is relative to these terms.

With a floor c the function is f∘m with m(λ) = max(λ, c), and

    (f∘m)[a, b]    = f[m(a), m(b)] m[a, b],
    (f∘m)[a, b, c] = f[m(a), m(b), m(c)] m[a, b] m[a, c] + f[m(b), m(c)] m[a, b, c].
"""

import math
import sys
from typing import Any

from array_api_compat import array_namespace, is_jax_array, is_torch_array

from .._functions import BAND, Function, Spectral
from . import first_differences, second_differences
from .first_differences import where

_NAMES = {Function.ABS: "abs_"} | {
    function: function.name.lower() for function in Function if function != Function.ABS
}


def arguments(function: Spectral, w: Any) -> tuple[Any, Any]:
    """What f is taken of, and the floor.

    Parameters
    ----------
    function : Spectral
    w : (..., n) real array
        Eigenvalues, in any order.

    Returns
    -------
    x : (..., n) array
        max(λ, c), or zero for what counts as zero. All of a matrix is NaN where an
        eigenvalue is, or is outside of the domain.
    c : (..., 1) array or None
    """
    xp = array_namespace(w)
    n = w.shape[-1]
    if n == 0:
        return w, None
    unit = n * float(xp.finfo(w.dtype).eps)
    size = xp.max(xp.abs(w), axis=-1, keepdims=True)
    x, c = w, None
    if function.floor >= 0:
        c = _constant(function.floor * unit * size)
        x = xp.maximum(w, c)
    elif function.has_domain:
        x = where(xp, (w > 0) | (w < -BAND * unit * size), w, 0)
    outside = xp.isnan(w)
    if function.has_domain:
        outside = outside | (x < 0)
    if function.is_singular:
        outside = outside | (x == 0)
    outside = xp.any(outside, axis=-1, keepdims=True)
    return where(xp, ~outside, x, math.nan), c


def _constant(c: Any) -> Any:
    """Without derivatives, in the libraries that have some."""
    if is_jax_array(c):
        return sys.modules["jax"].lax.stop_gradient(c)
    return c.detach() if is_torch_array(c) else c


def values(function: Spectral, w: Any) -> Any:
    """f(w), (..., n)."""
    xp = array_namespace(w)
    x, _ = arguments(function, w)
    code, first, second, _ = function
    if code == Function.SQRT:
        return xp.sqrt(x)
    if code == Function.INVSQRT:
        return 1 / xp.sqrt(x)
    if code == Function.LOG:
        return xp.log(x)
    if code == Function.EXP:
        return xp.exp(x)
    if code == Function.POWER:
        return x**first
    if code == Function.ABS:
        return xp.abs(x)
    if code == Function.SIGN:
        # Not xp.sign: that of array-api-compat for torch does not go through vmap.
        magnitude = where(xp, x != 0, xp.abs(x), 1)
        return x / magnitude
    if code == Function.CLAMP:
        x = where(xp, ~(x < first), x, first)
        return where(xp, ~(x > second), x, second)
    return x


def first(function: Spectral, w: Any) -> Any:
    """f[wᵢ, wⱼ], (..., n, n), symmetric to the last bit."""
    xp = array_namespace(w)
    x, c = arguments(function, w)
    a, b = _sorted(xp, x[..., :, None], x[..., None, :])
    result = _difference(first_differences, xp, function, a, b)
    if c is not None:
        d, e = _sorted(xp, w[..., :, None], w[..., None, :])
        result = _times(xp, result, _first_of_max(xp, d, e, c[..., None]))
    return xp.where(xp.isnan(a), a, result)


def second(function: Spectral, w: Any, k: int) -> Any:
    """f[wᵢ, wₖ, wⱼ], (..., n, n), for one k: the same for any order of the three."""
    xp = array_namespace(w)
    x, floor = arguments(function, w)
    a, b, c = _sorted_three(xp, x, k)
    result = _difference(second_differences, xp, function, a, b, c)
    if floor is not None:
        slope = _difference(first_differences, xp, function, b, c)
        floor = floor[..., None]
        d, e, f = _sorted_three(xp, w, k)
        one, other = _first_of_max(xp, d, e, floor), _first_of_max(xp, d, f, floor)
        result = _times(xp, result, one * other)
        result = result + _times(xp, slope, _second_of_max(xp, d, e, f, floor))
    return xp.where(xp.isnan(a), a, result)


def _difference(module, xp, function, *points):
    """Of sorted points, by the function's name in a module."""
    code, first, second, _ = function
    form = getattr(module, _NAMES[code])
    if code == Function.POWER:
        return form(xp, *points, first)
    if code == Function.CLAMP:
        return form(xp, *points, first, second)
    return form(xp, *points)


def _sorted(xp, x, y):
    """The larger and the smaller of two, NaN where one is."""
    return xp.maximum(x, y), xp.minimum(x, y)


def _sorted_three(xp, x, k):
    a, b = _sorted(xp, x[..., :, None], x[..., None, :])
    a, top = _sorted(xp, a, x[..., k, None, None])
    b, c = _sorted(xp, top, b)
    return a, b, c


def _times(xp, x, weight):
    """The product, zero where the weight is, even if x is infinite."""
    some = weight != 0
    return where(xp, some, where(xp, some, x, 0) * weight, 0)


def _first_of_max(xp, a, b, c):
    """m[a, b] of a ≥ b: 1 from c on, 0 below."""
    crosses = (a >= c) & (b < c)
    one = where(xp, crosses, a - c, 0) / where(xp, crosses, a - b, 1)
    return xp.where(b >= c, xp.ones_like(one), one)


def _second_of_max(xp, a, b, c, t):
    """m[a, b, c] of a ≥ b ≥ c with the floor t."""
    crosses = (a >= t) & (c < t)
    result = second_differences.kink(xp, a, b, c, t, crosses, b >= t)
    return result / where(xp, crosses, a - c, 1)
