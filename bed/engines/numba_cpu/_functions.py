"""Functions of eigenvalues and their divided differences, for all lanes at once.

Twins of `bed.engines.scalar.functions`, with selections in place of branches. Log, exp
and powers have no vector form here: they are taken lane by lane, in double precision.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import register_jitable

from bed._functions import BAND, Function, Spectral
from bed.engines._constants import constants
from bed.engines.scalar import functions as scalar
from bed.engines.scalar.functions import (
    ABS,
    CLAMP,
    EXP,
    INVSQRT,
    LOG,
    POWER,
    SIGN,
    SQRT,
)

from ._compile import INSIDE, inline, kernel
from ._simd import fill, maximum, minimum, select, sqrt

IDENTITY = int(Function.IDENTITY)
_DOUBLE = constants(np.dtype("f8"))


for _name in ("log", "exp", "power"):
    _function = getattr(scalar, f"{_name}_difference")
    register_jitable(error_model="numpy", **INSIDE)(_function)
for _function in (scalar.log_ratio, scalar.positive_power, scalar.times_power):
    register_jitable(error_model="numpy", **INSIDE)(_function)


class Call(NamedTuple):
    """A `Spectral` as compiled code takes it."""

    function: int
    first: float
    second: float
    floor: float
    has_domain: bool
    is_singular: bool


def call_of(function: Spectral) -> tuple:
    """The arguments of `Call`, which Numba would look long at if they were an enum."""
    code, *numbers = function
    return int(code), *numbers, function.has_domain, function.is_singular


# Their types.
CALL = (types.intp, types.float64, types.float64, types.float64, *(types.boolean,) * 2)


@kernel
def arguments(w, n, x, call, const):
    """What f is taken of, to `x`; 1 in the lanes that have no result.

    Returns
    -------
    lift
        The least of them, by the floor.
    lost
        Mask of the lanes with NaN, or outside of the domain.
    outside
        Mask of the latter.
    """
    size = fill(w[0], 0)
    lost = size != const.zero
    for i in range(n):
        size = maximum(size, abs(w[i]))
        lost = lost | (w[i] != w[i])
    unit = size * const.eps * const.two * n
    lift = unit * call.floor if call.floor >= 0 else fill(size, -np.inf)
    band = -unit * BAND
    outside = size != size
    for i in range(n):
        t = maximum(w[i], lift)
        if call.has_domain:
            t = select((t <= const.zero) & (t >= band), const.zero, t)
            outside = outside | (t < const.zero)
        if call.is_singular:
            outside = outside | (t == const.zero)
        x[i] = t
    outside = outside & ~lost
    lost = lost | outside
    for i in range(n):
        x[i] = select(lost, const.one, x[i])
    return lift, lost, outside


@kernel
def values(work, n, call, const):
    """f of what `arguments` left in x; mask of the lanes where one is infinite."""
    x, f, function = work.x, work.f, call.function
    zero, one = const.zero, const.one
    if function == LOG or function == EXP or function == POWER:
        _values_by_lane(work, n, function, call.first)
    else:
        for i in range(n):
            t = x[i]
            if function == SQRT:
                t = sqrt(t)
            elif function == INVSQRT:
                t = one / sqrt(t)
            elif function == ABS:
                t = abs(t)
            elif function == SIGN:
                t = select(t > zero, one, select(t < zero, -one, t))
            elif function == CLAMP:
                t = minimum(maximum(t, call.first), call.second)
            f[i] = t
    overflow = zero != fill(x[0], 0)
    for i in range(n):
        overflow = overflow | (abs(f[i]) > const.huge)
    return overflow


@kernel
def _values_by_lane(work, n, function, p):
    floats = work.floats
    for i in range(n):
        for lane in range(work.lanes):
            x = np.float64(floats[work.x_at + i, lane])
            if function == LOG:
                f = log(x)
            elif function == EXP:
                f = exp(x)
            else:
                f = x**p
            floats[work.f_at + i, lane] = f


@kernel
def multiply_by_differences(a, work, n, call, lift, const):
    """Multiply a Hermitian matrix, entry by entry, with the divided differences.

    It is in `a`, with rows of `work.row`, and all of it is multiplied.
    """
    function, row = call.function, work.row
    w, x, f = work.w, work.x, work.f
    if function == SQRT or function == INVSQRT:
        for i in range(n):
            f[i] = sqrt(x[i])
    for i in range(n):
        for j in range(i + 1):
            if function == SQRT:
                t = f[i] + f[j]
                t = select(t > const.zero, const.one / t, const.zero)
            elif function == INVSQRT:
                t = (const.one / f[i]) * (const.one / f[j])
                t = -t / (f[i] + f[j])
            elif function == ABS:
                t = _abs(x[i], x[j], const)
            elif function == SIGN:
                t = _sign(x[i], x[j], const)
            elif function == CLAMP:
                t = _clamp(x[i], x[j], call.first, call.second, const)
            elif function == IDENTITY:
                t = fill(x[0], 1)
            else:
                _difference_by_lane(work, i, j, function, call.first)
                t = work.tile[0]
            if call.floor >= 0:
                lifted = _clamp(w[i], w[j], lift, fill(lift, np.inf), const)
                t = select(lifted == const.zero, const.zero, t * lifted)
            a[i * row + j] = t * a[i * row + j]
            if i != j:
                a[j * row + i] = t * a[j * row + i]


@kernel
def _difference_by_lane(work, i, j, function, p):
    floats = work.floats
    for lane in range(work.lanes):
        x = np.float64(floats[work.x_at + i, lane])
        y = np.float64(floats[work.x_at + j, lane])
        x, y = max(x, y), min(x, y)
        if function == LOG:
            t = scalar.log_difference(x, y, _DOUBLE)
        elif function == EXP:
            t = scalar.exp_difference(x, y, _DOUBLE)
        else:
            t = scalar.power_difference(x, y, p, _DOUBLE)
        floats[work.tile_at, lane] = t


@inline
def _abs(x, y, const):
    zero, one, half = const.zero, const.one, const.half
    a, b = maximum(x, y), minimum(x, y)
    mixed = (a * half + b * half) / (a * half - b * half)
    t = select(a <= zero, -one, mixed)
    t = select(b >= zero, one, t)
    return select((a == zero) & (b == zero), zero, t)


@inline
def _sign(x, y, const):
    zero, one, half = const.zero, const.one, const.half
    a, b = maximum(x, y), minimum(x, y)
    t = select((a > zero) & (b < zero), one / (a * half - b * half), zero)
    t = select((a > zero) & (b == zero), one / a, t)
    return select((a == zero) & (b < zero), -one / b, t)


@inline
def _clamp(x, y, low, high, const):
    zero, one, half = const.zero, const.one, const.half
    a, b = maximum(x, y), minimum(x, y)
    top, bottom = minimum(a, high), maximum(b, low)
    t = (top * half - bottom * half) / (a * half - b * half)
    t = select((b >= low) & (a <= high), one, t)
    return select((a < low) | (b > high), zero, t)
