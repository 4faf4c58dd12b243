"""Derivatives of functions of matrices in every array namespace, and those of funm."""

import array_api_strict
import jax
import jax.numpy
import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch

from bed._derivative import divided_differences, matfun
from bed._derivative.funm import differences_of, second_differences_of
from bed._functions import Function, Spectral
from bed.testing.matrices import random_hermitian

# torch's own: its forward mode compiles something with torch.jit when first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

NAMESPACES = {
    "numpy": np.asarray,
    "torch": torch.asarray,
    "jax": jax.numpy.asarray,
    "array_api_strict": array_api_strict.asarray,
}
FUNCTIONS = [
    Spectral(function, *parameters)
    for function in Function
    for parameters in {
        Function.POWER: [(0.3,), (1.4,), (3.0,), (-2.0,), (-0.7,), (2.6,)],
        Function.CLAMP: [(0.5, 1.5)],
    }.get(function, [()])
]
FUNCTIONS += [
    Spectral(Function.SQRT, floor=1e13),
    Spectral(Function.POWER, 1.4, floor=1e13),
    Spectral(Function.ABS, floor=1e13),
]

# What SciPy knows of a matrix that is not symmetric.
ANALYTIC = [
    (Spectral(Function.EXP), scipy.linalg.expm),
    (Spectral(Function.SQRT), scipy.linalg.sqrtm),
    (Spectral(Function.INVSQRT), lambda a: np.linalg.inv(scipy.linalg.sqrtm(a))),
    (Spectral(Function.LOG), scipy.linalg.logm),
    (Spectral(Function.POWER, 3.0), lambda a: a @ a @ a),
    (Spectral(Function.POWER, -1.0), np.linalg.inv),
]
SPECTRA = ([1, 1, 1, 1], [1, 1, 2, 2], [1, 1 + 1e-9, 1.5, 1.5 + 1e-5], [0.3, 1, 2, 4])


def _label(function):
    return f"{function.function.name.lower()} {function.first:g} {function.floor:g}"


@pytest.fixture(params=NAMESPACES)
def asarray(request):
    """Conversion to the arrays of each library."""
    with jax.enable_x64(True):
        yield NAMESPACES[request.param]


def _decomposed(rng, w, dtype="f8"):
    n = np.shape(w)[-1]
    v = np.linalg.qr(random_hermitian(rng, (*np.shape(w)[:-1], n, n), dtype))[0]
    return np.asarray(w, "f8"), v


@pytest.mark.parametrize("function", FUNCTIONS, ids=_label)
def test_every_namespace_is_numpy(rng, asarray, function):
    """In both precisions, and none computes in the other one."""
    w = np.array([[0.2, 0.2, 1, 1.2], [1, 1.5, 2, 8], [1e-3, 1, 5, 5]])
    for dtype, tolerance in (("f8", 1e-12), ("f4", 2e-4)):
        # A floor of 1e13 eps in single precision is above all eigenvalues.
        if function.floor > 0:
            eps = float(np.finfo(dtype).eps)
            function = function._replace(floor=0.002 / eps)
        x = w.astype(dtype)
        for name in ("values", "first"):
            compute = getattr(divided_differences, name)
            result = np.asarray(compute(function, asarray(x)))
            assert result.dtype == dtype
            np.testing.assert_allclose(result, compute(function, x), tolerance)
        for k in range(4):
            result = np.asarray(divided_differences.second(function, asarray(x), k))
            expected = divided_differences.second(function, x, k)
            assert result.dtype == dtype
            scale = abs(expected).max()
            np.testing.assert_allclose(result, expected, tolerance, tolerance * scale)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("w", SPECTRA)
@pytest.mark.parametrize("function, of_matrix", ANALYTIC, ids=lambda x: str(x)[:20])
def test_second_derivative_is_that_of_a_block_matrix(
    rng, function, of_matrix, w, dtype
):
    """f of [[A, Z, 0], [0, A, G], [0, 0, A]] has half of D²f(A)[Z, G] in its corner."""
    n = len(w)
    w, v = _decomposed(rng, w, dtype)
    z, g = random_hermitian(rng, (2, n, n), dtype)
    a = (v * w) @ v.conj().T
    zero = np.zeros_like(a)

    def blocks(z, g):
        return of_matrix(np.block([[a, z, zero], [zero, a, g], [zero, zero, a]]))

    one, other = blocks(z, g), blocks(g, z)
    result = matfun.spectral_second(w, v, z, g, function)
    exact = one[:n, 2 * n :] + other[:n, 2 * n :]
    scale = abs(exact).max() + abs(one).max()
    np.testing.assert_allclose(result, exact, atol=1e-11 * scale)
    np.testing.assert_array_equal(result, result.conj().T)
    first = matfun.spectral_jvp(w, v, z, function)
    np.testing.assert_allclose(first, one[:n, n : 2 * n], atol=1e-12 * scale)


@pytest.mark.parametrize("function", FUNCTIONS, ids=_label)
def test_second_derivative_is_that_of_the_first(rng, function):
    """Through w and v, where eigenvalues are apart; the third one of the second.

    The floor moves with the largest eigenvalue, and counts as constant.
    """
    n = 4
    w, v = _decomposed(rng, [0.013, 0.45, 1.2, 2.5])
    if function.floor > 0:
        function = function._replace(floor=0.0625 / (n * np.finfo("f8").eps * 2.5))
    z, g = random_hermitian(rng, (2, n, n), "f8")
    a = (v * w) @ v.T

    a, z, g = (torch.from_numpy(x) for x in (a, z, g))

    def second(a):
        return matfun.spectral_second(*torch.linalg.eigh(a), z, g, function)

    def first(a):
        return matfun.spectral_jvp(*torch.linalg.eigh(a), g, function)

    _, exact = torch.func.jvp(first, (a,), (z,))
    result = second(a)
    scale = abs(exact).max() + abs(result).max() + 1
    np.testing.assert_allclose(result, exact, atol=1e-10 * scale)
    if function.floor > 0:
        return
    step = 2e-6  # larger ones bend, where the smallest eigenvalue is 0.013
    _, third = torch.func.jvp(second, (a,), (z,))
    near = (second(a + step * z) - second(a - step * z)) / (2 * step)
    np.testing.assert_allclose(third, near, atol=1e-5 * (abs(near).max() + 1))


@pytest.mark.parametrize("p", [0.5, 1.4])
def test_jax_compiles_and_differentiates(rng, p):
    function = Spectral(Function.SQRT) if p == 0.5 else Spectral(Function.POWER, p)
    w, v = _decomposed(rng, [0.3, 1, 4])
    z, g = random_hermitian(rng, (2, 3, 3), "f8")
    a = (v * w) @ v.T

    def first(a):
        return matfun.spectral_jvp(*jax.numpy.linalg.eigh(a), g, function)

    @jax.jit
    def second(a):
        return matfun.spectral_second(*jax.numpy.linalg.eigh(a), z, g, function)

    with jax.enable_x64(True):
        _, exact = jax.jvp(jax.jit(first), (a,), (z,))
        np.testing.assert_allclose(second(a), exact, rtol=1e-10, atol=1e-10)
        again = jax.grad(lambda a: (second(a) * z).sum())(a)
        assert np.isfinite(again).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=_label)
def test_torch_maps_and_differentiates(rng, function):
    """vmap, and a finite third derivative at repeated eigenvalues, too."""
    n = 3
    w, v = _decomposed(rng, [[1, 1, 2], [0.3, 1, 4]])
    z, g = random_hermitian(rng, (2, 2, n, n), "f8")
    w, v, z, g = (torch.from_numpy(x) for x in (w, v, z, g))

    def second(w, v, z, g):
        return matfun.spectral_second(w, v, z, g, function)

    mapped = torch.vmap(second)(w, v, z, g)
    torch.testing.assert_close(mapped, second(w, v, z, g), rtol=1e-13, atol=1e-13)
    for x in (w, v, z, g):
        x.requires_grad_()
    second(w, v, z, g).sum().backward()
    for x in (w, v, z, g):
        assert torch.isfinite(x.grad).all()


def test_failed_matrices_are_nan(rng, asarray):
    w, v = _decomposed(rng, [[1, 2, 3], [-1, 2, 3], [np.nan, np.nan, np.nan]])
    g = random_hermitian(rng, v.shape, "f8")
    w, v, g = asarray(w), asarray(v), asarray(g)
    with np.errstate(all="ignore"):
        for code in (Function.SQRT, Function.LOG):
            first = np.asarray(matfun.spectral_jvp(w, v, g, Spectral(code)))
            second = np.asarray(matfun.spectral_second(w, v, g, g, Spectral(code)))
            for x in (first, second):
                assert np.isfinite(x[0]).all()
                assert np.isnan(x[1:]).all()


# f, f′, f″ for NumPy and f, f′ and f″/2 for mpmath; relative gaps or absolute ones.
GIVEN = {
    "sqrt": (
        (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 / (x * np.sqrt(x))),
        (mpmath.sqrt, lambda x: 0.5 / mpmath.sqrt(x), lambda x: -(x**-1.5) / 8),
        (1e-3, 1e3),
    ),
    "log": (
        (np.log, lambda x: 1 / x, lambda x: -1 / x**2),
        (mpmath.log, lambda x: 1 / x, lambda x: -1 / (2 * x**2)),
        (1e-3, 1e3),
    ),
    "exp": (
        (np.exp, np.exp, np.exp),
        (mpmath.exp, mpmath.exp, lambda x: mpmath.exp(x) / 2),
        (-300, 300),
    ),
    "tanh": (
        (
            np.tanh,
            lambda x: np.cosh(x) ** -2,
            lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2,
        ),
        (
            mpmath.tanh,
            lambda x: mpmath.sech(x) ** 2,
            lambda x: -mpmath.tanh(x) * mpmath.sech(x) ** 2,
        ),
        (-3, 3),
    ),
}


def _random_points(rng, count, size, low, high):
    """Gaps of all sizes, relative where the numbers are positive."""
    if low > 0:
        start = np.exp(rng.uniform(np.log(low), np.log(high), (count, 1)))
        unit = start
    else:
        start, unit = rng.uniform(low, high, (count, 1)), 1
    gaps = 10 ** rng.uniform(-17, 0.5, (count, size - 1))
    return rng.permuted(np.hstack([start, start + gaps * unit]), axis=1)


@pytest.mark.parametrize("name", GIVEN)
def test_differences_of_given_functions(rng, name):
    """Within 300 eps, and second ones where f″ has no zero near within 1000."""
    (f, df, d2f), (exact_f, slope, curve), (low, high) = GIVEN[name]
    eps = np.finfo("f8").eps
    pairs = _random_points(rng, 1000, 2, low, high)
    triples = _random_points(rng, 300, 3, low, high)
    first = differences_of(pairs, f, df)
    np.testing.assert_array_equal(first, first.swapaxes(1, 2))
    second = second_differences_of(triples, 1, f, df, d2f)

    def difference(a, b):
        return slope(a) if a == b else (exact_f(a) - exact_f(b)) / (a - b)

    with mpmath.workdps(400 if name == "exp" else 100):
        for x, got in zip(pairs, first[:, 0, 1], strict=True):
            exact = difference(*map(mpmath.mpf, x))
            assert abs(got - exact) <= 300 * eps * abs(exact)
        for x, got in zip(triples, second[:, 0, 2], strict=True):
            a, b, c = sorted(map(mpmath.mpf, x))
            exact = curve(a)
            if a != c:
                exact = (difference(a, b) - difference(b, c)) / (a - c)
            size = max(abs(exact), abs(curve(a)), abs(curve(c)))
            assert abs(got - exact) <= 1000 * eps * size, x


def test_a_kink_is_left_to_the_quotient():
    """No rule is right across it."""
    w = np.array([-1.5, -0.5, 0.25, 3.0])
    got = differences_of(w, np.abs, np.sign)
    np.testing.assert_allclose(
        got, divided_differences.first(Spectral(Function.ABS), w), 1e-15
    )


@pytest.mark.parametrize("w", SPECTRA[1:3])
def test_given_functions_have_the_derivatives_of_named_ones(rng, asarray, w):
    w, v = _decomposed(rng, w)
    z, g = random_hermitian(rng, (2, 4, 4), "f8")
    expected = (
        matfun.spectral_jvp(w, v, g, Spectral(Function.POWER, 3.0)),
        matfun.spectral_second(w, v, z, g, Spectral(Function.POWER, 3.0)),
    )
    w, v, z, g = (asarray(x) for x in (w, v, z, g))
    given = (lambda x: x**3.0), (lambda x: 3 * x**2.0), (lambda x: 6 * x)
    first = matfun.product_jvp(v, g, differences_of(w, *given[:2]))
    second = matfun.product_second(
        v, z, g, lambda k: second_differences_of(w, k, *given)
    )
    np.testing.assert_allclose(np.asarray(first), expected[0], atol=1e-12)
    np.testing.assert_allclose(np.asarray(second), expected[1], atol=1e-12)
