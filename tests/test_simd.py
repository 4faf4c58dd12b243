"""SIMD vectors in Numba: every operation, lane by lane, against NumPy."""

import itertools
import platform
import re
from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np
import pytest
from numba import njit

from bed.engines.numba_cpu import _simd
from bed.engines.numba_cpu._complex import (
    as_numbers,
    conj,
    fma_conj,
    number,
    reciprocal,
)
from bed.engines.numba_cpu._simd import (
    any_lane,
    fill,
    fma,
    maximum,
    minimum,
    power_of_two,
    select,
)
from bed.engines.numba_cpu._vector_array import as_floats, as_vectors
from bed.testing.checks import assert_same_bits

LANES = (2, 4, 16)
SPECIAL = (0.0, -0.0, 1.0, -1.5, 1e-39, np.inf, -np.inf, np.nan, 3e38, -(2.0**-126))


def aligned(count, dtype):
    """Floats that begin at a multiple of 256 bytes."""
    dtype = np.dtype(dtype)
    memory = np.full(count + 256 // dtype.itemsize, 7, dtype)
    start = -memory.ctypes.data % 256 // dtype.itemsize
    return memory[start : start + count]


@lru_cache
def _arithmetic(lanes):
    """Eleven results of three vectors, in rows of `out`."""

    @njit
    def compute(x_floats, y_floats, z_floats, out_floats):
        count = len(x_floats) // lanes
        x_array = as_vectors(x_floats, 0, (count,), lanes)
        y_array = as_vectors(y_floats, 0, (count,), lanes)
        z_array = as_vectors(z_floats, 0, (count,), lanes)
        out = as_vectors(out_floats, 0, (11, count), lanes)
        for i in range(count):
            x, y, z = x_array[i], y_array[i], z_array[i]
            out[0, i] = x + y
            out[1, i] = x - y
            out[2, i] = x * y
            out[3, i] = x / y
            out[4, i] = -x
            out[5, i] = abs(x)
            out[6, i] = sqrt(x)
            out[7, i] = minimum(x, y)
            out[8, i] = maximum(x, y)
            out[9, i] = fma(x, y, z)
            out[10, i] = x * y + z

    return compute


@lru_cache
def _comparisons(lanes):
    """Ten masks of two vectors as ones and zeros, and whether any lane has x < y."""

    @njit
    def compute(x_floats, y_floats, out_floats, any_less):
        count = len(x_floats) // lanes
        x_array = as_vectors(x_floats, 0, (count,), lanes)
        y_array = as_vectors(y_floats, 0, (count,), lanes)
        out = as_vectors(out_floats, 0, (10, count), lanes)
        for i in range(count):
            x, y = x_array[i], y_array[i]
            one, zero = fill(x, 1), fill(x, 0)
            out[0, i] = select(x < y, one, zero)
            out[1, i] = select(x <= y, one, zero)
            out[2, i] = select(x > y, one, zero)
            out[3, i] = select(x >= y, one, zero)
            out[4, i] = select(x == y, one, zero)
            out[5, i] = select(x != y, one, zero)
            out[6, i] = select((x < y) & (x > 0), one, zero)
            out[7, i] = select((x < y) | (x > 0), one, zero)
            out[8, i] = select(~(x < y), 1, zero)
            out[9, i] = select(x < y, x, y)
            any_less[i] = any_lane(x < y)

    return compute


def _pairs(rng, dtype, lanes):
    """All pairs of special values, and random ones, as many as fill vectors."""
    x, y = np.array(list(itertools.product(SPECIAL, repeat=2))).T
    extra = rng.standard_normal((2, 2 * lanes - len(x) % lanes))
    columns = np.concatenate([x, extra[0]]), np.concatenate([y, extra[1]])
    result = []
    for column in columns:
        floats = aligned(len(column), dtype)
        floats[:] = column
        result.append(floats)
    return result


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_arithmetic_is_that_of_numpy_in_every_lane(rng, dtype, lanes):
    x, y = _pairs(rng, dtype, lanes)
    z = aligned(len(x), dtype)
    z[:] = rng.permutation(x)
    out = aligned(11 * len(x), dtype)
    _arithmetic(lanes)(x, y, z, out)
    with np.errstate(all="ignore"):
        expected = [
            x + y, x - y, x * y, x / y, -x, abs(x), np.sqrt(x),
            np.where(x < y, x, y), np.where(x > y, x, y), None, x * y + z,
        ]  # fmt: skip
    for found, wanted in zip(out.reshape(11, -1), expected, strict=True):
        if wanted is None:
            continue
        # Which NaN it is may differ.
        nan = np.isnan(wanted)
        assert (np.isnan(found) == nan).all()
        assert_same_bits(found[~nan], wanted[~nan])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_only_fma_is_fused(rng, dtype, lanes):
    eps = np.finfo(dtype).eps
    x, y, z = (aligned(8 * lanes, dtype) for _ in range(3))
    x[:], y[:], z[:] = rng.standard_normal((3, 8 * lanes))
    x[0], y[0], z[0] = 1 + eps, 1 - eps, -1
    out = aligned(11 * len(x), dtype)
    _arithmetic(lanes)(x, y, z, out)
    fused, separate = out.reshape(11, -1)[9:]
    assert fused[0] == -(eps**2)
    assert separate[0] == 0
    assert_same_bits(separate, x * y + z)
    for values in zip(x, y, z, fused, strict=True):
        a, b, c, found = (Fraction(float(value)) for value in values)
        assert abs(a * b + c - found) <= Fraction(float(np.spacing(abs(values[3])))) / 2


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_comparisons_and_masks(rng, dtype, lanes):
    x, y = _pairs(rng, dtype, lanes)
    y[-lanes:] = x[-lanes:]  # one vector without a lane that is less
    count = len(x) // lanes
    out, any_less = aligned(10 * len(x), dtype), np.zeros(count, bool)
    _comparisons(lanes)(x, y, out, any_less)
    with np.errstate(invalid="ignore"):
        less = x < y
        expected = [
            less, x <= y, x > y, x >= y, x == y, x != y,
            less & (x > 0), less | (x > 0), ~less, np.where(less, x, y),
        ]  # fmt: skip
    for found, wanted in zip(out.reshape(10, -1), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(any_less, less.reshape(count, lanes).any(axis=1))
    assert any_less.any() and not any_less.all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_power_of_two(rng, dtype):
    @njit
    def compute(x_floats, out_floats):
        out = as_vectors(out_floats, 0, (4,), 4)
        for i in range(4):
            out[i] = power_of_two(as_vectors(x_floats, 0, (4,), 4)[i])

    limits = np.finfo(dtype)
    x, out = aligned(16, dtype), aligned(16, dtype)
    x[:] = np.ldexp(rng.uniform(1, 2, 16), rng.integers(-100, 100, 16))
    x[:4] = limits.tiny, limits.max, 1, 1 - limits.epsneg
    compute(x, out)
    assert_same_bits(out, np.ldexp(out.dtype.type(1), np.frexp(x)[1] - 1))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_scalars_stand_for_vectors(dtype):
    @njit
    def compute(floats, scalar, out_floats):
        x = as_vectors(floats, 0, (1,), 4)[0]
        out = as_vectors(out_floats, 0, (3, 1), 4)
        out[0, 0] = 2 * x - scalar
        out[1, 0] = fma(scalar, x, 1)
        out[2, 0] = scalar

    x, out = aligned(4, dtype), aligned(12, dtype)
    x[:] = 1, 2, 3, 4
    compute(x, x.dtype.type(0.5), out)
    np.testing.assert_array_equal(
        out.reshape(3, 4), [2 * x - 0.5, x / 2 + 1, np.full(4, 0.5)]
    )


def test_arrays_of_vectors():
    """Rows are views, offsets count floats, the rest of the memory is left alone."""

    @njit
    def compute(floats):
        a = as_vectors(floats, 8, (2, 3), 4)
        row = a[1]
        row[2] = a[0, 1] + row[0]
        lanes = as_floats(floats, (8, 4))
        lanes[7, 3] = lanes[6, 0]

    floats = aligned(36, "f8")
    floats[:] = np.arange(36)
    expected = floats.copy()
    expected[28:32] = expected[12:16] + expected[20:24]
    expected[31] = expected[24]
    compute(floats)
    np.testing.assert_array_equal(floats, expected)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_vectors(rng, dtype):
    @njit
    def compute(floats, matrix, out_floats):
        a = as_numbers(floats, 0, (3,), 4, matrix)
        out = as_numbers(out_floats, 0, (9,), 4, matrix)
        x, y, z = a[0], a[1], a[2]
        out[0] = x + y
        out[1] = x * y
        out[2] = -x
        out[3] = conj(x)
        out[4] = reciprocal(x)
        out[5] = fma(x, y, z)
        out[6] = fma_conj(x, y, z)
        out[7] = fma(x.real, y, x.imag * z)
        out[8] = select(x.real < y.real, x, number(out, 2, y.imag))

    real = np.dtype(dtype).type(0).real.dtype
    floats, out = aligned(24, real), aligned(72, real)
    floats[:] = rng.standard_normal(24)
    compute(floats, np.empty(0, dtype), out)
    x, y, z = floats[::1].reshape(3, 2, 4)[:, 0] + 1j * floats.reshape(3, 2, 4)[:, 1]
    expected = [
        x + y, x * y, -x, x.conj(), 1 / x, x * y + z, x * y.conj() + z,
        x.real * y + x.imag * z, np.where(x.real < y.real, x, 2 + 1j * y.imag),
    ]  # fmt: skip
    found = out.reshape(9, 2, 4)[:, 0] + 1j * out.reshape(9, 2, 4)[:, 1]
    np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.parametrize("dtype, letter", [("f4", "s"), ("f8", "d")])
def test_operations_are_packed_instructions(dtype, letter):
    floats = [aligned(16, dtype) for _ in range(3)]
    compute = _arithmetic(16)
    compute(*floats, aligned(11 * 16, dtype))
    (text,) = (
        text for signature, text in compute.inspect_asm().items()
        if signature[0].dtype.name == np.dtype(dtype).name
    )  # fmt: skip
    for name in ("vadd", "vsub", "vmul", "vdiv", "vsqrt", r"vfn?m(?:add|sub)\d+"):
        assert re.search(rf"\b{name}p{letter}\b", text), f"no packed {name}"
        assert not re.search(rf"\b{name}s{letter}\b", text), f"scalar {name}"


def test_operations_are_for_compiled_code():
    for function in (fma, minimum, maximum, power_of_two, select, any_lane):
        arguments = [1.0] * function.__code__.co_argcount
        with pytest.raises(NotImplementedError):
            function(*arguments)


def test_vectors_of_different_lengths_do_not_mix():
    @njit
    def compute(floats):
        x, y = as_vectors(floats, 0, (1,), 2)[0], as_vectors(floats, 0, (1,), 4)[0]
        return any_lane(x + y < 0)

    with pytest.raises(Exception, match=r"Vector\(float64, 2\)"):
        compute(aligned(4, "f8"))


def test_the_list_of_names_is_complete():
    assert {"Vector", "Mask"} < set(_simd.__all__)
    assert all(hasattr(_simd, name) for name in _simd.__all__)
