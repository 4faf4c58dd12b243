"""Numbers of the device: what is flushed to zero, and what is only approximated."""

import platform

import numpy as np
import pytest

from . import Buffer, build, missing
from .kernels import compile_file

reason = missing()
pytestmark = pytest.mark.skipif(
    reason is not None, reason=f"the CUDA emulator {reason}"
)
TINY = np.finfo("f4").tiny
DEVICES = range(4)


@pytest.fixture(scope="module")
def kernels():
    generic = ("approximations", "contracted")
    names = [f"{name}<{t}>" for name in generic for t in ("float", "double")]
    return compile_file("arithmetic.cu", names)


def _same(found, expected):
    """Bit for bit, but that all NaN are one."""
    bits = f"u{found.itemsize}"
    equal = found.view(bits) == expected.astype(found.dtype).view(bits)
    return equal | (np.isnan(found) & np.isnan(expected))


def _flushed(x):
    return np.where(abs(x) < TINY, np.copysign(np.float32(0), x), x)


@pytest.fixture
def pairs():
    """All pairs of numbers on both sides of the borders, of both signs."""
    x = np.array([0, 2**-149, 2**-127, TINY, 3 * TINY, 1, 2**20, 2**126], "f4")
    x = np.concatenate([x, [np.nextafter(TINY, 0), np.inf, np.nan, 2**-75]], dtype="f4")
    x = np.concatenate([x, -x, 1 + x[:8]]).astype("f4")
    return [part.ravel() for part in np.meshgrid(x, x)]


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_subnormals_are_flushed_where_ptx_flushes_them(kernels, pairs, flush):
    """All operations with an ``.ftz`` form, and none that has not got one."""
    x, y = pairs
    n = len(x)
    out, wide = Buffer((16, n), "f4"), Buffer((3, n), "f8")
    whole = Buffer((3, n), "i4")
    arguments = [Buffer.of(x), Buffer.of(y), out, wide, whole]
    kernels["flushing"](n // 32, 32, 0, arguments, flush_subnormals=flush)

    zero = _flushed if flush else np.copy
    a, b = zero(x), zero(y)
    smaller = np.where(np.isnan(a) | (b < a) | ((a == b) & np.signbit(b)), b, a)
    larger = np.where(np.isnan(a) | (b > a) | ((a == b) & np.signbit(a)), b, a)
    flushing = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "div": a / b,
        "fma": a.astype("f8") * b + a,
        "neg": -a,
        "abs": abs(a),
        "min": smaller,
        "max": larger,
        "sqrt": np.sqrt(abs(a)),
        "cvt": a * 2.0**-20,
    }
    keeping = {
        "mul.rn": x * y,
        "copysign": np.copysign(x, y),
        "selp": np.where(np.isnan(x), y, x),
        "shfl": x,
        "mov": x,
    }
    expected = {k: zero(v.astype("f4")) for k, v in flushing.items()} | keeping
    for (name, one), found in zip(expected.items(), out.array, strict=True):
        assert _same(found, one).all(), name
    a, b = a.astype("f8"), b.astype("f8")
    wides = a, a * 2.0**30, 2.0**30 - b
    for found, one in zip(wide.array, wides, strict=True):
        assert _same(found, one).all()
    orders = [a < b, a <= b, a > b, a >= b, a == b, a != b]
    setp = sum(order.astype(int) << i for i, order in enumerate(orders))
    np.testing.assert_array_equal(whole.array, [setp, a > 0, a != 0])


@pytest.mark.parametrize("dtype, name", [("f4", "float"), ("f8", "double")])
def test_a_product_and_a_sum_are_one_operation(kernels, dtype, name):
    if platform.machine() == "x86_64" and "-mfma" not in build._machine_flags():
        pytest.skip("this processor has no fused multiply-add")
    d = np.ldexp(np.arange(1, 33, dtype=dtype), {"f4": -20, "f8": -40}[dtype])
    out = Buffer(32, dtype)
    arguments = [Buffer.of(x) for x in (1 + d, 1 - d, np.full_like(d, -1))]
    kernels[f"contracted<{name}>"](1, 32, 0, [*arguments, out])
    np.testing.assert_array_equal(out.array, -(d**2))  # the product rounds to about 1


# In units in the last place, from the correctly rounded result; None where the bound
# is on the relative error.
NAMES = ("rsqrt", "exp", "expm1", "log", "log1p", "pow", "rcp", "sqrt", "div")
ULPS = {
    "f4": (None, 2, 1, 1, 1, 4, 1, None, 2),
    "f8": (1, 1, 1, 1, 1, 2, None, None, 0),
}
RELATIVE = {
    ("f4", "rsqrt"): 2**-22.9,
    ("f4", "sqrt"): 2.0**-23,
    # The seeds: an argument and a result of 20 bits, the last of which may be wrong.
    # The second is that of the reciprocal root.
    ("f8", "rcp"): 2.0**-19,
    ("f8", "sqrt"): 2.0**-19,
}


@pytest.mark.parametrize("dtype, name", [("f4", "float"), ("f8", "double")])
def test_approximations_use_the_bounds_that_are_published(kernels, rng, dtype, name):
    n = 4096
    x = np.exp(rng.uniform(-40, 40, n)).astype(dtype)
    y = rng.uniform(-2, 2, n).astype(dtype)
    results = []
    for device in [*DEVICES, 0]:
        out = Buffer((9, n), dtype)
        arguments = [Buffer.of(x), Buffer.of(y), out]
        kernels[f"approximations<{name}>"](n // 32, 32, 0, arguments, device=device)
        results.append(out.array.copy())
    results = np.array(results)
    assert _same(results[-1], results[0]).all()  # a device repeats itself

    u, v = x.astype("g"), y.astype("g")
    root = np.sqrt(u) if dtype == "f4" else 1 / np.sqrt(u)
    exact = [1 / np.sqrt(u), np.exp(v), np.expm1(v), np.log(u), np.log1p(u), u**v]
    # A quotient of doubles is rounded once, as on the device.
    exact += [1 / u, root, v / u if dtype == "f4" else y / x]
    for kind, ulps, found, one in zip(
        NAMES, ULPS[dtype], results.swapaxes(0, 1), exact, strict=True
    ):
        if ulps is None:
            error = (abs(found - one) / abs(one)).astype("f8")
            bound = RELATIVE[dtype, kind]
            assert 0.7 * bound < error.max() <= bound, kind
        else:
            rounded = one.astype(dtype)
            bits = f"i{rounded.itemsize}"
            steps = abs(found.view(bits) - rounded.view(bits))
            assert set(steps.ravel()) == set(range(ulps + 1)), kind
        if ulps != 0:
            different = (found[:-1] != found[1:].copy()).any(axis=1)
            assert different[: len(DEVICES) - 1].all(), kind  # from each other


@pytest.mark.parametrize("dtype, name", [("f4", "float"), ("f8", "double")])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_approximations_of_special_numbers_are_exact(kernels, dtype, name):
    x = np.resize(np.array([0, 1, np.inf, np.nan], dtype), 32)
    y = np.zeros(32, dtype)
    for device in DEVICES:
        out = Buffer((9, 32), dtype)
        arguments = [Buffer.of(x), Buffer.of(y), out]
        kernels[f"approximations<{name}>"](1, 32, 0, arguments, device=device)
        rsqrt, exp, expm1, log, log1p, power, rcp, _, quotient = out.array[:, :4]
        assert [rsqrt[0], rsqrt[2], log[0], log[1]] == [np.inf, 0, -np.inf, 0]
        assert [log[2], log1p[0], log1p[2], rcp[0], rcp[2]] == [
            np.inf,
            0,
            *[np.inf] * 2,
            0,
        ]
        assert (exp == 1).all() and (expm1 == 0).all() and (power == 1).all()
        assert np.isnan([rsqrt[3], log[3], log1p[3], rcp[3], quotient[0]]).all()
