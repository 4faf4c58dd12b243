"""Functions of matrices in every engine that has its own, against higher precision.

`bed.engines` has the contract. What is exact here comes in extended precision from the
engine's own eigenvalues and eigenvectors, which are judged as those of any engine.
"""

import numpy as np
import pytest

from bed import Status, engines
from bed._derivative import divided_differences
from bed._derivative import eigh as derivative
from bed._derivative.matfun import product_jvp
from bed._functions import BAND, Function, Spectral
from bed.testing.checks import assert_eigh, assert_same_bits, tolerance
from bed.testing.matrices import DTYPES, planted, random_hermitian
from drivers import fetch, parameters, put, skip_unless_taken

SIZES = (1, 2, 3, 5, 8, 17, 33)
MORE_SIZES = tuple(n for n in range(1, 65) if n not in SIZES)

# Parameters are exact in both precisions.
FUNCTIONS = (
    Spectral(Function.IDENTITY),
    Spectral(Function.SQRT),
    Spectral(Function.INVSQRT),
    Spectral(Function.LOG),
    Spectral(Function.EXP),
    Spectral(Function.POWER, 0.75),
    Spectral(Function.POWER, -1.5),
    Spectral(Function.POWER, 3),
    Spectral(Function.POWER, -2),
    Spectral(Function.ABS),
    Spectral(Function.SIGN),
    Spectral(Function.CLAMP, -0.5, 0.625),
    Spectral(Function.CLAMP, 0, np.inf),
)
SQRT, INVSQRT, LOG = FUNCTIONS[1:4]
LABELS = [f"{f.function.name.lower()} {f.first:g}" for f in FUNCTIONS]


def _with_functions(same_bits_only=False):
    for device in ("cpu", "cuda"):
        for parameter in parameters(device, same_bits_only):
            (name,) = parameter.values
            if name == "any" or engines.known(str(name)).functions:
                yield parameter


@pytest.fixture(params=_with_functions())
def driver(request):
    """Every engine that has functions of matrices of its own, on every device."""
    return request.param


@pytest.fixture(params=_with_functions(same_bits_only=True))
def steady_driver(request):
    """The same, without the engines whose bits depend on the batch."""
    return request.param


def _call(driver, name, *arguments, out=None):
    """A function of an engine; arrays go there, and results come back."""
    arrays = [put(x, driver) if isinstance(x, np.ndarray) else x for x in arguments]
    return fetch(engines.get(driver).load(name)(*arrays, out=out))


def _adjoint(x):
    return x.conj().swapaxes(-1, -2)


def _extended(x):
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def _exact_arguments(function, w):
    """Function and eigenvalues in extended precision, with the floor and the zeros."""
    eps = np.finfo(w.dtype).eps
    w, n = w.astype(np.longdouble), w.shape[-1]
    size = abs(w).max(axis=-1, keepdims=True)
    if function.has_domain and function.floor < 0:
        w = np.where((w <= 0) & (w >= -BAND * n * eps * size), 0, w)
    ratio = float(eps) / float(np.finfo(np.longdouble).eps)
    if function.floor > 0:
        function = function._replace(floor=function.floor * ratio)
    return function, w


@np.errstate(all="ignore")
def _exact(function, w, v):
    """f and the first differences in extended precision."""
    function, x = _exact_arguments(function, w)
    values = divided_differences.values(function, x)
    v = _extended(v)
    differences = divided_differences.first(function, x)
    return (v * values[..., None, :]) @ _adjoint(v), values, differences


def _assert_close(x, exact, size, what):
    """Within 8·n·eps of a size, entry by entry; Hermitian to the last bit."""
    assert_same_bits(x + 0, _adjoint(x) + 0)  # + 0: no sign of zero
    n = x.shape[-1]
    limits = np.finfo(x.dtype)
    worst = abs(_extended(x) - exact).max(axis=(-2, -1))
    allowed = tolerance(n, x.dtype) * size + limits.smallest_subnormal
    # A kernel may take subnormal numbers as zero.
    allowed = allowed + (n * limits.smallest_normal if x.dtype.itemsize < 16 else 0)
    bad = ~(worst <= allowed)
    assert not bad.any(), f"{what}, n = {n}, {x.dtype}: {(worst / allowed)[bad]}"


def _matrices(rng, n, dtype, function, scale=1.0):
    """Matrices with planted spectra that the function is defined on."""
    spectra = [rng.uniform(0.1, 2, n), np.resize([1.0, 2.0], n), np.ones(n)]
    spectra += [np.geomspace(0.01, 1, n), 1 + np.arange(n) * 1e-3]
    w = np.array(spectra) * scale
    if not (function.has_domain or function.is_singular):
        w = w * rng.choice([-1, 1], w.shape)
    return planted(rng, w, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n", [*SIZES, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE_SIZES)]
)
def test_values_and_gradients(driver, rng, n, dtype):
    skip_unless_taken(driver, n)
    step = 1 if n in SIZES else 3
    for function, label in zip(FUNCTIONS[::step], LABELS[::step], strict=True):
        a = _matrices(rng, n, dtype, function)
        f, w, v, status = _call(driver, "spectral", a, "L", function)
        assert not status.any()
        assert status.dtype == np.int32
        assert (f.dtype, w.dtype, v.dtype) == (a.dtype, a.real.dtype, a.dtype)
        assert_eigh(a, w, v)
        exact, values, differences = _exact(function, w, v)
        size = abs(values).max(axis=-1)
        _assert_close(f, exact, size, label)
        again, status = _call(driver, "spectral_product", w, v, function)
        assert not status.any()
        _assert_close(again, exact, size, label)

        g = rng.standard_normal(a.shape)
        if a.dtype.kind == "c":
            g = g + 1j * rng.standard_normal(a.shape)
        g = g.astype(dtype)
        gradient = _call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(_extended(v), _extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        assert gradient.dtype == a.dtype
        _assert_close(gradient, exact, size, label)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scales(driver, rng, dtype, scale):
    for function in (SQRT, INVSQRT, LOG, FUNCTIONS[5], FUNCTIONS[9]):
        a = _matrices(rng, 6, dtype, function, scale)
        f, w, v, status = _call(driver, "spectral", a, "U", function)
        assert not status.any()
        assert_eigh(a, w, v, uplo="U")
        exact, values, differences = _exact(function, w, v)
        _assert_close(f, exact, abs(values).max(axis=-1), function)
        if abs(differences).max() > np.finfo(dtype).max:
            continue
        g = random_hermitian(rng, a.shape, dtype)
        gradient = _call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(_extended(v), _extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        _assert_close(gradient, exact, size, function)


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_triangle_that_is_read_counts(driver, rng, dtype):
    n = 7
    a = _matrices(rng, n, dtype, SQRT)
    half = a.copy()
    half[np.broadcast_to(np.triu(np.ones((n, n), bool), 1), a.shape)] = np.nan
    expected = _call(driver, "spectral", a, "L", SQRT)
    assert_same_bits(_call(driver, "spectral", half, "L", SQRT), expected)


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
        f, w, v, status = _call(driver, "spectral", a, "L", function)
        assert not status.any()
        exact, values, differences = _exact(function, w, v)
        _assert_close(f, exact, abs(values).max(axis=-1), function)
        assert (differences[0, :2, :2] == 0).all()
        assert (differences[0, :2, 2:] != 0).all()
        g = random_hermitian(rng, a.shape, dtype)
        gradient = _call(driver, "spectral_vjp", w, v, g, function)
        exact = product_jvp(_extended(v), _extended(g), differences)
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g, axis=(-2, -1))
        _assert_close(gradient, exact, size, function)


def _diagonal(rng, w, dtype):
    """Eigenvalues, and some basis."""
    w = np.asarray(w, np.dtype(dtype).type(0).real.dtype)
    v = np.linalg.eigh(random_hermitian(rng, (*w.shape, w.shape[-1]), dtype))[1]
    return w, np.ascontiguousarray(v.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_slope_that_overflows_below_the_floor(driver, rng, dtype):
    """It is not used there: zero times infinity is NaN."""
    eps, tiny = (float(getattr(np.finfo(dtype), x)) for x in ("eps", "tiny"))
    w, v = _diagonal(rng, [[tiny, tiny, 0.5, 1]], dtype)
    function = INVSQRT._replace(floor=tiny**0.75 / (4 * eps))
    g = random_hermitian(rng, v.shape, dtype)
    assert np.isfinite(_call(driver, "spectral_vjp", w, v, g, function)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_domain(driver, rng, dtype):
    n = 4
    eps = np.finfo(dtype).eps
    zero = -BAND / 2 * n * eps
    spectra = [[1, 2, 3, 4], [zero, 1, 1, 1], [0, 0, 0.5, 1], [3 * zero, 0, 0, 1]]
    w, v = _diagonal(rng, spectra, dtype)
    g = random_hermitian(rng, v.shape, dtype)
    for function, outside in (
        (SQRT, [0, 0, 0, 1]),
        (FUNCTIONS[5], [0, 0, 0, 1]),
        (INVSQRT, [0, 1, 1, 1]),
        (LOG, [0, 1, 1, 1]),
        (FUNCTIONS[6], [0, 1, 1, 1]),
        (FUNCTIONS[8], [0, 0, 1, 1]),
        (FUNCTIONS[4], [0, 0, 0, 0]),
        (FUNCTIONS[9], [0, 0, 0, 0]),
    ):
        f, status = _call(driver, "spectral_product", w, v, function)
        gradient = _call(driver, "spectral_vjp", w, v, g, function)
        outside = np.array(outside, bool)
        assert (status == np.where(outside, Status.DOMAIN, Status.OK)).all(), function
        for x in (f, gradient):
            assert np.isnan(x[outside]).all()
            assert not np.isnan(x[~outside]).any()
        exact, values, differences = _exact(function, w[~outside], v[~outside])
        _assert_close(f[~outside], exact, abs(values).max(axis=-1), function)
        inside = _extended(v[~outside]), _extended(g[~outside])
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g[~outside])
        exact = product_jvp(*inside, differences)
        _assert_close(gradient[~outside], exact, size, function)


@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_say_so_and_stay_alone(driver, rng, dtype, batch=23):
    """NaN, Inf, and what is outside of the domain; their neighbours are as ever."""
    n = 5
    good = _matrices(rng, n, dtype, SQRT)[np.arange(batch) % 5]
    a = good.copy()
    a[3, 4, 1] = np.nan
    a[4, 2, 2] = np.inf
    a[9] = planted(rng, [-1, 1, 2, 3, 4], dtype)
    a[16] = 0
    failed = [3, 4, 9]
    status = np.zeros(batch, "i4")
    status[[3, 4]], status[9] = Status.NOT_FINITE, Status.DOMAIN
    results = _call(driver, "spectral", a, "L", SQRT)
    expected = _call(driver, "spectral", good, "L", SQRT)
    assert (results[3] == status).all()
    assert np.isnan(results[0][failed]).all()
    assert (results[0][16] == 0).all()
    others = np.setdiff1d(np.arange(batch), [*failed, 16])
    if engines.get(driver).same_bits:
        assert_same_bits(
            tuple(x[others] for x in results), tuple(x[others] for x in expected)
        )
    exact, values, _ = _exact(SQRT, results[1][others], results[2][others])
    _assert_close(results[0][others], exact, abs(values).max(axis=-1), "neighbours")

    status[9], status[16] = Status.DOMAIN, Status.DOMAIN
    assert (_call(driver, "spectral", a, "L", LOG)[3] == status).all()

    # What a gradient makes of w and v that are NaN, or outside of the domain.
    _, w, v, _ = results
    g = random_hermitian(rng, a.shape, dtype)
    unused = [3, 9, 12]
    g[unused] = 0
    gradient = _call(driver, "spectral_vjp", w, v, g, LOG)
    assert (gradient[unused] == 0).all()
    assert np.isnan(gradient[[4, 16]]).all()
    rest = np.setdiff1d(np.arange(batch), [3, 4, 9, 16])
    assert np.isfinite(gradient[rest]).all()
    g[4] = 0
    gradient = _call(driver, "eigh_vjp", w, v, None, g)
    assert (gradient[[3, 4, 9, 12]] == 0).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_overflow(driver, rng, dtype):
    limit = np.log(np.finfo(dtype).max)
    w, v = _diagonal(rng, [[0, 1, 2], [0, 1, 2 * limit], [-1, 0, 1]], dtype)
    f, status = _call(driver, "spectral_product", w, v, FUNCTIONS[4])
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.OK]
    assert np.isfinite(f[[0, 2]]).all()
    w[1, 2] = np.inf
    _, status = _call(driver, "spectral_product", w, v, Spectral(Function.IDENTITY))
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.OK]
    w[2, 0] = np.nan
    f, status = _call(driver, "spectral_product", w, v, Spectral(Function.IDENTITY))
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.NOT_FINITE]
    assert np.isnan(f[2]).all()


def _guarded(driver, shape, dtype, guard=64):
    """Memory with guards, and an array in it that is NaN."""
    memory = np.full(int(np.prod(shape)) + 2 * guard, -77, dtype)
    memory[guard:-guard] = np.nan if np.dtype(dtype).kind in "fc" else -1
    memory = put(memory, driver)
    return memory, memory[guard:-guard].reshape(shape)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_engine_fills_what_it_is_given(driver, rng, dtype, kept, batch=37):
    n = 6
    a = _matrices(rng, n, dtype, SQRT)[rng.integers(0, 5, batch)]
    real = a.real.dtype
    shapes = (a.shape, dtype), ((batch, n), real), (a.shape, dtype), ((batch,), "i4")
    memories, out = zip(*(_guarded(driver, *s) for s in shapes), strict=True)
    given = out if kept else (out[0], None, None, out[3])
    there = put(a, driver)
    results = engines.get(driver).load("spectral")(there, "L", SQRT, out=given)
    assert all(x is y for x, y in zip(results, given, strict=True))
    f, w, v, status = fetch(out)
    assert not status.any()
    expected = _call(driver, "spectral", a, "L", SQRT)
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
        result = _call(driver, name, *arguments, out=out)
        assert_same_bits(result, _call(driver, name, *arguments))
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_do_not_matter(driver, rng, dtype):
    n, batch = 5, 9
    a = _matrices(rng, n, dtype, SQRT)[rng.integers(0, 5, batch)]
    _, w, v, _ = _call(driver, "spectral", a, "L", SQRT)
    g = random_hermitian(rng, a.shape, dtype)
    differences = random_hermitian(rng, a.shape, w.dtype)
    for name, arguments in (
        ("spectral", (a, "L", SQRT)),
        ("spectral_product", (w, v, SQRT)),
        ("spectral_vjp", (w, v, g, SQRT)),
        ("spectral_vjp", (w, v, g, SQRT, differences)),
        ("eigh_vjp", (w, v, w, g)),
    ):
        strided = [_strided(x) if isinstance(x, np.ndarray) else x for x in arguments]
        expected = _call(driver, name, *arguments)
        assert_same_bits(_call(driver, name, *strided), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 4, 11, 33])
def test_given_differences_and_the_gradient_of_eigh(driver, rng, n, dtype, batch=6):
    skip_unless_taken(driver, n)
    w, v = _diagonal(rng, np.sort(rng.standard_normal((batch, n))), dtype)
    w[1] = 1  # repeated
    g = rng.standard_normal(v.shape)
    if v.dtype.kind == "c":
        g = g + 1j * rng.standard_normal(v.shape)
    g = g.astype(dtype)
    differences = random_hermitian(rng, v.shape, w.dtype)
    identity = FUNCTIONS[0]  # which all eigenvalues are in the domain of
    gradient = _call(driver, "spectral_vjp", w, v, g, identity, differences)
    exact = product_jvp(_extended(v), _extended(g), _extended(differences))
    norm = np.linalg.norm(g, axis=(-2, -1))
    size = abs(differences).max(axis=(-2, -1)) * norm
    _assert_close(gradient, exact, size, "given differences")
    outside = (w <= 0).any(axis=-1)
    gradient = _call(driver, "spectral_vjp", w, v, g, LOG, differences)
    assert (np.isnan(gradient).all(axis=(-2, -1)) == outside).all()

    grad_w = rng.standard_normal(w.shape).astype(w.dtype)
    gap = np.diff(w, axis=-1).min(axis=-1, initial=1)
    for by_w, by_v in ((grad_w, g), (None, g), (grad_w, None), (None, None)):
        gradient = _call(driver, "eigh_vjp", w, v, by_w, by_v)
        exact = derivative.eigh_vjp(
            _extended(w),
            _extended(v),
            None if by_w is None else _extended(by_w),
            None if by_v is None else _extended(by_v),
        )
        size = abs(grad_w).max(axis=-1) + norm / np.where(gap > 0, gap, 1)
        _assert_close(gradient, exact, size, (by_w is None, by_v is None))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 8, 17])
def test_position_in_a_batch_does_not_matter(steady_driver, rng, n, dtype):
    driver = steady_driver
    for function in (SQRT, FUNCTIONS[4], FUNCTIONS[5], FUNCTIONS[10]):
        a = _matrices(rng, n, dtype, function)[rng.integers(0, 5, 41)]
        a = (a * rng.uniform(0.5, 1, (41, 1, 1))).astype(dtype)
        g = random_hermitian(rng, a.shape, dtype)
        whole = _call(driver, "spectral", a, "L", function)
        _, w, v, _ = whole
        gradients = _call(driver, "spectral_vjp", w, v, g, function)
        by_v = _call(driver, "eigh_vjp", w, v, w, g)
        for i in (0, 1, 7, 31, 40):
            part = slice(i, i + 1)
            alone = _call(driver, "spectral", a[part], "L", function)
            assert_same_bits(alone, tuple(x[part] for x in whole))
            alone = _call(driver, "spectral_vjp", w[part], v[part], g[part], function)
            assert_same_bits(alone, gradients[part])
            alone = _call(driver, "eigh_vjp", w[part], v[part], w[part], g[part])
            assert_same_bits(alone, by_v[part])


def test_no_convergence_is_passed_on(rng, monkeypatch):
    """By the reference, and so by all that is made from another engine's `eigh`."""
    monkeypatch.setattr("bed.engines.reference.qr_iteration.MAX_PASSES", 0)
    a = random_hermitian(rng, (5, 6, 6), "f8") + 20 * np.eye(6)
    a[2] = np.diag(np.arange(6.0))
    f, w, v, status = engines.get("reference").load("spectral")(a, "L", SQRT)
    failed = np.arange(5) != 2
    assert (status == np.where(failed, Status.NO_CONVERGENCE, Status.OK)).all()
    for x in (f, w, v):
        assert np.isnan(x[failed]).all()
        assert np.isfinite(x[2]).all()
