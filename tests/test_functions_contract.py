"""Functions of matrices in every engine that has its own, against higher precision.

`bed.engines` has the contract. Eigenvalues and eigenvectors are judged as those of any
engine, and what is made of them by `function_engines`.
"""

import os

import numpy as np
import pytest

from bed import engines
from bed._derivative import eigh as derivative
from bed._derivative.matfun import product_jvp
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian
from drivers import fetch, put, skip_unless_taken
from function_engines import (
    FUNCTIONS,
    INVSQRT,
    LABELS,
    LOG,
    SQRT,
    assert_close,
    call,
    diagonal,
    exact_of,
    extended,
    matrices,
    with_functions,
)

SIZES = (1, 2, 3, 5, 8, 17, 33)
# Of the others one third, another one by every seed.
_FIRST = 1 + int(os.environ["BED_TEST_SEED"]) % 3
MORE_SIZES = tuple(n for n in range(_FIRST, 65, 3) if n not in SIZES)


@pytest.fixture(params=with_functions())
def driver(request):
    """Every engine that has functions of matrices of its own, on every device."""
    return request.param


@pytest.fixture(params=with_functions(same_bits_only=True))
def steady_driver(request):
    """The same, without the engines whose bits depend on the batch."""
    return request.param


@pytest.mark.share(2)
@pytest.mark.sweep(12)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n", [*SIZES, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE_SIZES)]
)
def test_values_and_gradients(driver, rng, n, dtype):
    skip_unless_taken(driver, n)
    step = 1 if n in SIZES else 3
    for function, label in zip(FUNCTIONS[::step], LABELS[::step], strict=True):
        a = matrices(rng, n, dtype, function)
        f, w, v, status = call(driver, "spectral", a, "L", function)
        assert not status.any()
        assert status.dtype == np.int32
        assert (f.dtype, w.dtype, v.dtype) == (a.dtype, a.real.dtype, a.dtype)
        assert_eigh(a, w, v)
        exact, values, differences = exact_of(function, w, v)
        size = abs(values).max(axis=-1)
        assert_close(f, exact, size, label)
        again, status = call(driver, "spectral_product", w, v, function)
        assert not status.any()
        assert_close(again, exact, size, label)

        g = rng.standard_normal(a.shape)
        if a.dtype.kind == "c":
            g = g + 1j * rng.standard_normal(a.shape)
        g = g.astype(dtype)
        gradient = call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(extended(v), extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        assert gradient.dtype == a.dtype
        assert_close(gradient, exact, size, label)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scales(driver, rng, dtype, scale):
    for function in (SQRT, INVSQRT, LOG, FUNCTIONS[5], FUNCTIONS[9]):
        a = matrices(rng, 6, dtype, function, scale)
        f, w, v, status = call(driver, "spectral", a, "U", function)
        assert not status.any()
        assert_eigh(a, w, v, uplo="U")
        exact, values, differences = exact_of(function, w, v)
        assert_close(f, exact, abs(values).max(axis=-1), function)
        if abs(differences).max() > np.finfo(dtype).max:
            continue
        g = random_hermitian(rng, a.shape, dtype)
        gradient = call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(extended(v), extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        assert_close(gradient, exact, size, function)


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_triangle_that_is_read_counts(driver, rng, dtype):
    n = 7
    a = matrices(rng, n, dtype, SQRT)
    half = a.copy()
    half[np.broadcast_to(np.triu(np.ones((n, n), bool), 1), a.shape)] = np.nan
    expected = call(driver, "spectral", a, "L", SQRT)
    assert_same_bits(call(driver, "spectral", half, "L", SQRT), expected)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 6, 20])
def test_floor(driver, rng, n, dtype):
    """Small and negative eigenvalues are lifted, and have no slope of their own."""
    eps = np.finfo(dtype).eps
    floor = float(2.0 ** np.round(np.log2(0.05 / (n * eps))))
    w = np.array([np.r_[-0.3, 1e-9, np.linspace(0.2, 1, n - 2)], np.linspace(1, 2, n)])
    a = planted(rng, w, dtype)
    for function in (SQRT, INVSQRT, LOG, FUNCTIONS[4], FUNCTIONS[9]):
        function = function._replace(floor=floor)
        f, w, v, status = call(driver, "spectral", a, "L", function)
        assert not status.any()
        exact, values, differences = exact_of(function, w, v)
        assert_close(f, exact, abs(values).max(axis=-1), function)
        assert (differences[0, :2, :2] == 0).all()
        assert (differences[0, :2, 2:] != 0).all()
        g = random_hermitian(rng, a.shape, dtype)
        gradient = call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(extended(v), extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        assert_close(gradient, exact, size, function)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_slope_that_overflows_below_the_floor(driver, rng, dtype):
    """It is not used there: zero times infinity is NaN."""
    eps, tiny = (float(getattr(np.finfo(dtype), x)) for x in ("eps", "tiny"))
    w, v = diagonal(rng, [[tiny, tiny, 0.5, 1]], dtype)
    function = INVSQRT._replace(floor=tiny**0.75 / (4 * eps))
    g = random_hermitian(rng, v.shape, dtype)
    assert np.isfinite(call(driver, "spectral_vjp", w, v, g, function)).all()


def _guarded(driver, shape, dtype, guard=64):
    """Memory with guards, and an array in it that is NaN."""
    memory = np.full(int(np.prod(shape)) + 2 * guard, -77, dtype)
    memory[guard:-guard] = np.nan if np.dtype(dtype).kind in "fc" else -1
    memory = put(memory, driver)
    return memory, memory[guard:-guard].reshape(shape)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_engine_fills_what_it_is_given(driver, rng, dtype, kept, batch=37):
    n = 6
    a = matrices(rng, n, dtype, SQRT)[rng.integers(0, 5, batch)]
    real = a.real.dtype
    shapes = (a.shape, dtype), ((batch, n), real), (a.shape, dtype), ((batch,), "i4")
    memories, out = zip(*(_guarded(driver, *s) for s in shapes), strict=True)
    given = out if kept else (out[0], None, None, out[3])
    there = put(a, driver)
    results = engines.get(driver).load("spectral")(there, "L", SQRT, out=given)
    assert all(x is y for x, y in zip(results, given, strict=True))
    f, w, v, status = fetch(out)
    assert not status.any()
    expected = call(driver, "spectral", a, "L", SQRT)
    for x, y, filled in zip((f, w, v), expected, (True, kept, kept), strict=False):
        if filled:
            assert_same_bits(x, y)
        else:
            assert np.isnan(x).all()
    _, w, v, _ = expected
    g = random_hermitian(rng, a.shape, dtype)
    for name, arguments, shapes in (
        ("spectral_product", (w, v, SQRT), [(a.shape, dtype), ((batch,), "i4")]),
        ("spectral_vjp", (w, v, g, SQRT), [(a.shape, dtype)]),
        ("eigh_vjp", (w, v, w, g), [(a.shape, dtype)]),
    ):
        held, arrays = zip(*(_guarded(driver, *s) for s in shapes), strict=True)
        out = arrays if len(arrays) > 1 else arrays[0]
        result = call(driver, name, *arguments, out=out)
        assert_same_bits(result, call(driver, name, *arguments))
        assert_same_bits(fetch(out), result)
        memories += held
    for memory in map(fetch, memories):
        assert (memory[:64] == -77).all()
        assert (memory[-64:] == -77).all()


def _strided(x):
    """The same entries, every other one of a read-only array that is turned round."""
    axes = tuple(range(x.ndim))
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype).transpose(
        axes[::-1]
    )
    wide = np.asfortranarray(wide.transpose(axes[::-1]))[::-1]
    wide[..., ::2] = x
    wide.flags.writeable = False
    return wide[..., ::2]


def _by_columns(x):
    """The same entries, those of a column beside each other."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_do_not_matter(driver, rng, dtype):
    n, batch = 21, 5
    a = matrices(rng, n, dtype, SQRT)[rng.integers(0, 5, batch)]
    _, w, v, _ = call(driver, "spectral", a, "L", SQRT)
    g = random_hermitian(rng, a.shape, dtype)
    differences = random_hermitian(rng, a.shape, w.dtype)
    for name, arguments in (
        ("spectral", (a, "L", SQRT)),
        ("spectral_product", (w, v, SQRT)),
        ("spectral_vjp", (w, v, g, SQRT)),
        ("spectral_vjp", (w, v, g, SQRT, differences)),
        ("eigh_vjp", (w, v, w, g)),
    ):
        expected = call(driver, name, *arguments)
        for change in (_strided, _by_columns):
            strided = [change(x) if isinstance(x, np.ndarray) else x for x in arguments]
            assert_same_bits(call(driver, name, *strided), expected)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 4, 11, 33])
def test_given_differences_and_the_gradient_of_eigh(driver, rng, n, dtype, batch=6):
    skip_unless_taken(driver, n)
    # A gap near the cutoff would count as zero in one precision, and not in another.
    spectra = np.sort(rng.standard_normal((batch, n))) + 1e-3 * np.arange(n)
    w, v = diagonal(rng, spectra, dtype)
    w[1] = 1  # repeated
    g = rng.standard_normal(v.shape)
    if v.dtype.kind == "c":
        g = g + 1j * rng.standard_normal(v.shape)
    g = g.astype(dtype)
    differences = random_hermitian(rng, v.shape, w.dtype)
    identity = FUNCTIONS[0]  # which all eigenvalues are in the domain of
    gradient = call(driver, "spectral_vjp", w, v, g, identity, differences)
    exact = product_jvp(extended(v), extended(g), extended(differences))
    norm = np.linalg.norm(g, axis=(-2, -1))
    size = abs(differences).max(axis=(-2, -1)) * norm
    assert_close(gradient, exact, size, "given differences")
    outside = (w <= 0).any(axis=-1)
    gradient = call(driver, "spectral_vjp", w, v, g, LOG, differences)
    assert (np.isnan(gradient).all(axis=(-2, -1)) == outside).all()

    grad_w = rng.standard_normal(w.shape).astype(w.dtype)
    gap = np.diff(w, axis=-1).min(axis=-1, initial=1)
    for by_w, by_v in ((grad_w, g), (None, g), (grad_w, None), (None, None)):
        gradient = call(driver, "eigh_vjp", w, v, by_w, by_v)
        exact = derivative.eigh_vjp(
            extended(w),
            extended(v),
            None if by_w is None else extended(by_w),
            None if by_v is None else extended(by_v),
        )
        size = abs(grad_w).max(axis=-1) + norm / np.where(gap > 0, gap, 1)
        assert_close(gradient, exact, size, (by_w is None, by_v is None))


@pytest.mark.sweep(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 8, 17])
def test_position_in_a_batch_does_not_matter(steady_driver, rng, n, dtype):
    driver = steady_driver
    for function in (SQRT, FUNCTIONS[4], FUNCTIONS[5], FUNCTIONS[10]):
        a = matrices(rng, n, dtype, function)[rng.integers(0, 5, 41)]
        a = (a * rng.uniform(0.5, 1, (41, 1, 1))).astype(dtype)
        g = random_hermitian(rng, a.shape, dtype)
        whole = call(driver, "spectral", a, "L", function)
        _, w, v, _ = whole
        gradients = call(driver, "spectral_vjp", w, v, g, function)
        by_v = call(driver, "eigh_vjp", w, v, w, g)
        for i in (0, 1, 7, 31, 40):
            part = slice(i, i + 1)
            alone = call(driver, "spectral", a[part], "L", function)
            assert_same_bits(alone, tuple(x[part] for x in whole))
            alone = call(driver, "spectral_vjp", w[part], v[part], g[part], function)
            assert_same_bits(alone, gradients[part])
            alone = call(driver, "eigh_vjp", w[part], v[part], w[part], g[part])
            assert_same_bits(alone, by_v[part])
