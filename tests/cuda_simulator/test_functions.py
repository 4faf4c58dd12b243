"""Functions of matrices by the Numba-CUDA engine in the simulator."""

import numpy as np
import pytest

from bed import Status
from bed._functions import Function, Spectral
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES
from matrix_functions import (
    FUNCTIONS,
    adjoint,
    assert_gradients_of_the_decomposition,
    assert_near,
    assert_values_and_gradients,
    decomposed,
    differences,
    drawn,
    general,
)
from simulated import functions, gradients

SQRT, POWER = Spectral(Function.SQRT), Spectral(Function.POWER, 200)


@pytest.mark.parametrize(
    "n, dtype",
    [(1, "f4"), (1, "c16"), (2, "f8"), (2, "c8"), *((7, dtype) for dtype in DTYPES)],
)
def test_values_and_gradients(rng, n, dtype):
    product, vjp = functions.spectral_product, gradients.spectral_vjp
    for function in FUNCTIONS.values():
        w, v = drawn(rng, 3, n, dtype, function)
        assert_values_and_gradients(rng, product, vjp, w, v, function)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5])
def test_gradients_of_the_decomposition(rng, n, dtype):
    eigh_vjp = gradients.eigh_vjp
    assert_gradients_of_the_decomposition(rng, eigh_vjp, 2, n, dtype)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # inf · 0
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_from_matrices_that_fail(rng, dtype):
    """Each alone, kept or not."""
    n = 4
    a = general(rng, (5, n, n), dtype)
    a = a @ adjoint(a) + np.eye(n, dtype=dtype)
    expected = functions.spectral(a, "L", SQRT)
    assert_near(expected[0] @ expected[0], a, abs(a).max(axis=(-2, -1)), n, 24)
    a[1, -1, 0], a[3] = np.nan, -a[3]
    f, w, v, status = functions.spectral(a, "L", SQRT)
    assert status.tolist() == [0, Status.NOT_FINITE, 0, Status.DOMAIN, 0]
    assert np.isnan(f[[1, 3]]).all()
    good = [0, 2, 4]
    assert_same_bits((f[good], w[good]), (expected[0][good], expected[1][good]))
    out = (np.empty_like(f), None, None, np.empty_like(status))
    result = functions.spectral(a, "L", SQRT, out=out)
    assert all(x is y for x, y in zip(result, out, strict=True))
    assert_same_bits((result[0], result[3]), (f, status))

    g = general(rng, a.shape, dtype)
    g[4] = 0
    gradient = gradients.spectral_vjp(w, v, g, SQRT)
    assert np.isnan(gradient[[1, 3]]).all()
    assert np.isfinite(gradient[[0, 2]]).all()
    assert not gradient[4].any()
    assert not gradients.spectral_vjp(w, v, 0 * g, SQRT).any()
    lost = np.full_like(w[:1], np.nan), np.full_like(v[:1], np.nan)
    for by_w, by_v in ((w[:1], g[:1]), (None, g[:1]), (w[:1], None)):
        assert np.isnan(gradients.eigh_vjp(*lost, by_w, by_v)).all()
        zero = [None if x is None else np.zeros_like(x) for x in (by_w, by_v)]
        assert not gradients.eigh_vjp(*lost, *zero).any()

    large = np.zeros((2, n, n), dtype) + np.diag([1e4, 1, 0.5, 0.25]).astype(dtype)
    large[1, 0, 0] = 1
    assert functions.spectral(large, "L", POWER)[3].tolist() == [Status.OVERFLOW, 0]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floors_and_zeros(rng, dtype):
    n = 3
    unit = n * float(np.finfo(dtype).eps)
    v = decomposed(rng, 1, n, dtype)[1]
    w = np.array([[-4 * unit, unit, 1]], dtype)
    g = general(rng, v.shape, dtype)
    f, status = functions.spectral_product(w, v, SQRT)
    assert not status.any()
    exact = (v * np.sqrt(np.maximum(w, 0).astype("f8"))[:, None, :]) @ adjoint(v)
    assert_near(f, exact, 1, n)
    function = Spectral(Function.INVSQRT, floor=10.0)
    f, status = functions.spectral_product(w, v, function)
    assert not status.any()
    lifted = np.maximum(w.astype("f8"), 10 * unit)
    exact = (v * lifted[:, None, :] ** -0.5) @ adjoint(v)
    assert_near(f, exact, abs(exact).max(), n)
    slopes = differences(function, lifted)
    slopes[:, :2, :2] = 0
    slopes[:, 2, :2] *= (1 - 10 * unit) / (1 - w[:, :2].astype("f8"))
    slopes[:, :2, 2] = slopes[:, 2, :2]
    exact = v @ (slopes * (adjoint(v) @ ((g + adjoint(g)) / 2) @ v)) @ adjoint(v)
    gradient = gradients.spectral_vjp(w, v, g, function)
    assert_near(gradient, exact, abs(slopes).max() * np.linalg.norm(g), n, 16)
