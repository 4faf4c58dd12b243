"""The solvers inside what JAX makes of a function: loops, exports, threads, forks."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy


def _square_sum(a):
    return jnp.sum(bed.eigvalsh(a) ** 2)  # ‖A‖², with the gradient 2 A


def _host(results):
    return tuple(np.asarray(x) for x in results)


def _loop(a):
    return jax.lax.while_loop(
        lambda state: state[0] < 2,
        lambda state: (state[0] + 1, bed.eigh(a)),
        (0, bed.eigh(2 * a)),
    )[1]


def _scanned(a):
    return jax.lax.scan(lambda carry, a: (carry, bed.eigh(a)), 0, a)[1]


SAME = {
    "scan": _scanned,
    "map": lambda a: jax.lax.map(bed.eigh, a),
    "map in batches": lambda a: jax.lax.map(bed.eigh, a, batch_size=2),
    "while": _loop,
    "cond": lambda a: jax.lax.cond(a[0, 0, 0] < 9, bed.eigh, lambda a: bed.eigh(-a), a),
    "donated": lambda a: jax.jit(bed.eigh, donate_argnums=0)(a + 0),
    "compiled ahead": lambda a: jax.jit(bed.eigh).lower(a).compile()(a),
    "checkpoint": lambda a: jax.checkpoint(bed.eigh)(a),
}


@pytest.mark.parametrize("name", SAME)
def test_the_bits_are_those_of_an_eager_call(rng, name):
    a = jnp.asarray(random_hermitian(rng, (5, 3, 3), "f4"))
    assert_same_bits(_host(SAME[name](a)), _host(bed.eigh(a)))


def _own_rule():
    """A user's own derivative around the solver."""
    own = jax.custom_vjp(_square_sum)
    own.defvjp(lambda a: (_square_sum(a), a), lambda a, g: (2 * g * a,))
    return own


GRADIENTS = {
    "checkpoint": lambda a: jax.grad(jax.checkpoint(_square_sum))(a),
    "custom_vjp": lambda a: jax.grad(_own_rule())(a),
    "vjp": lambda a: jax.vjp(_square_sum, a)[1](jnp.ones(()))[0],
    "jacfwd": lambda a: jax.jacfwd(_square_sum)(a),
    "linearize": lambda a: jax.vmap(jax.linearize(_square_sum, a)[1])(
        jnp.eye(a.size).reshape(-1, *a.shape)
    ).reshape(a.shape),
    "scan": lambda a: jax.grad(
        lambda a: jax.lax.scan(lambda s, x: (s + _square_sum(x), None), 0.0, a)[0]
    )(a),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(rng, name):
    a = jnp.asarray(random_hermitian(rng, (2, 3, 3), "f4"))
    found = jax.jit(GRADIENTS[name])(a)
    np.testing.assert_allclose(found, 2 * a, rtol=0, atol=2e-4)


def test_shapes_without_values():
    a = jax.ShapeDtypeStruct((2, 3, 3), "c8")
    w, v, status = jax.eval_shape(lambda a: bed.eigh(a, return_info=True), a)
    assert (w.shape, v.shape, status.shape) == ((2, 3), (2, 3, 3), (2,))
    assert (w.dtype, v.dtype, status.dtype) == ("f4", "c8", "i4")
    assert "bed_eigh" in str(jax.make_jaxpr(bed.eigvalsh)(a))


@pytest.mark.parametrize("shape", [(2, 1, 1), (3, 64, 64), (0, 3, 3), (2, 0, 0)])
def test_sizes(rng, shape):
    a = jnp.asarray(random_hermitian(rng, shape, "f4"))
    assert_same_bits(_host(jax.jit(bed.eigh)(a)), _host(bed.eigh(a)))
    assert jax.jit(jax.grad(_square_sum))(a).shape == shape


def test_several_threads_at_once(rng):
    solve = jax.jit(bed.eigh)
    batches = [jnp.asarray(random_hermitian(rng, (9, 4, 4), "f4")) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for a, found in zip(batches, pool.map(solve, batches), strict=True):
            assert_same_bits(_host(found), _host(bed.eigh(a)))


def test_exported_with_a_batch_of_any_size(rng):
    (batch,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, 3, 3), "f4")
    check = jax.export.DisabledSafetyCheck.custom_call("bed_eigh")
    for function in (lambda a: tuple(bed.eigh(a)), jax.grad(_square_sum)):
        exported = jax.export.export(jax.jit(function), disabled_checks=[check])(shape)
        if find_spec("flatbuffers"):
            exported = jax.export.deserialize(exported.serialize())
        for size in (1, 4):
            a = jnp.asarray(random_hermitian(rng, (size, 3, 3), "f4"))
            found, expected = exported.call(a), function(a)
            for x, y in zip(
                jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
            ):
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)


def test_matrices_of_any_size_are_refused():
    n = jax.export.symbolic_shape("n")[0]
    shape = jax.ShapeDtypeStruct((4, n, n), "f4")
    with pytest.raises(ValueError, match="size of the matrices must be a number"):
        jax.export.export(jax.jit(bed.eigvalsh))(shape)


FORKS = """
    import os, signal, sys, warnings
    warnings.simplefilter("ignore")
    import jax, numpy as np, bed
    x = np.full((2, 3, 3), 1e-310)
    x[1] = np.eye(3)
    jax.config.update("jax_enable_x64", True)
    f = jax.jit(bed.eigvalsh)
    expected = np.asarray(f(x))
    assert 0 < expected[0, 2] < 1e-309  # this thread keeps subnormal numbers
    def child(depth):
        signal.alarm(20)
        for _ in range(3):
            np.testing.assert_array_equal(f(x), expected)
        if depth:
            fork(depth - 1)
    def fork(depth):
        pid = os.fork()
        if pid == 0:
            try:
                child(depth)
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    fork(1)
    np.testing.assert_array_equal(f(x), expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_solve():
    """Also their children. (Forked inside a call of XLA's, a child hangs in XLA.)"""
    command = [sys.executable, "-c", f"if True:{FORKS}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr[-2000:]


def test_a_call_while_the_interpreter_ends():
    code = (
        "import atexit, bed, jax; f = jax.jit(bed.eigvalsh); f(jax.numpy.eye(2)); "
        "atexit.register(lambda: print(f(jax.numpy.eye(2)).tolist()))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.stdout == "[1.0, 1.0]\n", result.stderr[-2000:]
