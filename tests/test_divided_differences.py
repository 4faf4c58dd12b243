"""Divided differences against mpmath: all functions, gaps, signs, and magnitudes."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from bed._derivative import divided_differences
from bed._functions import Function, Spectral
from bed.engines._constants import constants
from bed.engines.scalar import functions as scalar

FIRST, SECOND = 4, 32  # eps
COUNT = 150

ROOTS = [Spectral(Function.SQRT), Spectral(Function.INVSQRT), Spectral(Function.LOG)]
BROKEN = (0.3, 0.5, 0.51, 0.999, 1.001, 1.5, 1.99, 2.1, 7.3, 0.01, -0.01, -0.5, -9.5)
POWERS = [Spectral(Function.POWER, p) for p in BROKEN]
WHOLE = [Spectral(Function.POWER, p) for p in (0, 1, 2, 3, 4, 7, 8, -1, -2, -3, -6)]
EXP = Spectral(Function.EXP)
PIECEWISE = [
    Spectral(Function.IDENTITY),
    Spectral(Function.ABS),
    Spectral(Function.SIGN),
    Spectral(Function.CLAMP, 0.0, math.inf),
    Spectral(Function.CLAMP, -math.inf, 1.5),
    Spectral(Function.CLAMP, -0.25, 2.0),
    Spectral(Function.CLAMP, 1.0, 1.0),
]


def _label(function):
    name = function.function.name.lower()
    return f"{name} {function.first:g} {function.second:g}".replace(" 0 0", "")


def _in(function, dtype):
    """With the exponent as it is in a dtype."""
    return function._replace(first=float(np.dtype(dtype).type(function.first)))


def _derivatives(function):
    """f, f′ and f″/2 for mpmath, with the conventions where they have no value."""
    code, low, high, _ = function
    if code == Function.LOG:
        return mpmath.log, lambda x: 1 / x, lambda x: -1 / (2 * x * x)
    if code == Function.EXP:
        return mpmath.exp, mpmath.exp, lambda x: mpmath.exp(x) / 2
    if code == Function.IDENTITY:
        return (lambda x: x), (lambda x: 1), (lambda x: 0)
    if code == Function.ABS:
        return abs, mpmath.sign, lambda x: 0
    if code == Function.SIGN:
        return mpmath.sign, lambda x: 0, lambda x: 0
    if code == Function.CLAMP:
        return (
            lambda x: min(max(x, mpf(low)), mpf(high)),
            lambda x: int(low <= x <= high),
            lambda x: 0,
        )
    p = {Function.SQRT: mpf(0.5), Function.INVSQRT: mpf(-0.5)}.get(code)
    p = mpf(low) if p is None else p
    whole = p % 1 == 0
    p = int(p) if whole else p

    def power(x, p, factor):
        if factor == 0 or (x == 0 and (p < 0 or not whole)):
            return mpf(0)
        return factor * x**p

    return (
        lambda x: power(x, p, 1),
        lambda x: power(x, p - 1, p),
        lambda x: power(x, p - 2, p * (p - 1) / mpf(2)),
    )


def _exact(function, points):
    """f[points] by its definition, with digits enough for what cancels."""
    x = sorted((mpf(float(t)) for t in points), reverse=True)
    parts = [abs(t) for t in x] + [abs(s - t) for s in x for t in x]
    parts = [t for t in parts if t]
    digits = 60 + 2 * int(mpmath.log10(max(parts) / min(parts))) if parts else 60
    if function.function == Function.EXP and parts:
        digits += int(min(max(parts), 2000)) + max(
            0, -2 * int(mpmath.log10(min(parts)))
        )
    with mpmath.workdps(digits):
        f, slope, curve = _derivatives(function)

        def first(a, b):
            return slope(a) if a == b else (f(a) - f(b)) / (a - b)

        if len(x) == 2:
            return first(*x)
        a, b, c = x
        if a == c:
            return curve(a)
        return (first(a, b) - first(b, c)) / (a - c)


@np.errstate(over="ignore")
def _points(rng, dtype, size, exp=False):
    """Arrays (count, size) over the range of the dtype, with gaps of every kind."""
    limits = np.finfo(dtype)
    decades = 300 if dtype == "f8" else 37
    rows = []
    while len(rows) < COUNT:
        if exp and rng.random() < 0.8:
            first = rng.choice([-1, 1]) * 10 ** rng.uniform(-3, np.log10(decades) + 0.3)
        else:
            first = 10 ** rng.uniform(-decades, decades)
            first = first if rng.random() < 0.5 else 10 ** rng.uniform(-3, 3)
        row = [first]
        while len(row) < size:
            near = row[rng.integers(len(row))]
            step = 10 ** rng.uniform(-17, 1.5)
            row.append(
                (
                    near,
                    np.nextafter(np.dtype(dtype).type(near), limits.max),
                    near * (1 + step),
                    near + step * 10 if exp else near * (1 + step),
                    near * 10 ** rng.uniform(-3, 3),
                    10 ** rng.uniform(-decades, decades),
                )[rng.integers(6)]
            )
        row = rng.permutation(np.array(row, "f8"))
        if abs(row).max() < limits.max and (exp or abs(row).min() >= limits.tiny):
            rows.append(row.astype(dtype))
    return np.array(rows)


@np.errstate(all="ignore")
def _differences(function, points):
    if points.shape[1] == 2:
        return divided_differences.first(function, points)[:, 0, 1]
    return divided_differences.second(function, points, 1)[:, 0, 2]


@np.errstate(all="ignore")
def _scalar_differences(function, points, monkeypatch):
    """Of the scalar twin, with functions that overflow as those of compiled code do."""
    for name in ("exp", "expm1", "log", "log1p", "sqrt"):
        monkeypatch.setattr(scalar, name, getattr(np, name))
    real, const = points.dtype.type, constants(points.dtype)
    code, p, q = int(function.function), real(function.first), real(function.second)
    return np.array([scalar.difference(code, a, b, p, q, const) for a, b in points])


def _assert_right(function, points, got, sizes=None):
    """Within so many eps, with the right zero or infinity out of range.

    `sizes` are what errors are relative to, if not to the values.
    """
    dtype = points.dtype
    limits = np.finfo(dtype)
    assert got.dtype == dtype
    allowed = FIRST if points.shape[1] == 2 else SECOND
    if function.function == Function.POWER and points.shape[1] == 3:
        allowed *= max(1, abs(function.first))
    for i, x in enumerate(got):
        exact = _exact(function, points[i])
        what = f"{_label(function)} of {points[i]}: {x}, not {mpmath.nstr(exact, 17)}"
        size = max(abs(exact), 0 if sizes is None else sizes[i])
        if abs(exact) > float(limits.max):
            if abs(exact) < 1000 * float(limits.eps) * size:
                assert not np.isnan(x), what
                continue
            close = abs(exact) < 1.001 * mpf(float(limits.max))
            assert close or x == math.copysign(math.inf, exact), what
            continue
        assert np.isfinite(x), what
        error = abs(mpf(float(x)) - exact)
        spacing = float(limits.eps) * max(size, float(limits.tiny))
        assert error <= allowed * spacing, f"{what}, {float(error / spacing):.3g} eps"


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("function", [*ROOTS, EXP, *POWERS, *WHOLE], ids=_label)
def test_positive_arguments(rng, monkeypatch, function, order, dtype):
    function = _in(function, dtype)
    points = _points(rng, dtype, order + 1, function == EXP)
    _assert_right(function, points, _differences(function, points))
    if order == 1:
        got = _scalar_differences(function, points, monkeypatch)
        _assert_right(function, points, got)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("function", [*PIECEWISE, *WHOLE], ids=_label)
def test_arguments_of_all_signs(rng, monkeypatch, function, order, dtype):
    """Where terms truly cancel, relative to these: those of the magnitudes."""
    function = _in(function, dtype)
    points = _points(rng, dtype, order + 1)
    points = points * rng.choice([-1, 1], points.shape).astype(dtype)
    sizes = None
    if function.function == Function.POWER:
        sizes = [abs(_exact(function, abs(x))) for x in points]
    elif math.isfinite(function.second) and function.second and order == 2:
        low, high = (
            Spectral(Function.CLAMP, function.first, math.inf),
            Spectral(Function.CLAMP, -math.inf, function.second),
        )
        between = (points.max(1) > function.second) & (points.min(1) < function.first)
        middle = np.sort(points)[:, 1]
        between &= (middle > function.first) & (middle < function.second)
        sizes = [
            abs(_exact(low, x)) + abs(_exact(high, x)) if b else 0
            for x, b in zip(points, between, strict=True)
        ]
    _assert_right(function, points, _differences(function, points), sizes)
    if order == 1:
        got = _scalar_differences(function, points, monkeypatch)
        _assert_right(function, points, got, sizes)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "function",
    [ROOTS[0], EXP, *PIECEWISE, *(x for x in (*POWERS, *WHOLE) if x.first >= 0)],
    ids=_label,
)
def test_zeros(rng, monkeypatch, function, order, dtype):
    """One, two or all arguments are zero; where f′ has no value, as is said."""
    function = _in(function, dtype)
    points = _points(rng, dtype, order + 1)
    if not function.has_domain:
        points = points * rng.choice([-1, 1], points.shape).astype(dtype)
    points[rng.random(points.shape) < 0.5] = 0
    if function.function == Function.SQRT or 0 < function.first < 1:
        # Two zeros among three: no slope is left of what is infinite.
        points = points[(points == 0).sum(axis=1) < 2]
        two = np.array([[0, 0, 1], [0, 0, 0]], dtype)
        assert (_differences(function, two) == 0).all()
        assert (_differences(function, two[:, :2]) == 0).all()
    sizes = None
    if function.function == Function.POWER:
        sizes = [abs(_exact(function, abs(x))) for x in points]
    elif function.function == Function.CLAMP:
        sizes = [max(1, 1 / abs(x).max(initial=1e-30)) for x in points.astype("f8")]
    _assert_right(function, points, _differences(function, points), sizes)
    if order == 1:
        got = _scalar_differences(function, points, monkeypatch)
        _assert_right(function, points, got, sizes)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "function", [*ROOTS, EXP, POWERS[0], WHOLE[3], PIECEWISE[1]], ids=_label
)
def test_floor_is_a_composition(rng, function, dtype):
    """Relative to the terms of the rule, of which there are two."""
    n, eps = 3, float(np.finfo(dtype).eps)
    floor = float(np.dtype(dtype).type(0.125 / (n * eps)))
    function = _in(function, dtype)
    lifted = function._replace(floor=floor)
    w = rng.uniform(-0.5, 1, (COUNT, n))
    w[::3, 1] = w[::3, 0]
    w[1::3, 2] = 0.125  # about the floor
    w[:, 0] = np.where(abs(w).max(axis=1) < 0.9, 1, w[:, 0])
    w = w.astype(dtype)
    first = divided_differences.first(lifted, w)
    second = [divided_differences.second(lifted, w, k) for k in range(n)]
    _, floors = divided_differences.arguments(lifted, w)
    for i, (row, (lowest,)) in enumerate(zip(w, floors, strict=True)):
        ramp = Spectral(Function.CLAMP, float(lowest), math.inf)
        x = np.maximum(row, lowest)
        for j, k in np.ndindex(n, n):
            exact = _exact(function, x[[j, k]]) * _exact(ramp, row[[j, k]])
            assert abs(first[i, j, k] - exact) <= 8 * eps * abs(exact)
        row, x = -np.sort(-row), -np.sort(-x)
        one = _exact(function, x) * _exact(ramp, row[:2]) * _exact(ramp, row[::2])
        other = _exact(function, x[1:]) * _exact(ramp, row)
        for k in range(n):
            left, right = (j for j in range(n) if j != k)
            got = second[k][i, left, right]
            assert got == second[k][i, right, left]
            assert abs(got - (one + other)) <= 40 * eps * (abs(one) + abs(other))


def test_outside_of_the_domain_all_is_nan():
    w = np.array([[1.0, 2, 3], [-1, 2, 3], [-1e-15, 2, 3], [np.nan, 1, 1]])
    for function, outside in (
        (ROOTS[0], [0, 1, 0, 1]),
        (ROOTS[2], [0, 1, 1, 1]),
        (POWERS[0], [0, 1, 0, 1]),
        (WHOLE[8], [0, 0, 0, 1]),
        (ROOTS[0]._replace(floor=1.0), [0, 0, 0, 1]),
        (PIECEWISE[1], [0, 0, 0, 1]),
    ):
        with np.errstate(all="ignore"):
            results = (
                divided_differences.values(function, w),
                divided_differences.first(function, w),
                divided_differences.second(function, w, 2),
            )
        for x in results:
            axes = tuple(range(1, x.ndim))
            assert np.isnan(x).all(axis=axes).tolist() == [bool(t) for t in outside]
            assert np.isnan(x).any(axis=axes).tolist() == [bool(t) for t in outside]
