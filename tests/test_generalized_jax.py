"""`bed.eigh(a, b=b)` under JAX: derivatives, programs, and parts on several devices."""

import os
import subprocess
import sys

import numpy as np
import pytest

import bed
from bed._derivative.generalized import eigh_generalized_vjp
from bed.testing.matrices import planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

DOUBLE = ("f8", "c16")


@pytest.fixture(autouse=True)
def jax_x64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def pair(rng, dtype, leading=()):
    """Matrices A, and positive definite B."""
    w = np.broadcast_to([-1.0, 0.5, 2.0], (*leading, 3))
    return planted(rng, w, dtype), planted(rng, abs(w), dtype)


def solve(x, y, **options):
    b = y @ y.conj().mT / 4 + np.eye(y.shape[-1])
    return tuple(bed.eigh((x + x.conj().mT) / 2, b=b, signs="max", **options))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DOUBLE)
def test_derivatives_in_every_mode(rng, dtype):
    from jax.test_util import check_grads

    x, y = map(jnp.asarray, random_hermitian(rng, (2, 2, 3, 3), dtype))
    check_grads(solve, (x, y[:1]), 1, atol=1e-5, rtol=1e-5)

    def loss(x, y):
        w, v = solve(x, y, order="magnitude")
        return (w**3).sum() + jnp.sin(v.real + 2 * v.imag).sum()

    both = jax.grad(loss, (0, 1))
    expected = both(x, y)
    for found in (
        jax.jit(both)(x, y),
        jax.vmap(both)(x, y),
        jax.jit(jax.vmap(both))(x, y),
    ):
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
    mapped = jax.vmap(both, in_axes=(0, None))(x, y[0])
    np.testing.assert_allclose(mapped[0][0], expected[0][0], rtol=1e-9, atol=1e-9)
    # The second derivative along a direction, against a difference of first ones.
    d = random_hermitian(rng, (2, 3, 3), dtype)
    _, change = jax.jvp(lambda y: both(x, y), (y,), (d,))
    step = 1e-5
    ends = both(x, y + step * d), both(x, y - step * d)
    for got, after, before in zip(change, *ends, strict=True):
        np.testing.assert_allclose(got, (after - before) / (2 * step), atol=1e-4)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_the_gradient_is_the_closed_form(rng, dtype):
    a, b = pair(rng, dtype)
    weights = np.cos(np.arange(9.0)).reshape(3, 3)

    def loss(x, y):
        w, v = bed.eigh(x, b=y)
        return (w**3).sum() + (weights * abs(v) ** 3).sum()

    w, v = bed.eigh(a, b=b)
    expected = eigh_generalized_vjp(w, v, 3 * w**2, 3 * weights * abs(v) * v)
    for got, wanted in zip(jax.grad(loss, (0, 1))(a, b), expected, strict=True):
        np.testing.assert_allclose(np.conj(got), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_compiled_the_bits_are_the_same(rng, dtype):
    a, b = (x.astype(dtype) for x in pair(rng, dtype, leading=(5,)))
    expected = bed.eigh(a, b=b, return_info=True)
    function = jax.jit(lambda a, b: tuple(bed.eigh(a, b=b, return_info=True)))
    for got, wanted in zip(function(a, b), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    values = jax.jit(lambda a: bed.eigvalsh(a, b=b))  # a constant, of NumPy
    np.testing.assert_array_equal(values(a), bed.eigvalsh(a, b=b))
    with pytest.raises(ValueError, match="check=True cannot raise under"):
        jax.jit(lambda a: bed.eigvalsh(a, b=b, check=True))(a)


@pytest.mark.slow
def test_values_alone_and_their_second_derivatives(rng):
    """Σ w² is tr (B⁻¹A)²."""
    a, b = pair(rng, "f8")

    def of_values(a):
        return (bed.eigvalsh(a, b=b, order="magnitude") ** 2).sum()

    def of_trace(a):
        quotient = jnp.linalg.solve(b, (a + a.T) / 2)
        return jnp.trace(quotient @ quotient)

    for order in (jax.grad, jax.hessian, lambda f: jax.jit(jax.hessian(f))):
        found, expected = order(of_values)(a), order(of_trace)(a)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_failed_pair_has_gradient_zero(rng):
    def loss(a, b):
        w, v, status = bed.eigh(a, b=b, return_info=True, signs="max")
        good = (status == 0)[:, None]
        return jnp.where(good, w, 0).sum() + jnp.where(good[..., None], v, 0).sum()

    a, b = pair(rng, "f8", leading=(3,))
    b[1] = -b[1]
    for g in jax.jit(jax.grad(loss, (0, 1)))(a, b):
        assert (g[1] == 0).all() and jnp.isfinite(g).all() and (g[0] != 0).any()


def test_both_triangles_of_b_count_where_both_are_asked_for():
    b = np.array([[2.0, 1.0], [0.0, 2.0]])  # as if off-diagonal entries were ½
    w, _ = bed.jax.eigh(np.eye(2), b=b)
    np.testing.assert_allclose(w, [1 / 2.5, 1 / 1.5])
    w = bed.jax.eigvalsh(np.eye(2), b=b, symmetrize_input=False)
    np.testing.assert_allclose(w, [0.5, 0.5])


def test_pairs_spread_over_devices():
    code = """
import jax, numpy as np, bed
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
rng = np.random.default_rng(0)
a = rng.standard_normal((8, 3, 3)).astype("f4"); a = a + a.swapaxes(-1, -2)
b = np.eye(3, dtype="f4") * np.arange(1, 9, dtype="f4")[:, None, None]
expected = bed.eigh(a, b=b)
spread = [jax.device_put(x, NamedSharding(mesh, P("x"))) for x in (a, b)]
solve = lambda a, b: tuple(bed.eigh(a, b=b))
for f in (solve, jax.jit(solve)):
    for got, wanted in zip(f(*spread), expected):
        assert (np.asarray(got) == wanted).all()
        assert len(got.sharding.device_set) == 4, got.sharding
        assert not got.sharding.is_fully_replicated
print("spread")
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | flags,
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == "spread", result.stderr
