"""Functions of matrices for tests of engines, and what is right of them."""

import numpy as np

from bed._derivative import eigh as derivative
from bed._functions import Function, Spectral
from bed.engines._constants import constants
from bed.engines.scalar import functions as scalar
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import random_hermitian

FUNCTIONS = {
    "identity": Spectral(Function.IDENTITY),
    "sqrt": Spectral(Function.SQRT),
    "invsqrt": Spectral(Function.INVSQRT),
    "log": Spectral(Function.LOG),
    "exp": Spectral(Function.EXP),
    "power 1/3": Spectral(Function.POWER, 1 / 3),
    "power -3/2": Spectral(Function.POWER, -1.5),
    "power 2": Spectral(Function.POWER, 2),
    "power 3": Spectral(Function.POWER, 3),
    "power 1": Spectral(Function.POWER, 1),
    "power 0": Spectral(Function.POWER, 0),
    "power -1": Spectral(Function.POWER, -1),
    "power -2": Spectral(Function.POWER, -2),
    "abs": Spectral(Function.ABS),
    "sign": Spectral(Function.SIGN),
    "clamp": Spectral(Function.CLAMP, 0.5, 1.5),
}


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def decomposed(rng, batch, n, dtype, *, positive=True):
    """Eigenvalues, some of them repeated, and eigenvectors, as an engine returns."""
    w = rng.uniform(0.3, 3, (batch, n))
    if not positive:
        w *= rng.choice([-1, 1], w.shape)
        w[:, : n // 4] = 0
    w[:, n // 2 : n // 2 + 2] = 0.75
    v = np.linalg.eigh(random_hermitian(rng, (batch, n, n), "c16"))[1]
    if np.dtype(dtype).kind != "c":
        v = np.linalg.eigh(random_hermitian(rng, (batch, n, n), "f8"))[1]
    real = np.dtype(dtype).type(0).real.dtype
    return np.sort(w, axis=-1).astype(real), v.astype(dtype)


def general(rng, shape, dtype):
    """Random numbers, complex where the dtype is."""
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def values(function, w):
    """f of every eigenvalue, in float64."""
    const = constants(np.dtype("f8"))
    f = [
        scalar.value(function.function, x, function.first, function.second, const)
        for x in w.astype("f8").flat
    ]
    return np.reshape(f, w.shape)


def differences(function, w):
    """f[w, w], in float64."""
    const = constants(np.dtype("f8"))
    parameters = function.first, function.second, const
    return np.array(
        [
            [
                [scalar.difference(function.function, x, y, *parameters) for y in row]
                for x in row
            ]
            for row in w.astype("f8")
        ]
    )


def assert_hermitian(x):
    """To the last bit, with a real diagonal."""
    assert_same_bits(x + 0, adjoint(x) + 0)  # + 0: no sign of zero
    assert not np.diagonal(x, axis1=-2, axis2=-1).imag.any()


def assert_near(x, expected, size, n, units=8):
    """Within some n·eps of a size, for every matrix."""
    error = abs(x - expected).max(axis=(-2, -1))
    unit = n * np.finfo(x.dtype).eps
    assert (error <= units * unit * size).all(), (error / size / unit).max()


def assert_values_and_gradients(rng, product, vjp, w, v, function, factor=16):
    """An engine's `spectral_product` and `spectral_vjp`, against double precision.

    Of the gradient within `factor`; so has to be that of given differences, which are
    made of other eigenvalues than the function is told of.
    """
    n, dtype = v.shape[-1], v.dtype
    f, status = product(w, v, function)
    assert not status.any(), function
    expected, slopes = values(function, w), differences(function, w)
    wide = v.astype("c16")
    exact = (wide * expected[:, None, :]) @ adjoint(wide)
    assert_near(f, exact, abs(expected).max(axis=-1), n)
    assert_hermitian(f)
    g = general(rng, v.shape, dtype)
    h = (g + adjoint(g)).astype("c16") / 2
    exact = wide @ (slopes * (adjoint(wide) @ h @ wide)) @ adjoint(wide)
    size = abs(slopes).max(axis=(-2, -1)) * np.linalg.norm(h, 2, axis=(-2, -1))
    gradient = vjp(w, v, g, function)
    assert_near(gradient, exact, size, n, factor)
    assert_hermitian(gradient)
    given = vjp(-w, v, g, FUNCTIONS["identity"], slopes.astype(w.dtype))
    assert_near(given, exact, size, n, 16)


def assert_gradients_of_the_decomposition(rng, eigh_vjp, batch, n, dtype):
    """An engine's `eigh_vjp`, with a gap of no more than rounding."""
    w, v = decomposed(rng, batch, n, dtype, positive=False)
    if n > 1:
        w[:, -1] = np.nextafter(w[:, -2], w[:, -2] + 1)
    grad_w = rng.standard_normal(w.shape).astype(w.dtype)
    grad_v = general(rng, v.shape, dtype)
    for by_w, by_v in ((grad_w, grad_v), (None, grad_v), (grad_w, None)):
        gradient = eigh_vjp(w, v, by_w, by_v)
        expected = derivative.eigh_vjp(w, v, by_w, by_v)
        size = np.maximum(abs(expected).max(axis=(-2, -1)), 1)
        assert_near(gradient, expected, size, n, 32)
        assert_hermitian(gradient)


def drawn(rng, batch, n, dtype, function):
    """`decomposed` in the domain of a function."""
    w, v = decomposed(rng, batch, n, dtype, positive=function.has_domain)
    if function.is_singular:
        w[w == 0] = 0.5
    return w, v
