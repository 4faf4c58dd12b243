"""Functions of matrices under JAX: bits, exact derivatives, failures, dtypes."""

import numpy as np
import pytest

import bed
import exact_matfun
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402

DOUBLE = ("f8", "c16")
EPS = float(np.finfo("f8").eps)

FUNCTIONS = {
    "sqrtm": bed.sqrtm,
    "invsqrtm": bed.invsqrtm,
    "logm": bed.logm,
    "expm": bed.expm,
    "powm": lambda a, **options: bed.powm(a, 2.5, **options),
    "absm": bed.absm,
    "signm": bed.signm,
    "clampm": lambda a, **options: bed.clampm(a, 0, 1.5, **options),
}
SPECTRA = [
    (1, 1, 1),
    (1, 1, 2),
    *((1, 1 + gap, 2) for gap in (1e-14, 1e-11, 1e-8, 1e-5, 1e-3, 1e-1)),
]


@pytest.fixture(autouse=True)
def jax_x64():
    with xla_on_cpu.x64():
        yield


def _every(a, **options):
    """All of them at once, so that XLA compiles once."""
    found = [function(a, **options) for function in FUNCTIONS.values()]
    found.append(bed.sqrtm_invsqrtm(a, **options))
    return jax.tree.leaves(found)


def _host(results):
    return tuple(np.asarray(x) for x in jax.tree.leaves(results))


def _definite(rng, dtype, leading=(3,), n=4):
    w = 0.3 + np.arange(n) + 0.3 * rng.random((*leading, n))
    return jnp.asarray(planted(rng, w, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_those_of_a_concrete_call(rng, dtype):
    a = _definite(rng, dtype).at[1, 2, 0].set(np.nan).at[2].multiply(-1)
    expected = _host(_every(np.asarray(a), return_info=True))

    def every(a):
        return _every(a, return_info=True)

    for function in (
        jax.jit(every),
        jax.vmap(every),
        jax.jit(jax.vmap(every)),
        jax.jit(lambda a: jax.lax.scan(lambda c, x: (c, every(x)), 0, a)[1]),
        lambda a: jax.jvp(every, (a,), (a,))[0],
    ):
        assert_same_bits(_host(function(a)), expected)


@pytest.mark.parametrize("shape", [(3, 3), (0, 3, 3), (2, 0, 0), (2, 1, 1, 1)])
def test_shapes(rng, shape):
    a = jnp.asarray(random_hermitian(rng, shape, "f4"))

    def both(a):
        return bed.expm(a, return_info=True), bed.sqrtm_invsqrtm(a, floor=1)

    assert_same_bits(_host(jax.jit(both)(a)), _host(both(np.asarray(a))))
    assert jax.jit(jax.grad(lambda a: bed.expm(a).sum()))(a).shape == shape


def test_options(rng):
    a = jnp.asarray(rng.standard_normal((3, 4, 4)))
    for options in (
        {"UPLO": "U"},
        {"floor": 0.1},
        {"driver": "reference"},
        {"floor": 2, "driver": "lapack"},
    ):
        found = jax.jit(lambda a, o=options: bed.invsqrtm(a, return_info=True, **o))(a)
        expected = bed.invsqrtm(np.asarray(a), return_info=True, **options)
        np.testing.assert_allclose(found.result, expected.result, rtol=1e-9)
        np.testing.assert_array_equal(found.status, expected.status)


@pytest.mark.parametrize("low", [0.1, 1 / 3, -np.inf, -0.0])
def test_parameters_arrive_to_the_last_bit(rng, low):
    a = jnp.asarray(random_hermitian(rng, (5, 3, 3), "f8"))
    found = jax.jit(lambda a: bed.clampm(a, low, 0.3 + 0.1))(a)
    assert_same_bits(np.asarray(found), bed.clampm(np.asarray(a), low, 0.3 + 0.1))


@pytest.fixture(params=DOUBLE)
def near(request, rng):
    """Matrices with the spectra above, and two directions."""
    a = np.stack([planted(rng, np.array(w, float), request.param) for w in SPECTRA])
    a[0] = np.eye(3)
    z, g = (random_hermitian(rng, a.shape, request.param) for _ in range(2))
    return tuple(jnp.asarray(x) for x in (a, z, g))


def _assert_close(found, expected, factor):
    """Each matrix within factor·n·eps of its largest entry."""
    size = np.abs(expected).max((-1, -2))
    error = np.abs(np.asarray(found) - expected).max((-1, -2)) - 1e-60  # of zeros
    assert (error <= factor * found.shape[-1] * EPS * size).all(), error / size / EPS


def test_derivatives_are_exact_whatever_the_gaps(near):
    a, z, g = near
    shift = {"absm": 1.5 * jnp.eye(3), "signm": 1.5 * jnp.eye(3)}  # eigenvalues ±1/2

    @jax.jit
    def derivatives(a, z, g):
        def along(function):
            return lambda a: jax.jvp(function, (a,), (g,))[1]

        return {
            name: (
                jax.jvp(function, (x := a - shift.get(name, 0),), (z,))[1],
                jax.vjp(function, x)[1](jnp.conj(z))[0],
                jax.jvp(along(function), (x,), (z,))[1],
                jax.vjp(along(function), x)[1](jnp.conj(z))[0],
            )
            for name, function in FUNCTIONS.items()
        }

    for name, found in derivatives(a, z, g).items():
        matrices = [np.asarray(x) for x in (a - shift.get(name, 0), z, g)]
        expected = np.stack(
            [
                exact_matfun.derivative(name, a, z)
                for a, z, _ in zip(*matrices, strict=True)
            ]
        )
        second = np.stack(
            [
                exact_matfun.second_derivative(name, *one)
                for one in zip(*matrices, strict=True)
            ]
        )
        forward, backward, twice, backward_twice = found
        _assert_close(forward, expected, 16)
        _assert_close(twice, second, 64)
        # As always in JAX, the gradient is the conjugate of the derivative.
        assert_same_bits(np.asarray(jnp.conj(backward)), np.asarray(forward))
        _assert_close(jnp.conj(backward_twice), second, 64)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_hessian_of_the_trace_of_exp_at_the_identity(wrap):
    n, i = 3, np.eye(3)
    hessian = wrap(jax.hessian(lambda a: jnp.trace(bed.expm(a))))(jnp.eye(n))
    exact = np.einsum("ik,jl->ijkl", i, i) + np.einsum("il,jk->ijkl", i, i)
    exact = np.e / 2 * exact
    assert np.abs(hessian - exact).max() <= 8 * n * EPS * exact.max()


@pytest.mark.parametrize("dtype", DOUBLE)
def test_gradients_are_those_of_torch(rng, dtype):
    torch = pytest.importorskip("torch")
    a, c = _definite(rng, dtype), random_hermitian(rng, (3, 4, 4), dtype)
    for name, function in FUNCTIONS.items():
        x = torch.from_numpy(np.array(a)).requires_grad_()
        (torch.from_numpy(c) * function(x)).sum().real.backward()
        g = jax.grad(lambda a, f=function: jnp.real(jnp.sum(c * f(a))))(a)
        assert_same_bits(np.asarray(jnp.conj(g)), x.grad.numpy()), name


def test_every_order_of_modes_has_the_same_second_derivative(rng):
    a = _definite(rng, "f8", (), 3)
    c = jnp.asarray(rng.standard_normal((3, 3)))

    @jax.jit
    def hessians(a):
        def loss(a):
            return jnp.sum(c * bed.invsqrtm(a)) ** 2 + jnp.sum(bed.logm(a, floor=1))

        modes = jax.jacfwd, jax.jacrev
        return [outer(inner(loss))(a) for outer in modes for inner in modes]

    first, *others = hessians(a)
    for h in others:
        atol = 1e-13 * np.abs(first).max()
        np.testing.assert_allclose(h, first, rtol=0, atol=atol)


def test_third_derivatives_where_eigenvalues_are_apart(rng):
    a, c = _definite(rng, "f8", (), 3), jnp.asarray(rng.standard_normal((3, 3)))
    z = jnp.asarray(random_hermitian(rng, (3, 3), "f8"))

    def second(a):
        def slope(a):
            return jax.jvp(lambda a: jnp.sum(c * bed.logm(a)), (a,), (z,))[1]

        return jax.jvp(slope, (a,), (z,))[1]

    second = jax.jit(second)
    h = 1e-4
    slope = (second(a + h * z) - second(a - h * z)) / (2 * h)
    for found in (
        jax.jit(lambda a: jax.jvp(second, (a,), (z,))[1])(a),
        jnp.sum(jax.jit(jax.grad(second))(a) * z),
    ):
        np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-5)


def test_mapped_derivatives_have_the_same_bits(rng):
    a = _definite(rng, "c8")
    c = jnp.asarray(random_hermitian(rng, (4, 4), "c8"))

    def gradient(a):
        return jax.grad(lambda a: jnp.real(jnp.sum(c * bed.powm(a, -0.5))))(a)

    expected = np.stack([gradient(x) for x in a])
    for function in (gradient, jax.vmap(gradient), jax.jit(jax.vmap(gradient))):
        assert_same_bits(np.asarray(function(a)), expected)
    # A gradient of many losses, of which each is mapped beside one matrix.
    jacobian = jax.jacrev(bed.expm)(a[0].real)
    by_columns = jax.jacfwd(bed.expm)(a[0].real)
    np.testing.assert_allclose(jacobian, by_columns, rtol=1e-5, atol=1e-5)


FAILED = {
    "nan": lambda a: a.at[1, 2, 0].set(np.nan),
    "inf": lambda a: a.at[1, 2, 2].set(np.inf),
    "domain": lambda a: a.at[1, 2, 2].set(-1),
    "overflow": lambda a: a.at[1, 2, 2].set(1e4),  # of exp
}


@pytest.mark.parametrize("name", FAILED)
def test_a_failed_matrix_that_is_left_out_has_gradient_zero(rng, name):
    good = _definite(rng, "f8")
    a, da = FAILED[name](good), jnp.asarray(rng.standard_normal(good.shape))
    function = bed.expm if name == "overflow" else bed.logm

    def loss(a):
        found, status = function(a, return_info=True)
        return (jnp.where((status == 0)[:, None, None], found, 1) ** 3).sum()

    @jax.jit
    def derivatives(a):
        gradient = jax.grad(loss)
        others = da.at[1].set(0)
        return (
            gradient(a),
            jax.jvp(gradient, (a,), (da,))[1],
            jax.grad(lambda a: (gradient(a) ** 2).sum())(a),
            jax.jvp(function, (a,), (others,))[1],
        )

    for found, expected in zip(derivatives(a), derivatives(good), strict=True):
        np.testing.assert_array_equal(found[1], 0)
        np.testing.assert_array_equal(found[::2], expected[::2])
        assert (found[::2] != 0).any()


@pytest.mark.parametrize("name", ["nan", "inf", "domain"])
def test_a_failed_matrix_that_counts_has_gradient_nan(rng, name):
    a = FAILED[name](_definite(rng, "c16"))

    def loss(a):
        return jnp.real(bed.logm(a)).sum()

    @jax.jit
    def derivatives(a):
        gradient = jax.grad(loss)
        return gradient(a), jax.jvp(gradient, (a,), (a,))[1]

    for found in derivatives(a):
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[::2]).all()


@pytest.mark.parametrize("x64", [True, False])
@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "i4", "u1", "bool"])
def test_other_dtypes(x64, dtype):
    jax.config.update("jax_enable_x64", x64)
    a = jnp.asarray([[2, 1], [1, 3]]).astype(dtype) + jnp.eye(2, dtype=dtype)
    with jax.numpy_dtype_promotion("strict"):
        expected = bed.expm(a)
        found = jax.jit(bed.expm)(a)
        assert_same_bits(np.asarray(found), np.asarray(expected))
        if jnp.issubdtype(a.dtype, jnp.floating):
            g = jax.jit(jax.grad(lambda a: bed.expm(a).sum()))(a)
            assert g.dtype == a.dtype
            tangent = jax.jvp(bed.expm, (a,), (a,))[1]
            assert tangent.dtype == found.dtype == "f4"


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_modes_that_find_mistakes(rng, dtype):
    a = _definite(rng, dtype)

    def second(function):
        def gradient(a):
            return jax.grad(lambda a: jnp.real(function(a)).sum())(a)

        return lambda a: jax.jvp(gradient, (a,), (a,))

    for name in ("invsqrtm", "expm"):
        with (
            jax.numpy_dtype_promotion("strict"),
            jax.numpy_rank_promotion("raise"),
            jax.checking_leaks(),
        ):
            found = jax.jit(second(FUNCTIONS[name]))(a)
        with jax.debug_nans(True):
            guarded = second(FUNCTIONS[name])(a)
        with jax.disable_jit():
            expected = second(FUNCTIONS[name])(a)
        for x, y, z in zip(found, guarded, expected, strict=True):
            atol = 1e-3 * np.abs(y).max()
            np.testing.assert_allclose(x, y, rtol=0, atol=atol)
            np.testing.assert_allclose(z, y, rtol=0, atol=atol)


def test_inside_shard_map(rng):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    spec = jax.sharding.PartitionSpec("batch")
    root = jax.shard_map(bed.sqrtm, mesh=mesh, in_specs=spec, out_specs=spec)
    a = _definite(rng, "f8")

    def twice(function):
        gradient = jax.grad(lambda a: (function(a) ** 3).sum())
        return jax.jit(lambda a: jax.jvp(gradient, (a,), (a,)))(a)

    for x, y in zip(twice(root), twice(bed.sqrtm), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-13 * np.abs(y).max())


def test_what_is_compiled_stays_in_the_memory_of_xla(rng):
    a = _definite(rng, "f4")
    gradient = jax.jit(jax.grad(lambda a: bed.sqrtm(a).sum()))
    text = gradient.lower(a).as_text()
    for name in ("bed_spectral(", "bed_spectral_vjp("):
        assert f"custom_call @{name}" in text
    assert "callback" not in text
    # The value alone keeps neither eigenvalues nor eigenvectors.
    text = jax.jit(bed.sqrtm).lower(a).as_text()
    assert "(tensor<3x4x4xf32>, tensor<3xi32>)" in text


def test_what_is_exported_takes_any_batch(rng):
    (batch,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, 3, 3), "f4")
    names = "bed_spectral", "bed_spectral_vjp"
    checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]
    gradient = jax.grad(lambda a: bed.expm(a).sum())
    exported = jax.export.export(jax.jit(gradient), disabled_checks=checks)(shape)
    for size in (1, 4):
        a = jnp.asarray(random_hermitian(rng, (size, 3, 3), "f4"))
        np.testing.assert_allclose(exported.call(a), gradient(a), rtol=1e-5)


def test_what_is_wrong_is_told_when_it_is_traced():
    a = jnp.eye(3)
    with pytest.raises(ValueError, match=r"cannot raise under jax\.jit.*status"):
        jax.jit(lambda a: bed.sqrtm(a, check=True))(a)
    with pytest.raises(ValueError, match="nonsense"):
        jax.jit(lambda a: bed.sqrtm(a, driver="nonsense"))(a)
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(2, 3\)"):
        jax.jit(bed.logm)(a[:2])
    with pytest.raises(NotImplementedError, match=r"jax\.jit on tpu.*CUDA"):
        jax.jit(bed.expm).trace(a).lower(lowering_platforms=("tpu",))
