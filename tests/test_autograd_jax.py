"""JAX transforms the solvers as it does its own, and gets the exact derivative."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import bed
from bed._derivative.method import METHODS
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, SIZES, planted, random_hermitian, stack, zoo

jax = pytest.importorskip("jax")
jnp = jax.numpy

DOUBLE = ("f8", "c16")


@pytest.fixture(autouse=True)
def jax_x64():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def _host(results):
    return tuple(np.asarray(x) for x in results)


def _hermitian(x):
    return (x + jnp.conj(jnp.swapaxes(x, -1, -2))) / 2


def _separated(rng, dtype, leading=(2,), n=4):
    w = np.arange(n) + 0.3 * rng.random((*leading, n))
    return jnp.asarray(planted(rng, w, dtype))


def _loss(solve):
    """Real, of eigenvalues and all projectors: it does not depend on phases."""

    def loss(x):
        w, v = solve(x)
        columns = jnp.swapaxes(v, -1, -2)
        p = columns[..., :, None] * jnp.conj(columns[..., None, :])
        weights = jnp.cos(jnp.arange(p.size).reshape(p.shape))
        p = jnp.real(p) + 2 * jnp.imag(p)
        return (w**3).sum() + jnp.sin(weights * p * w[..., None, None]).sum()

    return loss


def _square_sum(x):
    return (bed.eigvalsh(x) ** 2).sum()


def _top_projector(x):
    v = bed.eigh(x).eigenvectors[..., -1]
    return v[..., :, None] * jnp.conj(v[..., None, :])


@pytest.mark.parametrize("dtype", [*DTYPES, "f2", "i4", "u1", "bool"])
@pytest.mark.parametrize(
    "shape", [(3, 3), (4, 5, 5), (2, 3, 1, 1), (0, 3, 3), (2, 0, 0)]
)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_jit_and_vmap_have_the_bits_of_an_eager_call(rng, dtype, shape, uplo):
    a = jnp.asarray(rng.standard_normal(shape) * 3).astype(dtype)

    def solve(a):
        return bed.eigh(a, uplo, return_info=True)

    def values(a):
        return bed.eigvalsh(a, uplo, return_info=True)

    for function in (solve, values):
        expected = _host(function(a))
        assert_same_bits(_host(jax.jit(function)(a)), expected)
        if len(shape) > 2:
            assert_same_bits(_host(jax.vmap(function)(a)), expected)
            assert_same_bits(_host(jax.jit(jax.vmap(function))(a)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES[::5])
def test_jit_has_the_bits_of_an_eager_call_on_the_zoo(rng, dtype, n):
    """Subnormal numbers too, which XLA's own threads flush to zero."""
    a, _ = stack(zoo(n, dtype, rng))
    assert_same_bits(_host(jax.jit(bed.eigh)(a)), tuple(bed.eigh(a)))


def test_without_x64(rng):
    jax.config.update("jax_enable_x64", False)
    a = jnp.asarray(rng.integers(-(2**30), 2**30, (4, 5, 5)))
    w, v = jax.jit(bed.eigh)(a)
    assert w.dtype == v.dtype == np.float32
    assert_same_bits(_host((w, v)), _host(bed.eigh(a)))
    a = jnp.asarray(rng.standard_normal((4, 5, 5)), "bfloat16")
    assert_same_bits(_host(jax.jit(bed.eigh)(a)), _host(bed.eigh(a)))
    g = jax.grad(lambda a: bed.eigvalsh(a).sum())(a)
    assert g.dtype == a.dtype
    # The mean of the triangles, 1 + 2⁻⁸, exists in float32 alone.
    da = jnp.asarray([[0, 1 + 2**-7], [1, 0]], a.dtype)
    _, dw = jax.jvp(bed.eigvalsh, (jnp.asarray([[0, 1], [1, 0]], a.dtype),), (da,))
    np.testing.assert_allclose(dw, np.array([-1, 1]) * (1 + 2**-8), rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(g, "f4"), np.tile(np.eye(5), (4, 1, 1)), atol=0.01
    )


def test_nested_vmap_over_any_axes(rng):
    a = random_hermitian(rng, (2, 3, 4, 4), "f8")
    inside = jnp.moveaxis(jnp.asarray(a), (0, 1), (3, 2))
    twice = jax.vmap(jax.vmap(bed.eigh, in_axes=2), in_axes=3)
    assert_same_bits(_host(twice(inside)), tuple(bed.eigh(a)))
    assert_same_bits(_host(jax.jit(twice)(inside)), tuple(bed.eigh(a)))


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradient_is_that_of_jax(rng, dtype, wrap):
    a = _separated(rng, dtype)
    expected = jax.jit(jax.grad(_loss(jnp.linalg.eigh)))(a)
    for options in ({}, {"UPLO": "U"}):
        g = wrap(jax.grad(_loss(lambda x, o=options: bed.eigh(x, **o))))(a)
        np.testing.assert_allclose(g, expected, rtol=0, atol=1e-10)
    one_by_one = wrap(jax.vmap(jax.grad(_loss(bed.eigh))))(a)
    theirs = jax.jit(jax.vmap(jax.grad(_loss(jnp.linalg.eigh))))(a)
    np.testing.assert_allclose(one_by_one, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_derivatives_are_those_of_finite_differences(rng, dtype):
    a = _separated(rng, dtype)
    da = _hermitian(jnp.asarray(random_hermitian(rng, a.shape, dtype)))
    loss = _loss(bed.eigh)
    h = 1e-5
    slope = (loss(a + h * da) - loss(a - h * da)) / (2 * h)
    _, forward = jax.jvp(loss, (a,), (da,))
    _, pull = jax.vjp(loss, a)
    (g,) = pull(jnp.ones(()))
    np.testing.assert_allclose(forward, slope, rtol=1e-6)
    np.testing.assert_allclose(jnp.real(jnp.sum(g * da)), slope, rtol=1e-6)
    np.testing.assert_allclose(g, jnp.conj(jnp.swapaxes(g, -1, -2)), atol=1e-12)


def test_second_derivatives(rng):
    a = _separated(rng, "f8", ())
    i = np.eye(4)
    # Σ w² = ‖(A + Aᵀ)/2‖², whose Hessian is twice the symmetrising map, exactly.
    exact = np.einsum("ik,jl->ijkl", i, i) + np.einsum("il,jk->ijkl", i, i)
    for hessian in (jax.hessian(_square_sum), jax.jit(jax.hessian(_square_sum))):
        np.testing.assert_allclose(hessian(a), exact, rtol=0, atol=1e-12)
    ours, theirs = (_loss(solve) for solve in (bed.eigh, jnp.linalg.eigh))
    expected = jax.jit(jax.hessian(theirs))(a)
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            h = jax.jit(outer(inner(ours)))(a)
            np.testing.assert_allclose(h, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_differentiated_exactly_where_all_coincide(dtype):
    a = jnp.eye(4, dtype=dtype)
    for solve in (bed.eigvalsh, lambda x: bed.eigh(x).eigenvalues):
        g = jax.jit(jax.grad(lambda x, s=solve: s(x).sum()))(a)
        np.testing.assert_array_equal(g, np.eye(4))
    jacobian = jax.jacrev(bed.eigh)(a.real)
    assert all(np.isfinite(x).all() for x in jacobian)


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("gap", [0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
def test_top_projector_beside_a_repeated_eigenvalue(rng, dtype, gap):
    w = np.array([-1, -1, -1, 3]) / 3 + gap * np.array([0, 1, 2, 0])
    a = jnp.asarray(planted(rng, w, dtype))
    da = jnp.asarray(random_hermitian(rng, (4, 4), dtype))
    _, dp = jax.jvp(_top_projector, (a,), (da,))
    # dP = R dA P + P dA R with R = (λ − A)⁻¹ on what is orthogonal to P.
    ws, vs = np.linalg.eigh(a)
    p = vs[:, 3:] @ vs[:, 3:].conj().T
    r = (vs[:, :3] / (ws[3] - ws[:3])) @ vs[:, :3].conj().T
    np.testing.assert_allclose(dp, r @ da @ p + p @ da @ r, rtol=0, atol=1e-13)
    c = jnp.asarray(random_hermitian(rng, (4, 4), dtype))
    g = jax.grad(lambda x: jnp.real(jnp.sum(c * _top_projector(x))))(a)
    exact = (r @ c.T @ p + p @ c.T @ r).T
    np.testing.assert_allclose(g, exact, rtol=0, atol=1e-13)


def test_a_failed_matrix_leaves_gradients_of_others(rng):
    a = np.array(_separated(rng, "f8", (3,)))
    expected = jax.grad(_loss(bed.eigh))(jnp.asarray(a))
    a[1, 2, 0] = np.nan

    def loss(x):
        w, v, status = bed.eigh(x, return_info=True)
        return _loss(lambda _: (w, v))(x), status

    g, status = jax.jit(jax.grad(loss, has_aux=True))(jnp.asarray(a))
    np.testing.assert_array_equal(status, [0, 1, 0])
    assert np.isnan(g[1]).all()
    np.testing.assert_allclose(g[::2], expected[::2], rtol=0, atol=1e-12)


FAILED = {
    "values": lambda solve, a: solve(a, return_info=True)[::2],
    "vectors": lambda solve, a: solve(a, return_info=True)[1:],
    "eigvalsh": lambda solve, a: bed.eigvalsh(a, return_info=True),
}


def _masked(name, **options):
    """A loss of the matrices that did not fail."""

    def loss(a):
        x, status = FAILED[name](partial(bed.eigh, **options), a)
        good = (status == 0).reshape(status.shape + (1,) * (x.ndim - status.ndim))
        return (jnp.abs(jnp.where(good, x, 1)) ** 4).sum()

    return loss


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("name", FAILED)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_failed_matrix_that_is_left_out_has_gradient_zero(rng, dtype, name, bad):
    """Of the first order and the second, in reverse and in forward mode."""
    good = _separated(rng, dtype, (3,))
    a, da = good.at[1, 2, 0].set(bad), _hermitian(jnp.asarray(rng.random(good.shape)))
    da = da.astype(dtype)
    keep = jnp.asarray([0, 2])
    loss = _masked(name)

    def both(a):
        _, slope = jax.jvp(loss, (a,), (da,))
        return slope, *jax.jvp(jax.grad(loss), (a,), (da,))

    slope, g, second = jax.jit(both)(a)
    kept = (good[keep],), (da[keep],)
    expected_slope = jax.jvp(loss, *kept)[1]
    expected = jax.jvp(jax.grad(loss), *kept)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-9)
    for found, wanted in zip((g, second), expected, strict=True):
        np.testing.assert_array_equal(found[1], 0)
        np.testing.assert_allclose(found[keep], wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"check_phase": True}, *({"gradient": m} for m in METHODS)], ids=str
)
def test_and_by_every_method(rng, options):
    a = _separated(rng, "c16", (2,)).at[1, 2, 0].set(np.nan)
    for name in ("values", "vectors"):
        g = jax.jit(jax.grad(_masked(name, **options)))(a)
        assert np.isfinite(g).all()
        np.testing.assert_array_equal(g[1], 0)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_a_failed_matrix_that_counts_has_gradient_nan(rng, dtype):
    a = _separated(rng, dtype, (3,)).at[1, 2, 0].set(np.nan)
    for loss in (
        lambda a: bed.eigvalsh(a)[..., 0].sum(),
        lambda a: bed.eigh(a)[0][..., 1].sum(),
        lambda a: jnp.abs(bed.eigh(a)[1][..., 1, 2]).sum(),
    ):
        g = jax.jit(jax.grad(loss))(a)
        assert np.isnan(g[1]).all() and np.isfinite(g[::2]).all()
    # In forward mode, what does not move has no tangent; what does has NaN.
    da = jnp.zeros_like(a).at[:, 0, 1].set(1)
    for still in (1, 0):
        tangents = jax.jvp(bed.eigh, (a,), (da.at[still].set(0),))[1]
        for t in tangents:
            assert np.isnan(t[1]).all() == (still == 0) == np.isnan(t[1]).any()
            np.testing.assert_array_equal(t[still], 0)
            assert np.isfinite(t[2]).all()


def test_a_training_step(rng):
    """A linear map learns to whiten: the spectrum of the covariance becomes one."""
    x = jnp.asarray(rng.standard_normal((64, 5)) * [1, 2, 3, 4, 5])

    def step(solve):
        def loss(m):
            y = x @ m
            return ((jnp.log(solve(y.T @ y / len(x))[0])) ** 2).sum()

        @jax.jit
        def update(m):
            value, g = jax.value_and_grad(loss)(m)
            return m - 0.01 * g, value

        return update

    ours, theirs = step(bed.eigh), step(jnp.linalg.eigh)
    m = n = jnp.asarray(np.diag(rng.uniform(0.5, 1.5, 5)))
    losses = []
    for _ in range(10):
        (m, value), (n, _) = ours(m), theirs(n)
        losses.append(float(value))
    np.testing.assert_allclose(m, n, rtol=0, atol=1e-9)
    assert losses[-1] < losses[0]


def test_integers_are_constants_for_derivatives():
    a = jnp.asarray([[2, 1], [1, 2]])
    g = jax.grad(lambda x: (bed.eigvalsh(a) * x).sum())(1.0)
    np.testing.assert_allclose(g, 4)
    traced = jax.jit(jax.grad(lambda x, a: (bed.eigvalsh(a) * x).sum()))
    np.testing.assert_allclose(traced(1.0, a), 4)


def test_what_is_wrong_is_told_when_it_is_traced():
    a = jnp.eye(3)

    def call(**options):
        return lambda: jax.jit(lambda a: bed.eigh(a, **options))(a)

    for check in (True, "hermitian"):
        with pytest.raises(ValueError, match=r"cannot raise under jax\.jit.*status"):
            call(check=check)()
    with pytest.raises(ValueError, match="UPLO must be"):
        call(UPLO="X")()
    with pytest.raises(ValueError, match="nonsense"):
        call(driver="nonsense")()
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(2, 3\)"):
        jax.jit(bed.eigvalsh)(a[:2])
    with pytest.raises(TypeError, match="dtype float8"):
        jax.jit(bed.eigvalsh)(a.astype("float8_e5m2"))


def test_drivers_are_taken(rng, host_driver):
    a = random_hermitian(rng, (3, 4, 4), "f8")
    expected = bed.eigh(a, driver=host_driver)
    result = jax.jit(lambda a: bed.eigh(a, driver=host_driver))(a)
    assert_same_bits(_host(result), tuple(expected))


@pytest.mark.parametrize("platform", ["rocm", "tpu"])
def test_jit_for_another_platform_is_refused(platform):
    """Lowered for a device that is not there, as `jax.export` does."""
    traced = jax.jit(bed.eigh).trace(jnp.eye(3))
    with pytest.raises(NotImplementedError, match=rf"jax\.jit on {platform}.*CUDA"):
        traced.lower(lowering_platforms=(platform,))


CALL_BACK = """
        from functools import partial
        from jax.interpreters import mlir
        from bed.autograd.jax import eigh as rules
        rule = partial(rules._call_back, rules._solve_now)
        mlir.register_lowering(rules._solve_p, rule, platform="cpu")
"""


@pytest.mark.parametrize(
    "lowering",
    [
        pytest.param("", id="in place"),
        pytest.param(CALL_BACK, id="call back", marks=pytest.mark.slow),
    ],
)
def test_large_batches_on_one_core(lowering):
    """XLA has one thread then, which must not wait for itself or for Python's lock.

    Two solves and two calls in flight, of this size, while the main thread computes in
    Python: `jax.pure_callback` hangs.
    """
    code = f"""if True:
        import os
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        import bed, jax
        {lowering}
        a = jax.numpy.ones((100_000, 8, 8))
        @jax.jit
        @jax.grad
        def loss(a):
            w, v = bed.eigh(a + a)
            return (w[..., None] * bed.eigh(a @ a)[1]).sum() + v.sum()
        for _ in range(3):
            pending = [loss(a * k) for k in (1, 2)]
            sum(range(100_000))
            jax.block_until_ready(pending)
        print("done")
    """
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=100
    )
    assert result.stdout == "done\n"
