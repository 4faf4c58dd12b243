"""torch differentiates the solvers, exactly and in every mode that it has."""

import numpy as np
import pytest

import bed
from torch_losses import close, hermitian, invariant_loss, invariants, matrix, separated

torch = pytest.importorskip("torch")
fwd = torch.autograd.forward_ad
func = torch.func

DOUBLE = ("f8", "c16")
# torch's own: its forward mode compiles something with torch.jit when first used, and
# its vmap says which of its operations it runs one by one.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("uplo", "LU")
def test_first_derivatives(rng, dtype, uplo):
    x = separated(rng, dtype).requires_grad_()
    both = invariants(bed.eigh, UPLO=uplo)
    assert torch.autograd.gradcheck(both, x, check_forward_ad=True)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_second_derivatives(rng, dtype):
    x = separated(rng, dtype, n=3).requires_grad_()
    both = invariants(bed.eigh)
    assert torch.autograd.gradgradcheck(both, x, check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_eigenvalues_alone(rng, dtype):
    x = separated(rng, dtype, n=3).requires_grad_()

    def values(x):
        return bed.eigvalsh(hermitian(x))

    assert torch.autograd.gradcheck(values, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(values, x, check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_forward_mode_is_the_transpose_of_backward(rng, dtype):
    x, dx = separated(rng, dtype), separated(rng, dtype)
    with fwd.dual_level():
        w, v = bed.eigh(fwd.make_dual(x, dx))
        (w, dw), (v, dv) = fwd.unpack_dual(w), fwd.unpack_dual(v)
    assert dw.shape == w.shape
    assert dv.shape == v.shape
    grad_w, grad_v = torch.ones_like(w), v * w[..., None, :] @ torch.ones_like(v)
    # A phase-invariant direction: what is along the phases is taken out.
    phases = torch.diag_embed((v.mH @ grad_v).diagonal(dim1=-2, dim2=-1))
    grad_v = grad_v - v @ phases
    x.requires_grad_()
    (g,) = torch.autograd.grad(bed.eigh(x), x, (grad_w, grad_v))
    there = (grad_w * dw).sum() + (grad_v.conj() * dv).sum().real
    close((g.conj() * dx).sum().real, there)


TRANSFORMS = {
    "grad": func.grad,
    "jacrev": func.jacrev,
    "jacfwd": func.jacfwd,
    "hessian": func.hessian,
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(f)),
    "jacrev of jacrev": lambda f: func.jacrev(func.jacrev(f)),
    "jacrev of jacfwd": lambda f: func.jacrev(func.jacfwd(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(rng, name):
    x = separated(rng, "f8", (), n=3)
    # Some combinations give NaN with torch's own.
    reference = "hessian" if "of" in name else name
    expected = TRANSFORMS[reference](invariant_loss(torch.linalg.eigh))(x)
    close(TRANSFORMS[name](invariant_loss(bed.eigh))(x), expected, 1e-9)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_vmap(rng, dtype):
    x = separated(rng, dtype, (3, 2))
    solve = func.vmap(bed.eigh, in_dims=1)
    for got, expected in zip(solve(x), bed.eigh(x.movedim(1, 0)), strict=True):
        close(got, expected, 0)
    gradient = func.grad(invariant_loss(bed.eigh))
    by_one = torch.stack([gradient(m) for m in x.flatten(0, 1)]).reshape(x.shape)
    per_matrix = func.vmap(func.vmap(gradient))
    close(per_matrix(x), by_one)
    total = func.grad(lambda x: func.vmap(func.vmap(invariant_loss(bed.eigh)))(x).sum())
    close(total(x), by_one)
    outside = func.vmap(lambda s: bed.eigvalsh(x) * s)  # x is not mapped
    close(outside(torch.ones(2, dtype=torch.float64))[1], bed.eigvalsh(x), 0)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_jvp_and_vjp(rng, dtype):
    x, dx = separated(rng, dtype), hermitian(separated(rng, dtype) ** 2)
    ours, theirs = (invariants(f) for f in (bed.eigh, torch.linalg.eigh))
    for one, other in zip(
        func.jvp(ours, (x,), (dx,)), func.jvp(theirs, (x,), (dx,)), strict=True
    ):
        for got, expected in zip(one, other, strict=True):
            close(got, expected)
    outputs, pull = func.vjp(ours, x)
    _, pull_theirs = func.vjp(theirs, x)
    back = tuple(torch.sin(y) for y in outputs)
    close(pull(back)[0], pull_theirs(back)[0])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_sum_of_eigenvalues_at_the_identity(dtype):
    x = torch.from_numpy(3 * np.tile(np.eye(4, dtype=dtype), (2, 1, 1)))
    for values in (bed.eigvalsh, lambda x: bed.eigh(x).eigenvalues):
        x = x.detach().requires_grad_()
        values(x).sum().backward()
        close(x.grad, torch.eye(4, dtype=x.dtype).expand(2, 4, 4), 0)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_eigenvalues_that_repeat(rng, dtype):
    x = matrix(rng, [-1.0, -1.0, 0.5, 0.5, 0.5, 2.0], dtype).requires_grad_()
    (g,) = torch.autograd.grad((bed.eigvalsh(x) ** 3).sum(), x)
    close(g, (3 * x @ x).detach(), 1e-13)  # the loss is tr A³
    (g,) = torch.autograd.grad(
        torch.linalg.matrix_power(_rebuilt(x), 3).trace().real, x
    )
    close(g, (3 * x @ x).detach(), 1e-12)


def _rebuilt(x):
    w, v = bed.eigh(x)
    return (v * w.unsqueeze(-2)) @ v.mH


@pytest.mark.parametrize("dtype", DOUBLE)
def test_projector_of_the_top_vector(rng, dtype):
    x = matrix(rng, [-1 / 3, -1 / 3, -1 / 3, 1], dtype).requires_grad_()
    c = separated(rng, dtype, ())
    v = bed.eigh(x).eigenvectors[:, -1:]
    (g,) = torch.autograd.grad((v.mH @ c @ v).real.sum(), x)
    p = (v @ v.mH).detach()
    q = torch.eye(4, dtype=p.dtype) - p  # one gap, 4/3, to all the rest
    close(g, (p @ c @ q + q @ c @ p) / (4 / 3), 1e-13)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0.0])
def test_gradients_at_small_gaps(rng, gap):
    x = matrix(rng, [1, 1 + gap, 2.0, 3.0]).requires_grad_()
    v = bed.eigh(x).eigenvectors
    c = separated(rng, "f8", ())
    (g,) = torch.autograd.grad((v * c).sum(), x, retain_graph=True)
    assert g.isfinite().all()
    pair, rest = v[:, :2], v[:, 2:]
    (g,) = torch.autograd.grad(((pair @ pair.mT) * c).sum(), x)
    # To first order in the gap the pair is one eigenspace: P′ = Σ over the others.
    w = torch.tensor([2.0, 3.0], dtype=x.dtype)
    p, r = (pair @ pair.mT).detach(), rest.detach()
    half = p @ c @ (r / (1 - w)) @ r.mT
    # What is known of the pair's own inner derivative, zero, is rounding over the gap.
    noise = 1e-14 / gap if gap > 1e-14 else 0
    close(g, half + half.mT, 1e-12 + 10 * gap + noise)


def test_a_loss_of_eigenvalues_has_no_gaps_to_divide_by(rng, monkeypatch):
    from bed.autograd.torch import _function as rules

    def record(w, v, grad_w, grad_v, **options):
        gradients.append(grad_v)
        return torch.zeros_like(v)

    def record_at_once(library, w, v, grad_w, grad_v, driver):
        return record(w, v, grad_w, grad_v)

    gradients = []
    monkeypatch.setattr(rules, "eigh_vjp", record)
    monkeypatch.setattr(rules.matfun, "eigh_vjp", record_at_once)
    x = separated(rng, "f8").requires_grad_()
    bed.eigh(x).eigenvalues.sum().backward()
    loss = bed.eigh(x).eigenvalues.sum()
    torch.autograd.grad(loss, x, create_graph=True)
    assert gradients == [None, None]


def test_matrices_with_nan_keep_it_to_themselves(rng):
    x = separated(rng, "f8", (3,))
    (expected,) = torch.autograd.grad(invariant_loss(bed.eigh)(x.requires_grad_()), x)
    x = x.detach().clone()
    x[1, 2, 0] = torch.nan
    x.requires_grad_()
    (g,) = torch.autograd.grad(invariant_loss(bed.eigh)(x), x)
    assert g[1].isnan().all()
    close(g[::2], expected[::2])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_tensors(rng, name):
    dtype = getattr(torch, name)
    x = separated(rng, "f4").to(dtype).requires_grad_()
    w, v = bed.eigh(x)
    assert w.dtype == v.dtype == torch.float32
    (w**2).sum().backward()
    assert x.grad.dtype == dtype
    close(x.grad, (2 * x).detach(), 4 * torch.finfo(dtype).eps)
    one = torch.eye(4, dtype=dtype).expand(2, 4, 4)
    _, dw = func.jvp(bed.eigvalsh, (x.detach(),), (one,))
    close(dw, torch.ones_like(w), 1e-6)


def test_autocast_does_not_reach_the_derivative(rng):
    x = separated(rng, "f4")
    with torch.no_grad():
        dx = x @ x
    gradients = []
    for enabled in (False, True):
        x = x.detach().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            w, v = bed.eigh(x)
            (g,) = torch.autograd.grad((v.cos() * w.unsqueeze(-2)).sum(), x)
            _, (dw, dv) = func.jvp(bed.eigh, (x.detach(),), (dx,))
        gradients.append((w, v, g, dw, dv))
    for plain, cast in zip(*gradients, strict=True):
        close(cast, plain, 0)


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("leading", [(), (0,), (2, 1, 3)])
def test_gradient_fills_both_triangles(rng, uplo, leading):
    x = separated(rng, "c16", leading)
    other = torch.triu(x, 1) if uplo == "L" else torch.tril(x, -1)
    junk = (x + 7 * other + 3j * torch.eye(4)).requires_grad_()  # none of it is read
    w, v = bed.eigh(junk, uplo)
    loss = (w**2).sum() + (v.abs() ** 4).sum()
    (g,) = torch.autograd.grad(loss, junk)
    assert g.shape == x.shape
    close(g, g.mH)
    x.requires_grad_()
    w, v = torch.linalg.eigh(x)
    close(g, torch.autograd.grad((w**2).sum() + (v.abs() ** 4).sum(), x)[0])


def test_no_matrices_of_size_zero_or_one():
    x = torch.ones((2, 0, 0), requires_grad=True)
    w, v = bed.eigh(x)
    assert torch.autograd.grad(w.sum() + v.sum(), x)[0].shape == (2, 0, 0)
    x = torch.full((2, 1, 1), 3.0, requires_grad=True)
    w, v = bed.eigh(x)
    close(torch.autograd.grad((w**2).sum() + v.sum(), x)[0], torch.full_like(x, 6))


def test_options(rng):
    x = separated(rng, "f8").requires_grad_()
    w, v, status = bed.eigh(x, driver="lapack", return_info=True)
    assert w.requires_grad
    assert v.requires_grad
    assert not status.requires_grad
    assert status.dtype == torch.int32
    values, status = bed.eigvalsh(x, driver="lapack", return_info=True)
    assert torch.equal(values, w)
    assert values.requires_grad
    assert not status.requires_grad
    with pytest.raises(ValueError, match="driver='none' is unknown"):
        bed.eigh(x, driver="none")
    with pytest.raises(ValueError, match="UPLO must be"):
        bed.eigvalsh(x, "X")
    with pytest.raises(np.linalg.LinAlgError, match="1 of 1 matrices failed"):
        bed.eigh(x[:1] * torch.nan, check=True)
    with pytest.raises(np.linalg.LinAlgError, match="not Hermitian"):
        bed.eigh(x.tril(), check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(2, 4\)"):
        bed.eigh(x[:, 0])
    assert "numba_cpu" in str(bed.explain(x))


@pytest.mark.parametrize("which", [0, 1])
def test_writing_into_a_result_is_noticed(rng, which):
    x = separated(rng, "f8").requires_grad_()
    result = bed.eigh(x)
    loss = (result.eigenvectors**3).sum()
    with torch.no_grad():
        result[which].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writing_into_eigenvalues_leaves_their_gradient(rng):
    x = separated(rng, "f8").requires_grad_()
    w = bed.eigvalsh(x)
    w *= 2
    w.sum().backward()
    close(x.grad, 2 * torch.eye(4, dtype=x.dtype).expand(2, 4, 4), 1e-14)


def test_vectorized_jacobian(rng):
    x = separated(rng, "f8", (), n=3)

    def values(x):
        return bed.eigh(hermitian(x)).eigenvalues

    vectorized = torch.autograd.functional.jacobian(values, x, vectorize=True)
    close(vectorized, torch.autograd.functional.jacobian(values, x))
