"""`bed.jax` can stand where `jax.numpy.linalg` stood."""

import inspect

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def jax_x64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def _any_square(rng, dtype, n=4):
    """Not Hermitian, but near a Hermitian matrix with separated eigenvalues."""
    a = planted(rng, np.arange(n) * 1.0, dtype)
    noise = rng.standard_normal(a.shape) + 1j * rng.standard_normal(a.shape)
    return jnp.asarray(a + 0.1 * (noise if a.dtype.kind == "c" else noise.real), dtype)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_arguments_are_those_of_jax(name):
    ours, theirs = (
        inspect.signature(getattr(module, name)).parameters
        for module in (bed.jax, jnp.linalg)
    )
    shared = [(p.name, p.kind, p.default) for p in theirs.values()]
    assert [(p.name, p.kind, p.default) for p in ours.values()][:-1] == shared


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", [None, "L", "U"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_both_triangles_count(rng, dtype, uplo, wrap):
    a = _any_square(rng, dtype)
    w, v = wrap(lambda a: bed.jax.eigh(a, uplo))(a)
    host = np.asarray(a)
    assert_eigh((host + host.conj().T) / 2, np.asarray(w), np.asarray(v))
    values = wrap(lambda a: bed.jax.eigvalsh(a, uplo))(a)
    assert_eigh((host + host.conj().T) / 2, np.asarray(values))


@pytest.mark.parametrize("dtype", DTYPES)
def test_or_one_alone(rng, dtype):
    a = _any_square(rng, dtype)
    for uplo in ("L", "U"):
        expected = bed.eigh(a, uplo)
        assert_same_bits(tuple(bed.jax.eigh(a, uplo, False)), tuple(expected))
        values = bed.jax.eigvalsh(a, uplo, symmetrize_input=False)
        assert_same_bits(values, bed.eigvalsh(a, uplo))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_gradient_at_any_matrix_is_that_of_jax(rng, dtype):
    a = _any_square(rng, dtype)

    def loss(solve):
        def of(x):
            w, v = solve(x)
            return (w**3).sum() + (jnp.abs(v) ** 2 * jnp.arange(16).reshape(4, 4)).sum()

        return of

    expected = jax.grad(loss(jnp.linalg.eigh))(a)
    found = jax.grad(loss(bed.jax.eigh))(a)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "a",
    [
        [[2.0, 1.0], [1.0, 2.0]],
        np.array([[2, 1], [1, 2]]),
        np.array([[2, 1], [1, 2]], "f2"),
    ],
    ids=["list", "integers", "half"],
)
def test_arrays_of_jax_come_of_anything(a):
    w, v, status = bed.jax.eigh(a, return_info=True)
    assert all(isinstance(x, jax.Array) for x in (w, v, status))
    np.testing.assert_allclose(w, [1, 3], rtol=1e-6)


def test_the_mean_does_not_overflow():
    a = np.full((2, 2), np.finfo("f8").max / 4)
    w, status = bed.jax.eigvalsh(a * [[0, 3], [3, 0]], return_info=True)
    np.testing.assert_array_equal(status, 0)
    assert np.isfinite(w).all()


def test_options_are_those_of_bed(rng):
    a = jnp.asarray(random_hermitian(rng, (3, 4, 4), "f8"))
    _, status = bed.jax.eigvalsh(a.at[1, 0, 3].set(np.nan), return_info=True)
    np.testing.assert_array_equal(status, [0, 1, 0])
    with pytest.raises(ValueError, match="nonsense"):
        bed.jax.eigh(a, driver="nonsense")
    with pytest.raises(ValueError, match="symmetrize_input=False"):
        bed.jax.eigh(a, check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match="1 of 3 matrices are not Herm"):
        bed.jax.eigh(a.at[1, 0, 3].add(1), None, False, check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(2, 3\)"):
        bed.jax.eigh(jnp.ones((2, 3)))


@pytest.mark.parametrize("scale", [1.5, 0.9, 2.0**-20])
@pytest.mark.parametrize("solve", [bed.jax.eigvalsh, jax.jit(bed.jax.eigvalsh)])
def test_hermitian_matrices_of_small_numbers_are_left_as_they_are(rng, solve, scale):
    """Where halves, or the numbers themselves, are subnormal, and XLA flushes them."""
    a = random_hermitian(rng, (5, 4, 4), "f4")
    a *= np.float32(np.finfo("f4").tiny * scale) / abs(a).max()
    np.testing.assert_array_equal(np.asarray(solve(jnp.asarray(a))), bed.eigvalsh(a))


def test_gradient_inside_shard_map():
    """Each device has its part of the batch, and the tangents have to say so."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    spec = jax.sharding.PartitionSpec("batch")
    square = jax.shard_map(
        lambda a: bed.eigvalsh(a) ** 2 + bed.eigh(a).eigenvalues,
        mesh=mesh,
        in_specs=spec,
        out_specs=spec,
    )
    a = jnp.tile(jnp.eye(3), (4, 1, 1))
    gradient = jax.jit(jax.grad(lambda a: square(a).sum()))(a)
    np.testing.assert_allclose(gradient, 3 * a, rtol=1e-6)


def _host(results):
    return tuple(np.asarray(x) for x in jax.tree.leaves(results))


def test_functions_of_matrices(rng):
    """Those of bed, of both triangles; bed.linalg has the same names."""
    a = rng.standard_normal((3, 3)) * 0.1 + np.diag([1.0, 2, 3])
    mean = (a + a.T) / 2
    calls = {
        "powm": lambda module, a: module.powm(a, -1.5),
        "clampm": lambda module, a: module.clampm(a, 1.2, max=2),
        "funm": lambda module, a: module.funm(a, lambda x: x * x),
    }
    for name in (*bed.matfun.__all__, "funm"):
        call = calls.get(name, lambda module, a, name=name: getattr(module, name)(a))
        expected = _host(call(bed, mean))
        found = call(bed.jax, a.tolist())
        assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(found))
        # A function that is traced is computed by XLA.
        np.testing.assert_allclose(_host(found), expected, rtol=0, atol=1e-14)
        if name != "funm":
            assert_same_bits(_host(found), expected)
        assert_same_bits(_host(call(bed.linalg, mean)), expected)
        assert name in bed.jax.__all__ and name in bed.linalg.__all__
    one = bed.jax.logm(a, symmetrize_input=False, UPLO="U", return_info=True)
    assert_same_bits(np.asarray(one.result), bed.logm(a, "U"))
    with pytest.raises(ValueError, match="symmetrize_input=False"):
        bed.jax.sqrtm(a, check="hermitian")
    with pytest.raises(TypeError):
        bed.linalg.sqrtm(mean, "U")
