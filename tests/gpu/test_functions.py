"""Functions of matrices in the fused engine, of every size and kernel."""

from functools import partial

import numpy as np
import pytest

from bed import engines
from bed._functions import Function, Spectral
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES
from drivers import fetch, put
from kernels import FUSED
from matrix_functions import (
    FUNCTIONS,
    adjoint,
    assert_gradients_of_the_decomposition,
    assert_near,
    assert_values_and_gradients,
    decomposed,
    drawn,
    general,
)

SQRT = Spectral(Function.SQRT)
# The last sizes of every kernel, and the first of the next.
BORDERS = (1, 2, 3, 4, 5, 8, 16, 17, 32, 44, 45, 55, 56, 64)


def call(name, *arguments, out=None):
    """A function of the engine, with results on the host."""
    there = [put(x, FUSED) if isinstance(x, np.ndarray) else x for x in arguments]
    return fetch(engines.get(str(FUSED)).load(name)(*there, out=out))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", BORDERS)
def test_values_and_gradients(rng, n, dtype):
    """Of every function, against products in double precision."""
    for name, function in FUNCTIONS.items():
        if n > 8 and name not in ("sqrt", "power -3/2"):
            continue
        w, v = drawn(rng, 5, n, dtype, function)
        # The device's powers are right to some units in the last place.
        assert_values_and_gradients(
            rng,
            partial(call, "spectral_product"),
            partial(call, "spectral_vjp"),
            w,
            v,
            function,
            16 + 64 / n,
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", BORDERS)
def test_gradients_of_the_decomposition(rng, n, dtype):
    eigh_vjp = partial(call, "eigh_vjp")
    assert_gradients_of_the_decomposition(rng, eigh_vjp, 3, n, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 6, 20, 64])
def test_from_matrices_and_the_same_bits(rng, n, dtype):
    a = general(rng, (203, n, n), dtype)
    a = a @ adjoint(a) + np.eye(n, dtype=dtype)
    f, w, v, status = call("spectral", a, "L", SQRT)
    assert not status.any()
    assert_near(f @ f, a, abs(a).max(axis=(-2, -1)), n, 24)
    g = general(rng, a.shape, dtype)
    gradient = call("spectral_vjp", w, v, g, SQRT)
    for part in (slice(7, 8), slice(100, None), slice(None, None, -1)):
        again = call("spectral", a[part], "L", SQRT)
        assert_same_bits(again[0], f[part])
        again = call("spectral_vjp", w[part], v[part], g[part], SQRT)
        assert_same_bits(again, gradient[part])


def test_float32_that_is_subnormal_counts(rng):
    """The compiler keeps it, whatever CuPy asks of it elsewhere."""
    for n in (4, 6):
        w, v = decomposed(rng, 2, n, "f4")
        tiny = (w * np.float32(1e-41)).astype("f4")
        f, status = call("spectral_product", tiny, v, SQRT)
        exact = (v * np.sqrt(tiny.astype("f8"))[:, None, :]) @ adjoint(v)
        assert not status.any()
        assert_near(f, exact, abs(exact).max(), n)
