"""The derivative against high precision, in every array namespace."""

import array_api_strict
import jax
import jax.numpy
import mpmath
import numpy as np
import pytest
import torch

from bed._derivative.eigh import eigh_jvp, eigh_vjp, phase_dependence
from bed._derivative.gaps import CUTOFF, inverse_gaps
from bed._derivative.method import METHODS
from bed.testing.matrices import DTYPES, random_hermitian
from gradient_errors import CONDITIONS, errors, orthogonal, spectra

NAMESPACES = {
    "numpy": np.asarray,
    "torch": torch.asarray,
    "jax": jax.numpy.asarray,
    "array_api_strict": array_api_strict.asarray,
}


@pytest.fixture(params=NAMESPACES)
def asarray(request):
    """Conversion to the arrays of each library."""
    with jax.enable_x64(True):
        yield NAMESPACES[request.param]


def _projector_loss(v, c, columns):
    """Gradient in V of Re⟨C, P⟩ with P the projector on some columns, C Hermitian."""
    gradient = np.zeros_like(v)
    gradient[:, columns] = 2 * (c @ v)[:, columns]
    return gradient


def _decomposed(rng, w, dtype="f8"):
    """Matrix, eigenvalues and vectors, the vectors right to rounding."""
    v = orthogonal(rng, len(w), np.dtype(dtype).kind == "c")
    w = np.asarray(w, np.dtype(dtype).type(0).real.dtype)
    return (v * w) @ v.conj().T, w, v.astype(dtype)


def _size(x):
    return np.linalg.norm(np.asarray(x, "c16"))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_central_differences_with_50_digits(rng, asarray, dtype):
    """Re Σ cₖ |uᴴ vₖ|² + Σ dₖ wₖ³, which no phase changes, along random directions."""
    n = 4
    a, e = random_hermitian(rng, (2, n, n), dtype)
    u = random_hermitian(rng, (n, n), dtype)[0]
    c, d = rng.standard_normal((2, n))

    with mpmath.workdps(50):
        uh = mpmath.matrix(u.conj().tolist()).T

        def loss(t):
            w, v = mpmath.eighe(
                mpmath.matrix(a.tolist()) + t * mpmath.matrix(e.tolist())
            )
            return sum(
                ck * abs((uh * v[:, k])[0]) ** 2 + dk * w[k] ** 3
                for k, (ck, dk) in enumerate(zip(c.tolist(), d.tolist(), strict=True))
            )

        h = mpmath.mpf(10) ** -16
        truth = float((loss(h) - loss(-h)) / (2 * h))

    w, v = np.linalg.eigh(a)
    grad_v = 2 * c * np.outer(u, u.conj() @ v)
    arrays = [asarray(x) for x in (w, v, 3 * d * w**2, grad_v)]
    g = np.asarray(eigh_vjp(*arrays))
    bound = 1e-13 * _size(grad_v) * _size(e) / np.diff(w).min()
    assert abs((g.conj() * e).sum().real - truth) <= bound
    dw, dv = (np.asarray(x) for x in eigh_jvp(*arrays[:2], asarray(e)))
    forward = (3 * d * w**2 * dw).sum() + (grad_v.conj() * dv).sum().real
    assert abs(forward - truth) <= bound


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gradient", METHODS)
def test_backward_is_the_adjoint_of_forward(rng, asarray, dtype, gradient):
    a, da, grad_v = random_hermitian(rng, (3, 2, 5, 5), dtype)
    w, v = np.linalg.eigh(a)
    grad_w = rng.standard_normal(w.shape).astype(w.dtype)
    grad_v = grad_v @ da  # of no symmetry
    w_, v_, da_, gw_, gv_ = (asarray(x) for x in (w, v, da, grad_w, grad_v))
    g = np.asarray(eigh_vjp(w_, v_, gw_, gv_, gradient=gradient, degree=3))
    dw, dv = (np.asarray(x) for x in eigh_jvp(w_, v_, da_, gradient=gradient, degree=3))
    assert g.dtype == dv.dtype == v.dtype and dw.dtype == w.dtype
    backward = (g.conj() * da).sum(axis=(-2, -1)).real
    forward = (grad_w * dw).sum(-1) + (grad_v.conj() * dv).sum(axis=(-2, -1)).real
    gaps = np.diff(w).min(-1)
    tolerance = 100 * np.finfo(dtype).eps * (1 + 1 / gaps) * _size(grad_v) * _size(da)
    assert (abs(backward - forward) <= tolerance).all()
    assert (g == g.conj().swapaxes(-1, -2)).all()


@pytest.mark.parametrize("gradient", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_alone_are_exact(rng, asarray, dtype, gradient):
    """The gradient of Σ f(w) is f′(A), repeated eigenvalues or not."""
    for w in (np.ones(4), np.zeros(4), [1, 1, 2, 2], [-1, 1, 1, 1]):
        a, w, v = _decomposed(rng, w, dtype)
        w_, v_ = asarray(w), asarray(v)
        for grad_v in (None, 0 * v_):
            g = eigh_vjp(w_, v_, w_**2, grad_v, gradient=gradient)  # of Σ w³/3
            assert _size(np.asarray(g) - a @ a) <= 50 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", [0, *10.0 ** -np.arange(3, 16)])
def test_projector_of_a_close_pair(rng, asarray, dtype, gap):
    """The loss ignores the basis of the pair, so the gap does not enter the truth."""
    _, w, v = _decomposed(rng, [0.2, 1, 1 + gap, 3, -2], dtype)
    c = random_hermitian(rng, (5, 5), dtype)
    columns, others = [1, 2], [0, 3, 4]
    grad_v = _projector_loss(v, c, columns)
    g = np.asarray(eigh_vjp(asarray(w), asarray(v), None, asarray(grad_v)))
    # Divided differences of the function that is 1 on the pair and 0 elsewhere.
    divided = np.zeros((5, 5), np.longdouble)
    for i in columns:
        divided[i, others] = 1 / (w[i] - w[others]).astype(np.longdouble)
    divided += divided.T
    truth = v @ (divided * (v.conj().T @ c @ v)) @ v.conj().T
    eps = np.finfo(dtype).eps
    known = max(gap, CUTOFF * eps)
    assert _size(g - truth) <= 20 * eps / known * _size(c) + 50 * eps * _size(c)
    if w[1] == w[2]:
        assert _size(g - truth) <= 50 * eps * _size(c)


@pytest.mark.parametrize("gradient", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_everywhere(rng, asarray, dtype, gradient):
    limits = np.finfo(dtype)
    spectrums = [
        *np.array([[0] * 6, [1] * 6, [0, 0, 1, 1, -1, -1]]),
        1 + limits.eps * np.arange(6),
        np.geomspace(1e-30, 1, 6),
        [-1, -1 / 3, -1e-17, 0, 1e-17, 1],
        np.linspace(1, 2, 6) * limits.tiny * 1e5,
        np.linspace(-1, 1, 6) * float(limits.max) / 4,
    ]
    for w in spectrums:
        _, w, v = _decomposed(rng, w, dtype)
        grad_v = random_hermitian(rng, (6, 6), dtype) * limits.dtype.type(1e-3)
        f, s = inverse_gaps(asarray(w), gradient)
        assert np.isfinite(np.asarray(f)).all() and (np.asarray(s) > 0).all()
        if abs(w).max() in (0, 1):
            g = eigh_vjp(*map(asarray, (w, v, w, grad_v)), gradient=gradient)
            assert np.isfinite(np.asarray(g)).all()


@pytest.mark.parametrize("gradient", METHODS)
@pytest.mark.parametrize("exponent", [-100, 100])
def test_scale(rng, gradient, exponent):
    """V̄ of s·A gives the gradient over s, bit for bit if s is a power of two."""
    scale = 2.0**exponent
    w, v = np.linalg.eigh(random_hermitian(rng, (3, 6, 6), "f8"))
    grad_v = rng.standard_normal(v.shape)
    one = eigh_vjp(w, v, None, grad_v, gradient=gradient)
    other = eigh_vjp(w * scale, v, None, grad_v, gradient=gradient)
    assert (one == other * scale).all()


@pytest.mark.parametrize("gradient", METHODS)
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (1, 1), (2, 0, 4, 4)])
def test_empty_and_one(asarray, gradient, shape):
    w, v = asarray(np.ones(shape[:-1])), asarray(np.ones(shape))
    g = eigh_vjp(w, v, w, v, gradient=gradient)
    dw, dv = eigh_jvp(w, v, v, gradient=gradient)
    assert g.shape == dv.shape == shape and dw.shape == shape[:-1]
    assert eigh_vjp(w, v).shape == shape
    assert phase_dependence(v, v).shape == shape[:-1]
    if shape == (1, 1):
        assert float(g[0, 0]) == float(dw[0]) == 1 and float(dv[0, 0]) == 0


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_phase_dependence(rng, asarray, dtype):
    v = np.linalg.eigh(random_hermitian(rng, (2, 4, 4), dtype))[1]
    u = random_hermitian(rng, (4, 4), dtype)[0]
    invariant = 2 * u[:, None] * (u.conj() @ v)[:, None, :]  # of Σ |uᴴ v|²
    eps = np.finfo(dtype).eps
    found = np.asarray(phase_dependence(asarray(v), asarray(invariant)))
    assert abs(found).max() <= 50 * eps * _size(u) ** 2
    # d/dt of Re uᴴ v exp(it) is −Im uᴴ v.
    of_phase = np.broadcast_to(u[:, None], v.shape).astype(dtype)
    found = np.asarray(phase_dependence(asarray(v), asarray(of_phase)))
    assert abs(found + (u.conj() @ v).imag).max() <= 50 * eps * _size(u)
    assert not np.asarray(phase_dependence(asarray(v.real), asarray(v.real))).any()


def _truth(w, gradient, degree):
    """F with 60 digits, from the formulas for pairs of positive eigenvalues."""
    eps = mpmath.mpf(2) ** -52
    s, f = max(w), np.zeros((len(w), len(w)))
    with mpmath.workdps(60):
        for i, j in np.argwhere(w[:, None] != w):
            large, small = max(w[i], w[j]), min(w[i], w[j])
            x = mpmath.mpf(small) / mpmath.mpf(large)
            terms = degree + 1 - (gradient == "power_iteration" and w[j] < w[i])
            value = {
                "exact": 1 / (1 - x),
                "taylor": sum(x**k for k in range(terms)),
                "power_iteration": sum(x**k for k in range(terms)),
                "pade": (1 - x) / (1 - (2 - eps) * x + x * x),
                "truncated": 1 / max(1 - x, mpmath.sqrt(eps) * mpmath.mpf(s / large)),
            }[gradient]
            f[i, j] = (1 if w[j] > w[i] else -1) * value / mpmath.mpf(large)
    return f


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("gradient", METHODS)
def test_formulas_on_covariances(gradient, condition):
    for degree in (0, 1, 9, 30):
        for w in spectra(condition).values():
            w = w.astype("f8")
            f, s = inverse_gaps(w, gradient, degree)
            cutoff = CUTOFF * np.sqrt(len(w)) * np.finfo("f8").eps * w.max()
            larger = np.maximum(w[:, None], w[None, :])
            known = abs(w[:, None] - w) if gradient == "exact" else larger
            known = (known > cutoff) & (w[:, None] != w)
            f = f / s
            truth = np.where(known, _truth(w, gradient, degree), 0)
            np.testing.assert_allclose(f, truth, rtol=1e-13, atol=0)
            bound = {
                "exact": 1 / cutoff,
                "taylor": (degree + 1) / larger,
                "power_iteration": (degree + 1) / larger,
                "pade": 2.0**25 * (1 + 1e-7) / larger,
                "truncated": 2.0**26 / w.max(),
            }[gradient]
            assert (abs(f) <= bound * (1 + 1e-14)).all()


@pytest.mark.parametrize("gradient", METHODS)
def test_signs(gradient):
    """Pairs of opposite signs are exact; −A has the gaps of A, negated."""
    w = np.array([-2, -0.5, 0, 0.25, 3])
    f, s = inverse_gaps(w, gradient)
    i, j = np.nonzero((np.multiply.outer(w, w) <= 0) & (w[:, None] != w))
    np.testing.assert_allclose((f / s)[i, j], 1 / (w[j] - w[i]), rtol=1e-15)
    minus, _ = inverse_gaps(-w, gradient)
    assert (minus == -f).all()


def test_power_iteration_is_the_derivative_of_power_iteration(rng):
    """Deflated power iteration from the exact vectors, differentiated by torch."""
    degree = 4
    a, w, v = _decomposed(rng, [0.1, 0.5, 0.8, 1])
    a, v0 = torch.asarray(a.astype("f8")), torch.asarray(v)
    da = random_hermitian(rng, (4, 4), "f8")

    def iterate(a):
        columns = []
        for i in reversed(range(4)):
            x = v0[:, i]
            for _ in range(degree + 1):
                x = a @ x
                x = x / torch.linalg.vector_norm(x)
            a = a - (x @ a @ x) * torch.outer(x, x)
            columns.insert(0, x)
        return torch.stack(columns, dim=1)

    _, expected = torch.autograd.functional.jvp(iterate, a, torch.asarray(da))
    _, dv = eigh_jvp(w, v, da, gradient="power_iteration", degree=degree)
    np.testing.assert_allclose(dv, expected, atol=1e-12)


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e16])
def test_errors_on_covariances(rng, condition):
    """The orders of magnitude of the table in `bed._derivative.gaps`.

    Of few matrices: a single one decides the mean, above 1e-14 in one of 60 seeds, and
    up to 2.9e-14 in 120 of them.
    """
    found = errors(rng, condition, matrices=5)
    for spectrum in ("geometric", "even"):
        assert found[spectrum]["exact"] <= 1e-13
        assert found[spectrum]["pade"] <= 1e-13
    assert found["close pairs"]["exact"] <= 10 * condition * np.finfo("f8").eps
    worst = {1e2: 1e-2, 1e8: 1e-10, 1e16: 1e-14}[condition]
    assert found["geometric"]["taylor"] <= worst
    assert found["geometric"]["power_iteration"] <= worst
    for by_gradient in found.values():
        assert max(by_gradient.values()) <= 1  # none is worse than no gradient


def test_names_and_degrees_that_are_not_accepted():
    w, v = np.ones(2), np.eye(2)
    for call in (eigh_vjp, lambda *a, **k: eigh_jvp(*a[:3], **k)):
        with pytest.raises(ValueError, match=r"'exact', 'taylor', 'pade', 'power_iter"):
            call(w, v, v, v, gradient="newton")
        with pytest.raises(ValueError, match="integer"):
            call(w, v, v, v, degree=1.5)
        with pytest.raises(ValueError, match="negative"):
            call(w, v, v, v, degree=-1)
