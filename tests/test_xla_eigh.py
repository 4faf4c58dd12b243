"""What is compiled solves in XLA's memory; on the CPU here, with the same handler."""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian
from drivers import skip_unless_taken

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402


@pytest.fixture(autouse=True)
def jax_x64():
    with xla_on_cpu.x64():
        yield


def _general(rng, shape, dtype):
    """Both triangles filled, and not alike."""
    a = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return (a if np.dtype(dtype).kind == "c" else a.real).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_decompositions(rng, dtype, n, uplo):
    a = _general(rng, (2, 3, n, n), dtype)
    solve = jax.jit(lambda a: bed.eigh(a, uplo, return_info=True))
    assert "custom_call @bed_eigh" in solve.lower(a).as_text()
    w, v, status = (np.asarray(x) for x in solve(a))
    assert_eigh(a, w, v, uplo=uplo)
    np.testing.assert_array_equal(status, np.zeros((2, 3), "i4"), strict=True)
    values = jax.jit(lambda a: bed.eigvalsh(a, uplo, return_info=True))
    w, status = (np.asarray(x) for x in values(a))
    assert_eigh(a, w, uplo=uplo)
    np.testing.assert_array_equal(status, np.zeros((2, 3), "i4"), strict=True)


def test_drivers(rng, host_driver):
    for n in (4, 33):
        skip_unless_taken(host_driver, n)
        a = random_hermitian(rng, (5, n, n), "f8")
        w, v = jax.jit(lambda a: bed.eigh(a, driver=host_driver))(a)
        assert_eigh(a, np.asarray(w), np.asarray(v))


@pytest.mark.parametrize("shape", [(3, 3), (4, 3, 3), (1, 2, 1, 3, 3)])
def test_leading_axes_and_vmap(rng, shape):
    a = _general(rng, shape, "f8")
    w, v = jax.jit(bed.eigh)(a)
    assert_eigh(a, np.asarray(w), np.asarray(v))
    b = np.stack([a, 2 * a], axis=-1)
    w, v = jax.jit(jax.vmap(bed.eigh, in_axes=-1))(b)
    assert_eigh(np.stack([a, 2 * a]), np.asarray(w), np.asarray(v))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0, 0), (2, 0, 3, 3)])
def test_nothing_to_solve(monkeypatch, shape):
    def never(*_, **__):
        raise AssertionError("the engine was called")

    xla_on_cpu.engine(monkeypatch, never)
    solve = jax.jit(lambda a: bed.eigh(a, driver="temporary", return_info=True))
    w, v, status = solve(jnp.ones(shape))
    assert (w.shape, v.shape) == (shape[:-1], shape)
    np.testing.assert_array_equal(status, np.zeros(shape[:-2], "i4"), strict=True)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "i4", "u1", "bool"])
@pytest.mark.parametrize("x64", [True, False])
def test_other_dtypes_are_converted_before(rng, dtype, x64):
    jax.config.update("jax_enable_x64", x64)
    a = jnp.asarray(rng.integers(0, 5, (4, 6, 6)) + 2**8).astype(dtype)
    if dtype == "i4":  # more than float32 holds
        a = a * 2**21 + 1
    found, expected = jax.jit(bed.eigh)(a), bed.eigh(a)
    assert_same_bits(
        tuple(np.asarray(x) for x in found), tuple(np.asarray(x) for x in expected)
    )


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_derivatives(rng, dtype):
    a = jnp.asarray(planted(rng, np.arange(4) + rng.random((3, 4)) / 2, dtype))

    def loss(solve):
        def of(x):
            w, v = solve(x)
            return (w**3 * (jnp.abs(v) ** 2 @ jnp.arange(4.0))).sum()

        return of

    ours, theirs = (loss(solve) for solve in (bed.eigh, jnp.linalg.eigh))
    for outer in (jax.grad, lambda f: jax.vmap(jax.grad(f))):
        found, expected = jax.jit(outer(ours))(a), jax.jit(outer(theirs))(a)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    if dtype == "f8":
        found, expected = jax.jit(jax.hessian(ours))(a), jax.hessian(theirs)(a)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_calls_inside_a_loop(rng):
    a = jnp.asarray(random_hermitian(rng, (3, 5, 5), "f8"))

    @jax.jit
    def repeated(a):
        def step(x, _):
            w, v = bed.eigh(x)
            return (v * w[..., None, :]) @ jnp.swapaxes(v, -1, -2), bed.eigvalsh(x)

        return jax.lax.scan(step, a, length=20)

    last, values = repeated(a)
    np.testing.assert_allclose(last, jnp.tril(a) + jnp.tril(a, -1).mT, atol=1e-12)
    np.testing.assert_allclose(values, np.tile(bed.eigvalsh(a), (20, 1, 1)), atol=1e-12)


def test_a_matrix_that_fails_says_so(rng):
    a = _general(rng, (3, 4, 4), "f4")
    a[1, 2, 0] = np.nan
    w, v, status = jax.jit(lambda a: bed.eigh(a, return_info=True))(a)
    np.testing.assert_array_equal(status, [0, 1, 0])
    assert np.isnan(w[1]).all() and np.isnan(v[1]).all()
    assert_eigh(a[::2], np.asarray(w[::2]), np.asarray(v[::2]))


def test_wrong_drivers_are_told_when_it_compiles():
    with pytest.raises(ValueError, match="nonsense"):
        jax.jit(lambda a: bed.eigh(a, driver="nonsense")).lower(jnp.eye(3))
