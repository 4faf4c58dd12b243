"""Functions of matrices where there is none, or none that fits, in every engine."""

import numpy as np
import pytest

from bed import Status, engines
from bed._derivative.matfun import product_jvp
from bed._functions import BAND, Function, Spectral
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian
from function_engines import (
    FUNCTIONS,
    INVSQRT,
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


@pytest.fixture(params=with_functions())
def driver(request):
    """Every engine that has functions of matrices of its own, on every device."""
    return request.param


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_domain(driver, rng, dtype):
    n = 4
    eps = np.finfo(dtype).eps
    zero = -BAND / 2 * n * eps
    spectra = [[1, 2, 3, 4], [zero, 1, 1, 1], [0, 0, 0.5, 1], [3 * zero, 0, 0, 1]]
    w, v = diagonal(rng, spectra, dtype)
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
        f, status = call(driver, "spectral_product", w, v, function)
        gradient = call(driver, "spectral_vjp", w, v, g, function)
        outside = np.array(outside, bool)
        assert (status == np.where(outside, Status.DOMAIN, Status.OK)).all(), function
        for x in (f, gradient):
            assert np.isnan(x[outside]).all()
            assert not np.isnan(x[~outside]).any()
        exact, values, differences = exact_of(function, w[~outside], v[~outside])
        assert_close(f[~outside], exact, abs(values).max(axis=-1), function)
        inside = extended(v[~outside]), extended(g[~outside])
        size = abs(differences).max(axis=(-2, -1)) * np.linalg.norm(g[~outside])
        exact = product_jvp(*inside, differences)
        assert_close(gradient[~outside], exact, size, function)


@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_say_so_and_stay_alone(driver, rng, dtype, batch=23):
    """NaN, Inf, and what is outside of the domain; their neighbours are as ever."""
    n = 5
    good = matrices(rng, n, dtype, SQRT)[np.arange(batch) % 5]
    a = good.copy()
    a[3, 4, 1] = np.nan
    a[4, 2, 2] = np.inf
    a[9] = planted(rng, [-1, 1, 2, 3, 4], dtype)
    a[16] = 0
    failed = [3, 4, 9]
    status = np.zeros(batch, "i4")
    status[[3, 4]], status[9] = Status.NOT_FINITE, Status.DOMAIN
    results = call(driver, "spectral", a, "L", SQRT)
    expected = call(driver, "spectral", good, "L", SQRT)
    assert (results[3] == status).all()
    assert np.isnan(results[0][failed]).all()
    assert (results[0][16] == 0).all()
    others = np.setdiff1d(np.arange(batch), [*failed, 16])
    if engines.get(driver).same_bits:
        assert_same_bits(
            tuple(x[others] for x in results), tuple(x[others] for x in expected)
        )
    exact, values, _ = exact_of(SQRT, results[1][others], results[2][others])
    assert_close(results[0][others], exact, abs(values).max(axis=-1), "neighbours")

    status[9], status[16] = Status.DOMAIN, Status.DOMAIN
    assert (call(driver, "spectral", a, "L", LOG)[3] == status).all()

    # What a gradient makes of w and v that are NaN, or outside of the domain.
    _, w, v, _ = results
    g = random_hermitian(rng, a.shape, dtype)
    unused = [3, 9, 12]
    g[unused] = 0
    gradient = call(driver, "spectral_vjp", w, v, g, LOG)
    assert (gradient[unused] == 0).all()
    assert np.isnan(gradient[[4, 16]]).all()
    rest = np.setdiff1d(np.arange(batch), [3, 4, 9, 16])
    assert np.isfinite(gradient[rest]).all()
    g[4] = 0
    gradient = call(driver, "eigh_vjp", w, v, None, g)
    assert (gradient[[3, 4, 9, 12]] == 0).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_overflow(driver, rng, dtype):
    limit = np.log(np.finfo(dtype).max)
    w, v = diagonal(rng, [[0, 1, 2], [0, 1, 2 * limit], [-1, 0, 1]], dtype)
    f, status = call(driver, "spectral_product", w, v, FUNCTIONS[4])
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.OK]
    assert np.isfinite(f[[0, 2]]).all()
    w[1, 2] = np.inf
    _, status = call(driver, "spectral_product", w, v, Spectral(Function.IDENTITY))
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.OK]
    w[2, 0] = np.nan
    f, status = call(driver, "spectral_product", w, v, Spectral(Function.IDENTITY))
    assert status.tolist() == [Status.OK, Status.OVERFLOW, Status.NOT_FINITE]
    assert np.isnan(f[2]).all()


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
