"""Results of JAX arrays are where `jnp.linalg` would put them, and nothing is gathered.

Run by `test_jax_devices.py`.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import bed
from bed.autograd.jax import funm
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import planted, random_hermitian

P = PartitionSpec
BATCH = [P("x"), P(("x", "y")), P("x", "y"), P(None, "y")]  # of two leading axes
SPLIT = [
    *BATCH,
    P(),
    P("x", None, "y"),
    P(None, None, "x", "y"),
    P(None, None, None, "x"),
]
WRAPS = [pytest.param(lambda f: f, id="eager"), pytest.param(jax.jit, id="jit")]


def _mesh(kind=AxisType.Auto):
    return jax.make_mesh((2, 2), ("x", "y"), axis_types=(kind, kind))


def _split(a, spec, kind=AxisType.Auto):
    return jax.device_put(a, NamedSharding(_mesh(kind), spec))


def _eigh(a):
    return bed.eigh(a, return_info=True)


def _theirs(a):
    w, v = jnp.linalg.eigh(a, symmetrize_input=False)
    return w, v, (0 * w.sum(-1)).astype("i4")


def _assert_alike(found, expected):
    """Placed alike, not valued."""
    for x, y in zip(found, expected, strict=True):
        assert x.devices() == y.devices()
        assert x.committed == y.committed
        assert x.sharding.is_equivalent_to(y.sharding, x.ndim), (x.sharding, y.sharding)


def _assert_nothing_moves(function, *arguments):
    text = jax.jit(function).lower(*arguments).compile().as_text()
    assert "bed_eigh" in text
    assert not re.findall(r"all-\w+|collective-\w+|dynamic-slice", text)


def _loss(a):
    w, v = bed.eigh(a)
    return (w**3).sum() + (jnp.abs(v) ** 2 * jnp.arange(float(a.shape[-1]))).sum()


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3, 3), (0, 3, 3), (5, 0, 0)])
def test_one_device(rng, wrap, shape):
    a = random_hermitian(rng, shape, "f4")
    committed = [jax.device_put(a, device) for device in jax.devices()[::2]]
    for x in (jnp.asarray(a), *committed):
        _assert_alike(wrap(_eigh)(x), jax.jit(_theirs)(x))
        w = wrap(bed.eigvalsh)(x)
        assert (w.devices(), w.committed) == (x.devices(), x.committed)
        if x.size:  # else the gradient is a constant, and JAX's own
            g = wrap(jax.grad(lambda x: bed.eigvalsh(x).sum()))(x)
            assert (g.devices(), g.committed) == (x.devices(), x.committed)
        assert_same_bits(np.asarray(w), bed.eigvalsh(a))
        x @ wrap(bed.eigh)(x)[1]


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "i4", "bool", "c8"])
def test_other_dtypes_on_one_device(dtype):
    a = jax.device_put(jnp.eye(3, dtype=dtype), jax.devices()[2])
    for x in (*_eigh(a), *bed.tridiagonalize(a)):
        assert x.devices() == a.devices() and x.committed


def test_an_array_that_may_move_goes_to_the_default_device():
    a = jnp.eye(3)
    with jax.default_device(jax.devices()[3]):
        _assert_alike(_eigh(a), _theirs(a))
        b = jnp.eye(3)
    _assert_alike(_eigh(b), _theirs(b))
    assert not b.committed


@pytest.mark.parametrize("spec", SPLIT, ids=str)
@pytest.mark.parametrize("wrap", WRAPS)
def test_parts_on_every_device(rng, spec, wrap):
    a = random_hermitian(rng, (4, 2, 4, 4), "f4")
    x = _split(a, spec)
    found = wrap(_eigh)(x)
    _assert_alike(found, jax.jit(_theirs)(x))
    expected = bed.eigh(a, return_info=True)
    assert_same_bits(tuple(np.asarray(y) for y in found), tuple(expected))
    (w, status), (values, _, _) = bed.eigvalsh(x, return_info=True), found
    _assert_alike((w, status), (values, found.status))


@pytest.mark.parametrize("spec", BATCH, ids=str)
def test_no_device_gets_what_others_have(rng, spec):
    a = random_hermitian(rng, (4, 2, 4, 4), "f4")
    x = _split(a, spec)
    for function in (
        _eigh,
        bed.eigvalsh,
        lambda a: bed.eigh(a, "U", gradient="pade"),
        lambda a: bed.jax.eigh(a, symmetrize_input=False),
        jax.vmap(bed.eigh),
        jax.vmap(jax.vmap(jax.grad(_loss))),
    ):
        _assert_nothing_moves(function, x)
    _assert_nothing_moves(lambda x, t: jax.jvp(bed.eigh, (x,), (t,)), x, x)
    _assert_nothing_moves(bed.eigvalsh, _split(a.astype("i4"), spec))


def test_integers_and_small_types_in_parts():
    for dtype in ("i4", "u1", "f2", "bfloat16"):
        a = jnp.tile(jnp.eye(3), (4, 1, 1)).astype(dtype)
        found = bed.eigh(_split(a, P("x")))
        assert all(y.sharding.spec == P("x") for y in found)
        assert_same_bits(
            tuple(np.asarray(y) for y in found),
            tuple(np.asarray(y) for y in bed.eigh(a)),
        )


@pytest.mark.parametrize("spec", BATCH[1:3], ids=str)
def test_derivatives_in_parts(rng, spec):
    a = planted(rng, np.arange(4) + rng.random((4, 2, 4)) / 2, "f4")
    x = _split(a, spec)
    expected = jax.grad(_loss)(jnp.asarray(a))
    for function in (jax.grad(_loss), jax.jit(jax.grad(_loss))):
        g = function(x)
        assert g.sharding.is_equivalent_to(x.sharding, x.ndim)
        np.testing.assert_allclose(g, expected, rtol=0, atol=1e-4)
    tangents = jax.jvp(bed.eigh, (x,), (x,))[1]
    _assert_alike(tangents, bed.eigh(x))


@pytest.mark.parametrize("spec", BATCH[1:3], ids=str)
def test_explicit_axes(rng, spec):
    a = random_hermitian(rng, (4, 2, 4, 4), "f4")
    x = _split(a, spec, AxisType.Explicit)
    with jax.set_mesh(_mesh(AxisType.Explicit)):
        for wrap in (lambda f: f, jax.jit):
            found = wrap(_eigh)(x)
            expected = jnp.linalg.eigh(x, symmetrize_input=False)
            for y, z in zip(found, expected, strict=False):
                assert jax.typeof(y).sharding == jax.typeof(z).sharding
            tangents = wrap(lambda x: jax.jvp(bed.eigh, (x,), (x,)))(x)[1]
            _assert_alike(tangents, found[:2])
            g = wrap(jax.grad(lambda x: bed.eigvalsh(x).sum()))(x)
            assert jax.typeof(g).sharding == jax.typeof(x).sharding


def test_explicit_axes_of_the_matrices_are_refused(rng):
    x = _split(random_hermitian(rng, (2, 4, 4), "f4"), P(None, "x"), AxisType.Explicit)
    for wrap in (lambda f: f, jax.jit):
        with pytest.raises(ValueError, match="must not be split over devices"):
            wrap(bed.eigh)(x)


def test_in_and_out_shardings(rng):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    mesh = _mesh()
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    for inside, outside in ((rows, rows), (rows, whole), (whole, rows)):
        w, v = jax.jit(bed.eigh, in_shardings=inside, out_shardings=outside)(a)
        assert w.sharding.is_equivalent_to(outside, 2)
        assert_same_bits((np.asarray(w), np.asarray(v)), tuple(bed.eigh(a)))


@pytest.mark.parametrize("axes", [{"x"}, {"x", "y"}], ids=str)
def test_inside_shard_map(rng, axes):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    solve = jax.jit(
        jax.shard_map(
            lambda a: bed.eigvalsh(a) ** 2,
            mesh=_mesh(),
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names=axes,
        )
    )
    _assert_nothing_moves(solve, _split(a, P("x")))
    np.testing.assert_array_equal(solve(a), bed.eigvalsh(a) ** 2)
    g = jax.grad(lambda a: solve(a).sum())(a)
    np.testing.assert_allclose(g, 2 * a, rtol=0, atol=1e-4)


def test_pmap(rng):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    w, v = jax.pmap(bed.eigh)(a)
    assert_same_bits((np.asarray(w), np.asarray(v)), tuple(bed.eigh(a)))
    again = bed.eigh(jax.pmap(lambda a: a)(a))
    assert_same_bits(tuple(np.asarray(x) for x in again), tuple(bed.eigh(a)))


def test_checks_of_parts(rng):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    good = _split(a, P("x"))
    for check in (True, "hermitian"):
        _assert_alike(bed.eigh(good, check=check), bed.eigh(good))
    bad = _split(a.copy(), P("x")).at[2, 1, 0].set(np.nan)
    with pytest.raises(np.linalg.LinAlgError, match=r"1 of 4 matrices.*2"):
        bed.eigvalsh(bad, check=True)
    other = good.at[3, 1, 0].add(1)
    bed.eigh(other, check=True)
    with pytest.raises(np.linalg.LinAlgError, match="1 of 4 matrices are not Herm"):
        bed.eigh(other, check="hermitian")
    with pytest.raises(ValueError, match="check"):
        bed.eigh(good, check="nonsense")


def test_stages_of_parts(rng):
    """They are solved as a whole, and every device has the results."""
    a = random_hermitian(rng, (4, 3, 3), "f4")
    d, e, q = bed.tridiagonalize(_split(a, P("x")))
    for x in (d, e, q, *bed.eigh_tridiagonal(d, e)):
        assert len(x.devices()) == 4 and x.is_fully_replicated
    assert_same_bits(tuple(np.asarray(x) for x in (d, e, q)), bed.tridiagonalize(a))


@pytest.mark.parametrize("wrap", WRAPS)
def test_without_jit_and_under_a_guard(rng, wrap):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    arrays = (jnp.asarray(a), _split(a, P("x")), jax.device_put(a, jax.devices()[1]))
    for x in arrays:
        with jax.disable_jit():
            found = wrap(bed.eigh)(x)
        _assert_alike(found, bed.eigh(x))
        with jax.transfer_guard("disallow_explicit"):
            w, v = wrap(bed.eigh)(x)
        _assert_alike((w, v), found)


def _functions(a):
    return bed.expm(a, return_info=True), bed.sqrtm_invsqrtm(a)


def _functions_loss(a):
    return (bed.sqrtm(a) ** 3).sum() + bed.expm(a).sum()


def _twice(a):
    gradient = jax.grad(_functions_loss)
    return jax.jvp(gradient, (a,), (a,))


def _definite(rng):
    return planted(rng, 1 + np.arange(4) + rng.random((4, 2, 4)) / 2, "f4")


@pytest.mark.parametrize("spec", BATCH, ids=str)
def test_functions_of_matrices_in_parts(rng, spec):
    a = _definite(rng)
    x = _split(a, spec)
    expected = tuple(jax.tree.leaves(_functions(a)))
    for wrap in (lambda f: f, jax.jit):
        found = jax.tree.leaves(wrap(_functions)(x))
        assert_same_bits(tuple(np.asarray(y) for y in found), expected)
        _assert_alike(found, [x[..., 0, 0] if y.ndim == 2 else x for y in found])
        for y, z in zip(wrap(_twice)(x), _twice(jnp.asarray(a)), strict=True):
            assert y.sharding.is_equivalent_to(x.sharding, x.ndim)
            np.testing.assert_allclose(y, z, rtol=2e-5, atol=1e-3)
    for function in (_functions, _twice, jax.vmap(jax.grad(_functions_loss))):
        text = jax.jit(function).lower(x).compile().as_text()
        assert "bed_spectral" in text
        # Second derivatives have slices of their own, in a loop.
        assert not re.findall(r"all-\w+|collective-\w+", text)


def test_functions_of_matrices_on_explicit_axes(rng):
    a = _definite(rng)
    x = _split(a, P("x", "y"), AxisType.Explicit)
    with jax.set_mesh(_mesh(AxisType.Explicit)):
        for wrap in (lambda f: f, jax.jit):
            for y, z in zip(wrap(_twice)(x), _twice(a), strict=True):
                assert jax.typeof(y).sharding == jax.typeof(x).sharding
                np.testing.assert_allclose(y, z, rtol=2e-5, atol=1e-3)


def test_functions_of_matrices_inside_shard_map(rng):
    a = _definite(rng)
    mapped = jax.jit(
        jax.shard_map(
            lambda a: bed.expm(a) @ bed.sqrtm(a),
            mesh=_mesh(),
            in_specs=P("x", "y"),
            out_specs=P("x", "y"),
        )
    )
    for function in (lambda a: bed.expm(a) @ bed.sqrtm(a), mapped):
        gradient = jax.grad(lambda a, f=function: f(a).sum())
        found = gradient(a), jax.jvp(gradient, (a,), (a,))[1]
        if function is not mapped:
            expected = found
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-3)


def test_checks_of_functions_of_parts(rng):
    x = _split(_definite(rng), P("x"))
    assert_same_bits(np.asarray(bed.logm(x, check=True)), np.asarray(bed.logm(x)))
    bad = x.at[2, 1].multiply(-1)
    with pytest.raises(np.linalg.LinAlgError, match=r"1 of 8.*\(2, 1\).*domain"):
        bed.logm(bad, check=True)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("wrap", WRAPS)
def test_functions_of_a_caller_in_parts(rng, kind, wrap):
    a = _definite(rng)
    x = _split(a, P("x", "y"), kind)

    def loss(p, a):
        f, status = funm.funm(a, "L", False, "auto", lambda x: jnp.exp(p * x))
        return (f**2).sum() + 0 * status.sum()

    def derivatives(a):
        def gradients(a):
            return jax.grad(loss, (0, 1))(jnp.float32(0.5), a)

        return jax.jvp(gradients, (a,), (a,))

    expected = derivatives(jnp.asarray(a))
    with jax.set_mesh(_mesh(kind)):
        found = wrap(derivatives)(x)
        for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            if y.ndim:
                assert y.sharding.is_equivalent_to(x.sharding, x.ndim)
            np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-3)
