"""Derivatives and programs of a few pairs from an end of the spectrum."""

import numpy as np
import pytest

import bed
from bed.engines import ends_at
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import planted, random_hermitian
from torch_losses import close, hermitian, invariant_loss, invariants, separated

torch = pytest.importorskip("torch")
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
ENDS = ("largest", "smallest")
DOUBLE = ("f8", "c16")


def _solve(k, which):
    return lambda x: bed.eigh_extremal(x, k, which)


def _top(x):
    """The largest eigenvalue, cubed, and the projector onto its vector."""
    w, v = bed.eigh_extremal(hermitian(x))
    p = v @ v.mH
    weights = torch.arange(p.numel(), dtype=w.dtype).reshape(p.shape).cos()
    return (w**3).sum() + (weights * p).real.sum()


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("which", ENDS)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_derivatives_of_both_modes_and_orders(rng, dtype, which, k):
    x = separated(rng, dtype).requires_grad_()
    both = invariants(_solve(k, which))
    assert torch.autograd.gradcheck(both, x, check_forward_ad=True)
    loss = invariant_loss(_solve(k, which))
    assert torch.autograd.gradgradcheck(loss, x, check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("apart", [0.0, 1e-15, 1e-12, 1e-8])
def test_what_coincides_among_the_others_does_not_matter(rng, dtype, apart):
    """At a gap of 0 … 1e-8 in the rest, to the rounding of the gaps to the chosen."""
    w = np.array([-1, -1 + apart, -1 + 2 * apart, 0.25, 0.25 + apart, 1.5])
    x = torch.from_numpy(planted(rng, w, dtype)).requires_grad_()
    c = separated(rng, dtype, (), 6)
    w, v = bed.eigh_extremal(x)
    (g,) = torch.autograd.grad((v.mH @ c @ v).real.sum(), x)
    whole = torch.linalg.eigh(x.detach())
    rest, values = whole.eigenvectors[:, :-1], whole.eigenvalues[:-1]
    p, r = (v @ v.mH).detach(), (rest / (1.5 - values)) @ rest.mH
    close(g, p @ c @ r + r @ c @ p, 1e-13)
    # The second derivative of the eigenvalue has the same gaps.
    da = separated(rng, dtype, (), 6)
    value = lambda x: bed.eigh_extremal(x)[0].sum()  # noqa: E731
    _, tangent = torch.func.jvp(torch.func.grad(value), (x.detach(),), (da,))
    close(tangent, r @ da @ p + p @ da @ r, 1e-13)
    _, forward = torch.func.jvp(value, (x.detach(),), (da,))
    close(forward, (p @ da).trace().real, 1e-13)


def test_a_repeated_pair_inside_has_the_gradient_of_its_sum(rng):
    x = torch.from_numpy(planted(rng, [0.0, 0.5, 2.0, 2.0], "f8")).requires_grad_()
    c = separated(rng, "f8", ())
    w, v = bed.eigh_extremal(x, 2)
    (g,) = torch.autograd.grad(w.sum(), x, retain_graph=True)
    p = (v @ v.mH).detach()
    close(g, p, 1e-14)
    (g,) = torch.autograd.grad(((v @ v.mH) * c).sum(), x)
    _, rest = bed.eigh_extremal(x.detach(), 2, "smallest")
    r = (rest / torch.tensor([2.0, 1.5], dtype=x.dtype)) @ rest.mH
    close(g, p @ c @ r + r @ c @ p, 1e-13)


def test_a_matrix_that_failed_keeps_it_to_itself(rng):
    x = separated(rng, "f8", (3,))
    (expected,) = torch.autograd.grad(_top(x.requires_grad_()), x)
    x = x.detach().clone()
    x[1, 2, 0] = torch.nan
    x.requires_grad_()
    (g,) = torch.autograd.grad(_top(x), x)
    assert g[1].isnan().all()
    close(g[::2], expected[::2])
    w, _, status = bed.eigh_extremal(x, return_info=True)
    (g,) = torch.autograd.grad(w[status == 0].sum(), x)
    close(g[1], torch.zeros_like(g[1]), 0)


@pytest.mark.parametrize("n", [4, 32])
def test_traced_values_are_those_of_all_pairs(rng, n):
    """And others those of the engine: both within rounding, of one dtype and shape."""
    x = torch.from_numpy(random_hermitian(rng, (3, n, n), "c8"))
    for which in ENDS:
        plain = bed.eigh_extremal(x, 2, which, return_info=True)
        traced = bed.eigh_extremal(
            x.clone().requires_grad_(), 2, which, return_info=True
        )
        part = ends_at(n, 2, which)
        close(traced.eigenvalues.detach(), bed.eigh(x).eigenvalues[..., part], 0)
        close(traced.eigenvalues.detach(), plain.eigenvalues, 1e-5)
        assert traced.eigenvectors.shape == plain.eigenvectors.shape
        assert traced.status.dtype == plain.status.dtype == torch.int32
        with torch.no_grad():
            again = bed.eigh_extremal(x.clone().requires_grad_(), 2, which)
        assert_same_bits(again.eigenvalues.numpy(), plain.eigenvalues.numpy())
    large = torch.full((3, 3), 3e38, requires_grad=True)
    assert bed.eigh_extremal(-large, return_info=True).status == 0
    assert bed.eigh_extremal(large, return_info=True).status == 3


@pytest.mark.parametrize("name", ["vmap", "grad", "jacrev", "hessian", "vmap of grad"])
def test_transforms(rng, name):
    x = separated(rng, "f8", (3,))
    one = x[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(_top(one), one)
    if name == "vmap":
        found = torch.func.vmap(_top)(x)
        expected = torch.stack([_top(each) for each in x])
    elif name == "vmap of grad":
        found = torch.func.vmap(torch.func.grad(_top))(x)[0]
    else:
        found = getattr(torch.func, name)(_top)(x[0])
        if name == "hessian":
            expected = torch.autograd.functional.hessian(_top, x[0])
    close(found, expected)


def test_programs(rng):
    """Traced with one batch, and judged with another."""
    x, other = separated(rng, "f8", (2, 5)).unbind(0)
    expected = torch.func.grad(_top)(other)
    for mode in ("real", "symbolic"):
        traced = make_fx(torch.func.grad(_top), tracing_mode=mode)(x)
        close(traced(other), expected)
    torch._dynamo.reset()
    for dynamic in (False, True):
        compiled = torch.compile(
            _top, fullgraph=True, backend="aot_eager", dynamic=dynamic
        )
        z = other.clone().requires_grad_()
        close(torch.autograd.grad(compiled(z), z)[0], expected)
    torch._dynamo.reset()

    class Module(torch.nn.Module):
        def forward(self, x):
            return bed.eigh_extremal(x, 2, "smallest", return_info=True)

    exported = torch.export.export(Module(), (x,)).module()
    expected = bed.eigh_extremal(other, 2, "smallest", return_info=True)
    for got, wanted in zip(exported(other)[::2], expected[::2], strict=True):
        close(got, wanted, 1e-12)
    script = torch.jit.trace(lambda x: bed.eigh_extremal(x)[0], x)
    close(script(other), bed.eigh_extremal(other)[0], 1e-12)


def test_tensors_without_values():
    for x in (torch.empty(2, 5, 5, device="meta"), None):
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(torch.empty(2, 5, 5)) if x is None else x
        w, v, status = bed.eigh_extremal(fake, 3, return_info=True)
        assert (w.shape, v.shape, status.shape) == ((2, 3), (2, 5, 3), (2,))
        with pytest.raises(ValueError, match="k must be"):
            bed.eigh_extremal(fake, 6)
        with pytest.raises(ValueError, match="which must be"):
            bed.eigh_extremal(fake, 1, "middle")
        with pytest.raises(torch.linalg.LinAlgError, match="square"):
            bed.eigh_extremal(fake[..., :3])


# --- JAX ----------------------------------------------------------------------


@pytest.fixture
def jnp():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax.numpy
    jax.config.update("jax_enable_x64", before)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("which", ENDS)
def test_jax_transforms(rng, jnp, dtype, which):
    import jax
    from jax.test_util import check_grads

    def top(x):
        x = (x + jnp.conj(jnp.swapaxes(x, -1, -2))) / 2
        w, v = bed.eigh_extremal(x, 2, which)
        p = v @ jnp.conj(jnp.swapaxes(v, -1, -2))
        weights = jnp.cos(jnp.arange(p.size).reshape(p.shape))
        return (w**3).sum() + (weights * (p.real + 2 * p.imag)).sum()

    a = separated(rng, dtype, (3,)).numpy()
    x = jnp.asarray(a)
    check_grads(top, (x,), 2, modes=["fwd", "rev"], rtol=1e-5, atol=1e-5)
    expected = jnp.stack([jax.grad(top)(each) for each in x])
    for mapped in (jax.vmap(jax.grad(top)), jax.jit(jax.vmap(jax.grad(top)))):
        np.testing.assert_allclose(mapped(x), expected, atol=1e-12)
    if dtype == "f8":
        hessian = jax.jit(jax.hessian(top))(x[0])
        np.testing.assert_allclose(
            hessian,
            torch.autograd.functional.hessian(
                lambda t: _like_top(t, which), torch.from_numpy(a[0])
            ),
            atol=1e-10,
        )


def _like_top(x, which):
    w, v = bed.eigh_extremal(hermitian(x), 2, which)
    p = v @ v.mT
    weights = torch.arange(p.numel(), dtype=p.dtype).reshape(p.shape).cos()
    return (w**3).sum() + (weights * p).sum()


def test_jax_arrays(rng, jnp):
    import jax

    a = random_hermitian(rng, (3, 20, 20), "f4")
    x = jnp.asarray(a)
    found = bed.eigh_extremal(x, 2, return_info=True)
    assert all(isinstance(each, jax.Array) for each in found)
    expected = bed.eigh_extremal(a, 2, return_info=True)
    assert_same_bits(tuple(map(np.asarray, found)), tuple(expected))
    jitted = jax.jit(lambda x: bed.eigh_extremal(x, 2, return_info=True))(x)
    np.testing.assert_allclose(jitted.eigenvalues, found.eigenvalues, atol=1e-4)
    assert jitted.eigenvectors.shape == (3, 20, 2)
    assert jitted.status.dtype == np.int32
    bad = x.at[1, 2, 0].set(jnp.nan)
    status = jax.jit(lambda x: bed.eigh_extremal(x, return_info=True).status)(bad)
    assert status.tolist() == [0, 1, 0]

    def values(x):
        w, _, status = bed.eigh_extremal(x, return_info=True)
        return jnp.where(status == 0, w[..., 0], 0).sum()

    gradient = jax.grad(values)(bad)
    assert (gradient[1] == 0).all()
    with jax.numpy_dtype_promotion("strict"):
        close_to = jax.grad(values)(x)
    np.testing.assert_allclose(gradient[::2], close_to[::2], atol=1e-5)
    with pytest.raises(ValueError, match="k must be"):
        jax.jit(lambda x: bed.eigh_extremal(x, 21))(x)
