"""bed under `jax.jit` on a GPU: XLA calls the engines on its own memory and stream."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh
from bed.testing.checks import assert_same_bits as same_bits
from bed.testing.matrices import DTYPES, random_hermitian

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None  # each test is skipped, and not the file, so that they are counted

ABOVE = 80  # a size that is solved by another engine than those below
CALLS = 40  # in flight at once
TOLERANCE = 1e-8  # of gradients in float64


@pytest.fixture(scope="module", autouse=True)
def _on_a_gpu(jax_device):
    """Without a GPU the handler is called with memory of the host."""
    assert jax_device.platform in ("cpu", "gpu")


def solver(uplo="L"):
    """`bed.eigh` in a program of its own."""
    return jax.jit(lambda a: tuple(bed.eigh(a, uplo, return_info=True)))


def eager(a, uplo="L"):
    """The same outside `jax.jit`, as host arrays."""
    return host(tuple(bed.eigh(a, uplo, return_info=True)))


def host(arrays):
    return tuple(np.asarray(x) for x in arrays)


def hermitian(rng, batch, n, dtype):
    return jnp.asarray(random_hermitian(rng, (batch, n, n), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 8, 20, 40, 64])
def test_a_program_calls_the_handler(rng, n, dtype):
    """And gives what an eager call gives, without a copy to the host."""
    a = hermitian(rng, 6, n, dtype).reshape(2, 3, n, n)
    text = solver().lower(a).as_text()
    assert "@bed_eigh" in text
    assert "callback" not in text
    for uplo in "LU":
        solve = solver(uplo)
        with jax.transfer_guard("disallow"):
            found = jax.block_until_ready(solve(a))
        assert found[0].devices() == a.devices()
        same_bits(host(found), eager(a, uplo))
        values = jax.jit(lambda a, uplo=uplo: bed.eigvalsh(a, uplo))(a)
        same_bits(np.asarray(values), np.asarray(bed.eigvalsh(a, uplo)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool"])
def test_dtypes_that_are_converted_before(rng, dtype):
    a = jnp.asarray(rng.integers(-9, 9, (4, 7, 7))).astype(dtype)
    same_bits(host(solver()(a)), eager(a))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0)])
def test_arrays_with_nothing_in_them(shape):
    same_bits(host(solver()(jnp.ones(shape))), eager(jnp.ones(shape)))


def test_sizes_above_those_of_the_kernels(rng):
    a = hermitian(rng, 3, ABOVE, "f8")
    w, v, status = host(solver()(a))
    assert_eigh(np.asarray(a), w, v)
    assert not status.any()


def test_a_matrix_with_nan_says_so(rng):
    a = hermitian(rng, 5, 6, "f4").at[2, 1, 0].set(np.nan)
    found = host(solver()(a))
    assert found[2].tolist() == [0, 0, 1, 0, 0]
    same_bits(found, eager(a))


def test_several_calls_of_one_program(rng):
    a, b = hermitian(rng, 9, 5, "f4"), hermitian(rng, 4, 33, "c16")

    @jax.jit
    def program(a, b):
        return tuple(bed.eigh(a)), tuple(bed.eigh(b, "U")), bed.eigvalsh(2 * a)

    first, second, third = program(a, b)
    same_bits(host(first), host(bed.eigh(a)))
    same_bits(host(second), host(bed.eigh(b, "U")))
    same_bits(np.asarray(third), np.asarray(bed.eigvalsh(2 * a)))
    scan = jax.jit(lambda a: jax.lax.scan(lambda _, x: (0, tuple(bed.eigh(x))), 0, a))
    same_bits(host(scan(a)[1]), host(bed.eigh(a)))
    mapped = jax.jit(jax.vmap(bed.eigh, in_axes=2))(a.transpose(1, 2, 0))
    same_bits(host(mapped), host(bed.eigh(a)))


def test_gradients_are_those_of_jax(rng):
    a = hermitian(rng, 5, 6, "f8") + np.diag(np.arange(6.0))

    def gradient(solve):
        def loss(x):
            w, v = solve(x)
            return (w**3 * (v**2).cumsum(-1)[..., 0, :]).sum()

        return np.asarray(jax.jit(jax.grad(loss))(a))

    found, wanted = map(gradient, (bed.eigh, jnp.linalg.eigh))
    assert abs(found - wanted).max() < TOLERANCE * abs(wanted).max()


def test_many_programs_in_flight(rng, stand_in):
    """Each solves what it made late, and uses the result."""
    heavy = jnp.eye(64 if stand_in else 2048, dtype="float32")
    batches = [hermitian(rng, 50, 12, "f4") for _ in range(CALLS)]

    @jax.jit
    def program(a, heavy):
        def multiply(_, x):
            return x @ heavy

        one = jax.lax.fori_loop(0, 20, multiply, heavy)[0, 0]  # exactly 1, but late
        w, v, status = bed.eigh(a * one, return_info=True)
        return w * one, v * one, status

    found = [program(a, heavy) for a in batches]
    for a, result in zip(batches, found, strict=True):
        same_bits(host(result), eager(a))


def test_one_program_from_several_threads(rng):
    solve = solver()
    batches = [hermitian(rng, 100, 9, "f8") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda a: [host(solve(a)) for _ in range(20)], batches)
        for a, results in zip(batches, found, strict=True):
            wanted = eager(a)
            for result in results:
                same_bits(result, wanted)


def test_a_call_allocates_nothing_beside_the_memory_of_xla(rng):
    import cupy

    a = hermitian(rng, 1000, 8, "f4")
    solve = solver()
    jax.block_until_ready(solve(a))
    before = cupy.get_default_memory_pool().total_bytes()
    jax.block_until_ready(solve(a))
    assert cupy.get_default_memory_pool().total_bytes() == before
