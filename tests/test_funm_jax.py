"""Functions of matrices that a caller writes, under JAX, and what they close over."""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402
from bed.autograd.jax import funm as rules  # noqa: E402

DOUBLE = ("f8", "c16")


@pytest.fixture(autouse=True)
def jax_x64():
    with xla_on_cpu.x64():
        yield


def _funm(a, *functions, check=False):
    return rules.funm(a, "L", check, "auto", *functions)


def _value(a, *functions):
    return _funm(a, *functions)[0]


def _repeated(rng, dtype):
    """With eigenvalues that coincide, or nearly."""
    w = np.array([[1, 1, 2], [1, 1 + 1e-11, 1.5], [0.5, 1, 3]])
    return jnp.asarray(planted(rng, w, dtype))


def _weights(rng, a):
    return jnp.asarray(random_hermitian(rng, a.shape, a.dtype))


def _assert_close(found, expected, tolerance=1e-12):
    """Relative to the largest number of each array."""
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        atol = tolerance * max(1, np.abs(y).max())
        np.testing.assert_allclose(x, y, rtol=0, atol=atol)


GIVEN = {
    "f": (jnp.log,),
    "f and df": (jnp.log, lambda x: 1 / x),
    "all": (jnp.log, lambda x: 1 / x, lambda x: -1 / x**2),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dtype", DOUBLE)
def test_what_is_known_by_name_comes_out(rng, given, dtype):
    a = _repeated(rng, dtype)
    c, z = _weights(rng, a), _weights(rng, a)

    def both(function):
        gradient = jax.grad(lambda a: jnp.real(jnp.sum(c * function(a))))
        return jax.jit(lambda a: (function(a), jax.jvp(gradient, (a,), (z,))))(a)

    _assert_close(both(lambda a: _value(a, *GIVEN[given])), both(bed.logm))


@pytest.mark.parametrize("mapped", [False, True], ids=["", "vmap"])
@pytest.mark.parametrize("modes", ["fwd rev", "rev fwd", "rev rev", "fwd fwd"])
def test_hessian_in_the_matrix_and_in_what_is_closed_over(rng, modes, mapped):
    """exp(θ A), whose derivatives in θ and A those of expm(θ A) are."""
    a = _repeated(rng, "f8")
    c = _weights(rng, a)
    parameter = jnp.asarray([0.7, 0.9, 1.1]) if mapped else jnp.asarray(0.7)

    def ours(parameter, a):
        return _value(a, lambda x: jnp.exp(parameter * x))

    def theirs(parameter, a):
        return bed.expm(parameter * a)

    def hessian(function):
        function = jax.vmap(function) if mapped else function
        outer, inner = (getattr(jax, f"jac{mode}") for mode in modes.split())
        both = outer(
            inner(lambda p, a: jnp.sum(c * function(p, a)), (0, 1)),
            (0, 1),
        )
        return jax.jit(both)(parameter, a)

    _assert_close(hessian(ours), hessian(theirs))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradients_of_complex_matrices(rng, wrap):
    a = _repeated(rng, "c16")
    c = _weights(rng, a)

    def gradients(function):
        def loss(p, a):
            return jnp.real(jnp.sum(c * function(p, a)))

        return wrap(jax.grad(loss, (0, 1)))(jnp.asarray(0.7), a)

    ours = gradients(lambda p, a: _value(a, lambda x: jnp.exp(p * x)))
    _assert_close(ours, gradients(lambda p, a: bed.expm(p * a)))


def test_a_function_that_learns_inside_of_a_loop(rng):
    """Piecewise linear in an array of parameters, under scan, jit and grad."""
    a = _repeated(rng, "f8")
    knots = jnp.linspace(0.0, 4, 9)

    def loss(heights):
        def step(total, a):
            f = _value(a, lambda x: jnp.interp(x, knots, heights))
            return total + jnp.sum(f**2), None

        return jax.lax.scan(step, 0.0, a)[0]

    heights = jnp.asarray(rng.random(9))
    found, h = jax.jit(jax.grad(loss))(heights), 1e-6
    for k in range(9):
        e = jnp.zeros(9).at[k].set(h)
        slope = (loss(heights + e) - loss(heights - e)) / (2 * h)
        np.testing.assert_allclose(found[k], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["nan", "domain"])
def test_matrices_that_failed(rng, name):
    good = _repeated(rng, "f8")
    bad = {"nan": np.nan, "domain": -5}[name]
    a = good.at[1, 2, 2].set(bad)

    @jax.jit
    def gradients(p, a, keep):
        def loss(p, a):
            f, status = _funm(a, lambda x: jnp.log(x) * p)
            return jnp.where(keep[:, None, None], f, 0).sum(), status

        both = jax.value_and_grad(loss, (0, 1), has_aux=True)
        (_, status), found = both(p, a)
        return status, *found

    p, some = jnp.asarray(0.7), jnp.asarray([True, False, True])
    status, by_p, by_a = gradients(p, a, some)
    np.testing.assert_array_equal(status, [0, {"nan": 1, "domain": 4}[name], 0])
    _, *expected = gradients(p, good, some)
    assert_same_bits(
        (np.asarray(by_p), np.asarray(by_a)), tuple(np.asarray(x) for x in expected)
    )
    np.testing.assert_array_equal(by_a[1], 0)
    _, by_p, by_a = gradients(p, a, some.at[1].set(True))
    assert np.isnan(by_p) and np.isnan(by_a[1]).all()
    assert np.isfinite(by_a[::2]).all()


def test_status_of_values(rng):
    a = jnp.asarray(planted(rng, np.array([[1, 2], [0, 1], [-1, 1], [3, 4]]), "f8"))
    a = a.at[1].set(jnp.diag(jnp.asarray([0.0, 1.0])))
    found, status = jax.jit(lambda a: _funm(a, jnp.log))(a)
    np.testing.assert_array_equal(status, [0, 3, 4, 0])
    assert np.isnan(found[2]).all() and np.isfinite(found[::3]).all()
    with pytest.raises(np.linalg.LinAlgError, match="2 of 4 matrices failed"):
        _funm(a, jnp.log, check=True)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "f4", "c8", "i4"])
def test_other_dtypes(dtype):
    a = jnp.asarray([[2, 1], [1, 3]]).astype(dtype)
    with jax.numpy_dtype_promotion("strict"):
        found = jax.jit(lambda a: _value(a, jnp.exp))(a)
        np.testing.assert_allclose(found, bed.expm(a), rtol=1e-5)
        assert found.dtype == bed.expm(a).dtype
        if dtype != "i4":
            g = jax.grad(lambda a: jnp.real(_value(a, jnp.exp)).sum())(a)
            assert g.dtype == a.dtype


def test_what_is_not_known_is_refused(rng):
    a = _repeated(rng, "f8")

    def loss(p, a):
        return _value(a, lambda x: jnp.exp(p * x)).sum()

    second = jax.grad(lambda a, p: jax.grad(loss, 1)(p, a).sum())
    with pytest.raises(NotImplementedError, match=r"third derivatives of bed\.funm"):
        jax.grad(lambda p: second(a, p).sum())(0.7)
    with pytest.raises(ValueError, match="must return a number for a number"):
        _value(a, lambda x: jnp.stack([x, x]))
    with pytest.raises(ValueError, match=r"cannot raise under jax\.jit"):
        jax.jit(lambda a: _funm(a, jnp.exp, check=True))(a)


def test_third_derivatives_of_the_matrix_alone(rng):
    a = jnp.asarray(planted(rng, np.array([0.5, 1, 2]), "f8"))
    z = _weights(rng, a)

    def third(function):
        for _ in range(3):
            function = partial_along(function, z)
        return jax.jit(function)(a)

    def partial_along(function, z):
        return lambda a: jax.jvp(function, (a,), (z,))[1]

    _assert_close(third(lambda a: _value(a, jnp.log)), third(bed.logm), 1e-10)


def test_complex_values_are_refused():
    with pytest.raises(TypeError, match="real"):
        bed.funm(jnp.eye(2), lambda x: x * 1j)
