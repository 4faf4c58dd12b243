"""The solvers in the modes that JAX has for finding mistakes."""

from contextlib import nullcontext

import numpy as np
import pytest

import bed
from bed._derivative.method import METHODS
from bed.testing.matrices import planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402

HALF_AND_INTEGERS = ["f2", "bfloat16", "i4", "u1", "bool"]


@pytest.fixture(params=[True, False], ids=["x64", "x32"])
def x64(request):
    with xla_on_cpu.x64(request.param):
        yield request.param


@pytest.fixture
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def _loss(solve, **options):
    def loss(a):
        w, v = solve(a, **options)
        return jnp.sum(w * w) + jnp.sum(jnp.abs(v[..., 0]) ** 2 * jnp.abs(w))

    return loss


def _every_derivative(solve, a, **options):
    loss = _loss(solve, **options)
    jax.jvp(lambda a: solve(a, **options), (a,), (a,))
    jax.jit(jax.grad(loss))(a)
    jax.vmap(jax.grad(loss))(a)
    jax.jvp(jax.grad(loss), (a,), (a,))


def _separated(rng, dtype):
    return jnp.asarray(planted(rng, np.arange(-1, 2) + rng.random((2, 3)) / 2, dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("solve", [bed.eigh, bed.jax.eigh], ids=["bed", "bed.jax"])
def test_strict_promotion(rng, strict, dtype, solve):
    with xla_on_cpu.x64():
        a = _separated(rng, dtype)
        solve(a), solve(a, return_info=True)
        _every_derivative(solve, a, check_phase=True)


@pytest.mark.parametrize("gradient", METHODS)
def test_strict_promotion_in_every_method(rng, strict, gradient):
    _every_derivative(bed.eigh, _separated(rng, "c8"), gradient=gradient, degree=2)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "i4", "u1", "bool"])
@pytest.mark.parametrize("module", [bed, bed.jax], ids=["bed", "bed.jax"])
def test_strict_promotion_of_other_dtypes(x64, strict, dtype, module):
    a = jnp.asarray([[2, 1], [1, 3]]).astype(dtype)
    for wrap in (lambda f: f, jax.jit):
        wrap(module.eigh)(a)
        wrap(module.eigvalsh)(a)
    if jnp.issubdtype(a.dtype, jnp.floating):
        jax.jit(jax.grad(lambda a: module.eigvalsh(a).sum()))(a)
        jax.jit(jax.grad(_loss(module.eigh)))(a)
        jax.jvp(module.eigvalsh, (a,), (a,))


@pytest.mark.parametrize("mode", ["rank", "leaks"])
def test_ranks_and_leaks(rng, mode):
    a = _separated(rng, "c8")
    raising = jax.numpy_rank_promotion("raise")
    with raising if mode == "rank" else jax.checking_leaks():
        jax.jit(jax.grad(_loss(bed.jax.eigh, check_phase=True)))(a)
        jax.vmap(jax.grad(_loss(bed.eigh, gradient="pade")))(a.real)
        jax.jit(jax.hessian(lambda a: jnp.sum(bed.eigvalsh(a) ** 2)))(a[0].real)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_debug_nans(rng, wrap):
    """NaN in results raises; a derivative without NaN does not."""
    a = jnp.asarray(planted(rng, np.zeros((2, 4)), "f4"))
    with jax.debug_nans(True):
        for method in METHODS:
            wrap(jax.grad(_loss(bed.eigh, gradient=method)))(a)
        with pytest.raises(FloatingPointError):
            jax.block_until_ready(jax.jit(bed.eigh)(jnp.full((2, 2), jnp.nan)))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("guard", ["disallow", "disallow_explicit"])
def test_nothing_is_transferred(rng, wrap, guard):
    a = jnp.asarray(random_hermitian(rng, (2, 3, 3), "f4"))
    solve = wrap(lambda a: bed.eigh(a, return_info=True))
    with jax.transfer_guard(guard):
        jax.block_until_ready(solve(a))
    g = wrap(jax.grad(lambda a: bed.eigvalsh(a).sum()))
    jax.block_until_ready(g(a))
    with jax.transfer_guard(guard) if wrap is jax.jit else nullcontext():
        jax.block_until_ready(g(a))


def test_concrete_results_while_a_function_is_traced():
    """A constant is solved when it is met, and its values can be looked at."""
    constant = jnp.eye(2)

    @jax.jit
    def scaled(x):
        w = bed.eigvalsh(constant, check=True)
        return x * float(np.asarray(w)[0])

    np.testing.assert_array_equal(scaled(jnp.full(2, 3.0)), 3)
