"""A matrix that failed, and that a loss leaves out, does not reach its gradient."""

import pytest

import bed
from torch_losses import close, hermitian, separated

torch = pytest.importorskip("torch")
# Of torch itself, whose forward mode compiles something with torch.jit when first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

METHODS = ["exact", "taylor", "pade", "power_iteration", "truncated"]
FAILED = 1


@pytest.fixture(params=["NaN", "Inf", "overflow"])
def batch(request, rng):
    """Three matrices of which the middle one fails."""
    x = separated(rng, "f8", (3,))
    if request.param == "NaN":
        x[FAILED] = torch.nan
    elif request.param == "Inf":
        x[FAILED, 0, 0] = torch.inf
    else:
        x[FAILED] = 1.5e308  # finite, and its largest eigenvalue is not
    return x


def _loss(a, where, **options):
    """Of values and projectors of the matrices that `where` chooses."""
    w, v = bed.eigh(hermitian(a), **options)
    w, v = w[where], v[where]
    p = v[..., -1:] @ v[..., -1:].mT
    weights = torch.arange(16, dtype=a.dtype).reshape(4, 4).cos()
    return (w**3).sum() + (bed.eigvalsh(a)[where] ** 2).sum() + (weights * p).sum()


KEPT = [0, 2]


@pytest.mark.parametrize("gradient", METHODS)
def test_gradient_is_zero_where_nothing_is_asked(batch, gradient):
    a = batch.clone().requires_grad_()
    (g,) = torch.autograd.grad(_loss(a, KEPT, gradient=gradient), a)
    alone = batch[KEPT].requires_grad_()
    (expected,) = torch.autograd.grad(_loss(alone, [0, 1], gradient=gradient), alone)
    assert (g[FAILED] == 0).all()
    close(g[KEPT], expected, 1e-12)


def test_selection_by_a_product_with_zero_counts_as_asking(batch):
    """As everywhere in torch: NaN times zero is NaN, and so is what is asked of it."""
    a = batch.clone().requires_grad_()
    w, v = bed.eigh(a)
    (g,) = torch.autograd.grad((w**2).sum() + (v**2).sum(), a)
    assert not g[FAILED].isfinite().all()
    assert g[KEPT].isfinite().all()


@pytest.mark.parametrize("gradient", METHODS)
def test_second_derivative_is_zero_too(batch, gradient):
    a = batch.clone().requires_grad_()
    loss = _loss(a, KEPT, gradient=gradient)
    (g,) = torch.autograd.grad(loss, a, create_graph=True)
    (h,) = torch.autograd.grad((g**2).sum(), a)
    assert (h[FAILED] == 0).all()
    assert h[KEPT].isfinite().all()
    assert (h[KEPT] != 0).any()


@pytest.mark.parametrize("gradient", METHODS)
def test_forward_mode(batch, gradient):
    direction = torch.ones_like(batch)
    direction[FAILED] = 0

    def along(a):
        return torch.func.jvp(
            lambda a: bed.eigh(a, gradient=gradient), (a,), (direction,)
        )[1]

    for tangent in (*along(batch), *along(batch * 1)):
        assert (tangent[FAILED] == 0).all()
        assert tangent[KEPT].isfinite().all()
    if not batch[FAILED].isfinite().all():  # nor are the eigenvectors, then
        direction[FAILED] = 1
        assert along(batch)[1][FAILED].isnan().any()


def test_hessian_and_mapped_gradients(batch):
    h = torch.func.hessian(lambda a: _loss(a, KEPT))(batch)
    assert (h[FAILED] == 0).all()
    assert (h[:, :, :, FAILED] == 0).all()
    assert h.isfinite().all()

    def masked(a, keep):
        w = bed.eigvalsh(a)
        return torch.where(keep, w, torch.zeros_like(w)).sum()

    keep = torch.tensor([True, False, True])
    g = torch.func.vmap(torch.func.grad(masked))(batch, keep)
    close(g, torch.eye(4, dtype=g.dtype) * keep[:, None, None], 1e-12)


def test_a_parameter_before_the_matrices(rng):
    """Its status says that it failed, and a loss that leaves it out must not see it."""
    x = torch.from_numpy(rng.standard_normal((5, 10, 4)))
    weight = torch.from_numpy(rng.standard_normal((4, 4))).requires_grad_()

    def gradient(x, keep):
        y = x @ weight
        w, _, status = bed.eigh(y.mT @ y, return_info=True)
        assert (status[keep] == 0).all()
        return torch.autograd.grad(w[keep].log().sum(), weight)[0], status

    expected, _ = gradient(x[[0, 1, 3, 4]], [0, 1, 2, 3])
    x[2] *= 1e160  # finite, and its covariance overflows
    found, status = gradient(x, [0, 1, 3, 4])
    assert status[2] == bed.Status.NOT_FINITE
    close(found, expected, 1e-12)
