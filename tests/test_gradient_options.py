"""`gradient=`, `degree=` and `check_phase=` reach the derivative in torch and JAX."""

import warnings

import numpy as np
import pytest

import bed
from bed._derivative.eigh import eigh_vjp
from bed._derivative.method import METHODS
from torch_losses import close, invariant_loss, invariants, matrix, separated

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy
func = torch.func

# torch's own: its forward mode compiles something with torch.jit when first used, and
# its vmap says which of its operations it runs one by one.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]
BY_PHASE = "phases of the eigenvectors, which are arbitrary"


@pytest.fixture(autouse=True)
def jax_x64():
    with jax.enable_x64(True):
        yield


def _close_pairs(rng, dtype="f8"):
    """Spectra in which every approximation differs from the exact gradient."""
    return matrix(rng, [[1, 1 + 1e-9, 2, 2.2], [1, 1.5, 3, 3 + 1e-9]], dtype)


@pytest.fixture
def losses(rng):
    """A loss that depends on the basis, for torch and for JAX."""
    c = rng.standard_normal((4, 4))
    return (
        lambda w, v: ((v * torch.from_numpy(c)).sum(-2) * w).sum(),
        lambda w, v: ((v * c).sum(-2) * w).sum(),
    )


def _expected(x, loss, gradient, degree):
    w, v = (y.requires_grad_() for y in bed.eigh(x))
    gradients = torch.autograd.grad(loss(w, v), (w, v))
    options = {"gradient": gradient, "degree": degree}
    with torch.no_grad():
        return eigh_vjp(w, v, *gradients, **options)


@pytest.mark.parametrize("gradient", METHODS)
@pytest.mark.parametrize("degree", [0, 9, 40])
def test_each_gradient_is_the_one_asked_for(rng, losses, gradient, degree):
    x = _close_pairs(rng)
    options = {"gradient": gradient, "degree": degree}
    expected = _expected(x, losses[0], **options)
    scale = expected.abs().max().item()

    def loss(x):
        return losses[0](*bed.eigh(x, **options))

    (g,) = torch.autograd.grad(loss(x.requires_grad_()), x)
    close(g / scale, expected / scale, 1e-12)
    x = x.detach()
    close(func.grad(loss)(x) / scale, expected / scale, 1e-12)
    along = torch.ones_like(x)
    _, dw = func.jvp(loss, (x,), (along,))
    if gradient != "power_iteration":  # whose F is not antisymmetric
        close(dw / scale, (g * along).sum() / scale, 1e-12)

    def jax_loss(x):
        return losses[1](*bed.eigh(x, **options))

    for wrap in (lambda f: f, jax.jit):
        g = np.asarray(wrap(jax.grad(jax_loss))(x.numpy()))
        if gradient != "power_iteration":
            np.testing.assert_allclose(g / scale, expected / scale, rtol=0, atol=1e-9)


def test_the_options_make_a_difference(rng, losses):
    x = _close_pairs(rng)
    results = [_expected(x, losses[0], gradient, 9) for gradient in METHODS]
    results.append(_expected(x, losses[0], "taylor", 40))
    for i, one in enumerate(results):
        for other in results[:i]:
            assert (one - other).abs().max() > 1e-3 * one.abs().max()


@pytest.mark.parametrize("gradient", METHODS)
def test_compiled_gradients(rng, losses, gradient):
    x = _close_pairs(rng).requires_grad_()

    def loss(x):
        return losses[0](*bed.eigh(x, gradient=gradient, degree=5))

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (expected,) = torch.autograd.grad(loss(x), x)
    (g,) = torch.autograd.grad(compiled(x), x)
    close(g / expected.abs().max(), expected / expected.abs().max())
    torch._dynamo.reset()


@pytest.mark.parametrize("a", [np.eye(2), torch.eye(2), jnp.eye(2)], ids=type)
def test_options_that_are_not_accepted(a):
    with pytest.raises(ValueError, match="gradient must be one of 'exact', 'taylor'"):
        bed.eigh(a, gradient="exakt")
    with pytest.raises(ValueError, match=r"must be an integer, got 1\.5"):
        bed.eigh(a, gradient="taylor", degree=1.5)
    with pytest.raises(ValueError, match="degree must not be negative, got -1"):
        bed.eigh(a, degree=-1)
    w, _ = bed.eigh(a, gradient="pade", degree=np.int64(3), check_phase=True)
    assert np.asarray(w).tolist() == [1, 1]


def _by_phase(solve):
    """A loss that depends on phases: a sum over real parts.

    Of all vectors: a phase at which the sum over one is about largest comes up.
    """

    def loss(x):
        v = solve(x, check_phase=True).eigenvectors
        return v.real.sum() + 2 * v.imag.sum()

    return loss


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_torch_raises_for_a_loss_of_phases(rng, dtype):
    loss = _by_phase(bed.eigh)
    x = separated(rng, dtype, (2, 3))
    with pytest.raises(RuntimeError, match=rf"{BY_PHASE}.*matrix \(0, 0\); matrix"):
        torch.autograd.grad(loss(x.requires_grad_()), x)
    x = x.detach()
    with pytest.raises(RuntimeError, match=BY_PHASE):
        func.grad(loss)(x)
    with pytest.raises(RuntimeError, match=BY_PHASE):
        func.vmap(func.grad(loss))(x)
    # Nothing is looked at unless it is asked for, and real vectors have no phases.
    bed.eigh(x.requires_grad_()).eigenvectors[..., 1].real.sum().backward()
    x = x.detach().real.requires_grad_()
    bed.eigh(x, check_phase=True).eigenvectors[..., 1].sum().backward()


def test_torch_names_the_matrix_whose_loss_has_phases(rng):
    x = separated(rng, "c16", (4,)).requires_grad_()
    v = bed.eigh(x, check_phase=True).eigenvectors
    loss = v.abs()[..., 1].sum() + v[2, 0, 1].imag
    with pytest.raises(RuntimeError, match=r"no derivative: matrix 2$"):
        loss.backward()


@pytest.mark.parametrize("dtype", ["f4", "c8", "f8", "c16"])
def test_losses_without_phases_pass(rng, dtype):
    x = separated(rng, dtype, (3,))

    def loss(solve, **options):
        return invariant_loss(solve, **options)

    plain, checked = loss(bed.eigh), loss(bed.eigh, check_phase=True)
    close(func.grad(checked)(x), func.grad(plain)(x), 0)
    per_matrix = func.vmap(func.grad(checked))(x)
    close(per_matrix, func.vmap(func.grad(plain))(x), 0)
    if dtype == "c16":
        one = x[0].clone().requires_grad_()
        both = invariants(bed.eigh, check_phase=True)
        assert torch.autograd.gradgradcheck(both, one, check_fwd_over_rev=True)


def test_phases_inside_compile(rng):
    torch._dynamo.reset()
    compiled = torch.compile(_by_phase(bed.eigh), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"cannot raise inside torch\.compile"):
        compiled(separated(rng, "c16").requires_grad_())
    torch._dynamo.reset()


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_jax_gives_nan_for_a_loss_of_phases(rng, wrap):
    x = separated(rng, "c16", (4,)).numpy()

    def loss(x, only=slice(None)):
        v = bed.eigh(x, check_phase=True).eigenvectors
        return (jnp.abs(v[..., 1]) ** 4).sum() + v[only, 0, 1].imag.sum()

    gradient = wrap(jax.grad(loss))(x)
    assert jnp.isnan(gradient).all()
    gradient = wrap(jax.grad(lambda x: loss(x, 2)))(x)
    assert jnp.isnan(gradient).all(axis=(1, 2)).tolist() == [False, False, True, False]
    per_matrix = wrap(jax.vmap(jax.grad(lambda x: loss(x[None]))))(x)
    assert jnp.isnan(per_matrix).all()


@pytest.mark.parametrize("dtype", ["f8", "c8", "c16"])
def test_jax_losses_without_phases_pass(rng, dtype):
    x = separated(rng, dtype, (3,)).numpy()

    def loss(x, **options):
        w, v = bed.eigh(x, **options)
        return ((jnp.abs(v) ** 4).sum(-2) * w).sum()

    def checked(x):
        return loss(x, check_phase=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for f in (jax.grad, lambda f: jax.jvp(f, (x,), (x,))[1]):
            transformed = [f(g)(x) if f is jax.grad else f(g) for g in (checked, loss)]
            np.testing.assert_allclose(*transformed, rtol=1e-6)
        if dtype == "f8":
            np.testing.assert_allclose(
                jax.hessian(checked)(x), jax.hessian(loss)(x), rtol=1e-9
            )
