"""Derivatives of `bed.eigh(a, b=b)` with respect to both matrices, and under torch."""

import mpmath
import numpy as np
import pytest

import bed
from bed._derivative.generalized import eigh_generalized_jvp, eigh_generalized_vjp
from bed.testing.matrices import planted, random_hermitian
from torch_losses import close, hermitian

torch = pytest.importorskip("torch")
func = torch.func

DOUBLE = ("f8", "c16")
DIGITS, STEP = 50, mpmath.mpf("1e-20")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]


def pair(rng, dtype, w=(-1.0, 0.5, 2.0), leading=()):
    """S diag(w) Sᴴ and S Sᴴ, whose eigenvalues are `w`."""
    n = len(w)
    s = planted(rng, np.broadcast_to(np.linspace(1, 2, n), (*leading, n)), dtype)
    s = s @ planted(rng, np.broadcast_to(np.linspace(1, 1.5, n), (*leading, n)), dtype)
    sh = s.conj().swapaxes(-1, -2)
    return hermitian_part(s * np.asarray(w) @ sh), hermitian_part(s @ sh)


def hermitian_part(x):
    return (x + x.conj().swapaxes(-1, -2)) / 2


def tensors(*matrices):
    return [torch.from_numpy(x).requires_grad_() for x in matrices]


def definite(y):
    """A positive definite matrix from any square one."""
    return y @ y.mH / 4 + torch.eye(y.shape[-1], dtype=y.dtype)


def solve(x, y, **options):
    """A function of any two square matrices, whose results have derivatives."""
    return bed.eigh(hermitian(x), b=definite(y), signs="max", **options)


def exactly(a, b):
    """Eigenvalues and eigenvectors of matrices of mpmath, at its precision."""
    factor = mpmath.cholesky(b) ** -1
    w, u = mpmath.eighe(factor * a * factor.H)
    return w, factor.H * u


def difference(loss, a, b, da, db):
    """The derivative of ``loss(w, v)`` along (da, db), from exact eigenvalues."""
    a, b, da, db = (mpmath.matrix(x.tolist()) for x in (a, b, da, db))
    ends = [loss(*exactly(a + t * da, b + t * db)) for t in (STEP, -STEP)]
    return float(mpmath.re((ends[0] - ends[1]) / (2 * STEP)))


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("gap", [1e-6, 1e-3, 1.5])
def test_gradient_against_differences_in_fifty_digits(rng, dtype, gap):
    """Of eigenvalues, and of what does not depend on phases or close pairs."""
    a, b = pair(rng, dtype, w=(-1.0, 0.5, 0.5 + gap))
    da, db = random_hermitian(rng, (2, 3, 3), dtype)
    of_w, of_v = rng.standard_normal(3), rng.standard_normal((3, 2))

    x, y = tensors(a, b)
    w, v = bed.eigh(x, b=y)
    # The first vector, and the sum over the other two, who may be close.
    squares = v.abs() ** 2
    kept = torch.stack([squares[:, 0], squares[:, 1:].sum(dim=1)], dim=1)
    loss = (torch.from_numpy(of_w) * w.sin()).sum() + (
        torch.from_numpy(of_v) * kept
    ).sum()
    of_a, of_b = torch.autograd.grad(loss, (x, y))
    got = sum(
        float((g.conj() * torch.from_numpy(d)).real.sum())
        for g, d in ((of_a, da), (of_b, db))
    )

    def exact_loss(w, v):
        total = mpmath.fsum(of_w[i] * mpmath.sin(w[i]) for i in range(3))
        for i in range(3):
            sizes = [abs(v[i, j]) ** 2 for j in range(3)]
            total += of_v[i, 0] * sizes[0] + of_v[i, 1] * (sizes[1] + sizes[2])
        return total

    with mpmath.workdps(DIGITS):
        expected = difference(exact_loss, a, b, da, db)
    # What rounding makes of V is over the gap, but for the loss of values.
    assert abs(got - expected) <= 1e-12 / min(gap, 1)


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("w", [(1, 1, 2), (1, 1, 1), (-1, 2, 2)], ids=str)
def test_losses_of_repeated_eigenvalues_alone(rng, dtype, w):
    """Σ w³ is tr (B⁻¹A)³, whose gradients have closed forms."""
    a, b = pair(rng, dtype, w)
    x, y = tensors(a, b)
    gradients = torch.autograd.grad((bed.eigvalsh(x, b=y) ** 3).sum(), (x, y))
    quotient = np.linalg.solve(b, a)  # B⁻¹A
    inverse = np.linalg.inv(b)
    of_a = 3 * quotient @ quotient @ inverse
    of_b = -3 * quotient @ quotient @ quotient @ inverse
    for got, expected in zip(gradients, (of_a, of_b), strict=True):
        close(got, torch.from_numpy(hermitian_part(expected)), 1e-11)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_eigenspaces_of_repeated_eigenvalues(rng, dtype):
    """V₂V₂ᴴ of a pair of equal eigenvalues does not depend on its basis."""
    a, b = pair(rng, dtype, w=(1.0, 1.0, 3.0))
    da, db, weights = random_hermitian(rng, (3, 3, 3), dtype)
    x, y = tensors(a, b)
    _, v = bed.eigh(x, b=y)
    space = v[:, :2] @ v[:, :2].mH
    loss = (torch.from_numpy(weights).conj() * space).real.sum()
    of_a, of_b = torch.autograd.grad(loss, (x, y))
    got = sum(
        float((g.conj() * torch.from_numpy(d)).real.sum())
        for g, d in ((of_a, da), (of_b, db))
    )
    c = mpmath.matrix(weights.tolist())

    def exact_loss(_, v):
        space = v[:, :2] * v[:, :2].H
        return mpmath.fsum(
            mpmath.re(mpmath.conj(c[i, j]) * space[i, j])
            for i in range(3)
            for j in range(3)
        )

    with mpmath.workdps(DIGITS):
        expected = difference(exact_loss, a, b, da, db)
    assert abs(got - expected) <= 1e-11


@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("gradient", ["exact", "taylor", "power_iteration"])
def test_jvp_is_the_transpose_of_vjp(rng, dtype, gradient):
    a, b = pair(rng, dtype, w=(0.5, 1.0, 2.0), leading=(2,))
    w, v = bed.eigh(a, b=b)
    da, db = random_hermitian(rng, (2, 2, 3, 3), dtype)
    grad_w, grad_v = rng.standard_normal(w.shape), random_hermitian(rng, v.shape, dtype)
    dw, dv = eigh_generalized_jvp(w, v, da, db, gradient=gradient)
    of_a, of_b = eigh_generalized_vjp(w, v, grad_w, grad_v, gradient=gradient)
    forward = (grad_w * dw).sum() + (grad_v.conj() * dv).real.sum()
    backward = (of_a.conj() * da).real.sum() + (of_b.conj() * db).real.sum()
    assert abs(forward - backward) <= 1e-12 * (1 + abs(forward))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_gradients_neither_overflow_nor_underflow(rng, scale):
    a, b = pair(rng, "f8")
    x, y = tensors(scale * a, b)
    w, v = bed.eigh(x, b=y)
    gradients = torch.autograd.grad((w / scale).sum() + (v**4).sum(), (x, y))
    x, y = tensors(a, b)
    w, v = bed.eigh(x, b=y)
    of_a, of_b = torch.autograd.grad(w.sum() + (v**4).sum(), (x, y))
    close(gradients[0] * scale, of_a)
    close(gradients[1], of_b)


@pytest.mark.parametrize("dtype", DOUBLE)
def test_every_mode_of_torch(rng, dtype):
    x, y = tensors(*random_hermitian(rng, (2, 2, 3, 3), dtype))
    check = {"check_forward_ad": True, "check_batched_grad": True}
    assert torch.autograd.gradcheck(solve, (x, y), **check)
    y = y[:1].detach().requires_grad_()  # broadcast
    assert torch.autograd.gradcheck(solve, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(solve, (x, y), check_fwd_over_rev=True)

    def values(x, y):
        return bed.eigvalsh(hermitian(x), b=definite(y), order="magnitude")

    assert torch.autograd.gradcheck(values, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(values, (x, y))


def test_one_of_two_is_differentiated_or_real(rng):
    x, y = random_hermitian(rng, (2, 3, 3), "c16")
    x, y = tensors(x.real.copy(), y)
    assert torch.autograd.gradcheck(solve, (x, y))
    assert torch.autograd.gradcheck(lambda x: solve(x, y.detach()), x)
    assert torch.autograd.gradcheck(lambda y: solve(x.detach(), y), y)
    dual = torch.autograd.forward_ad
    with dual.dual_level():
        tangent = torch.eye(3, dtype=torch.float64)
        w, _ = bed.eigh(dual.make_dual(x.detach(), tangent), b=2 * tangent)
        close(dual.unpack_dual(w).tangent, torch.full((3,), 0.5).double())


def _loss(x, y):
    w, v = solve(x, y, order="descending")
    weights = torch.arange(9.0, dtype=w.dtype).reshape(3, 3).cos()
    return (w**3).sum() + (weights * (v.real + v.imag if v.is_complex() else v)).sum()


@pytest.mark.parametrize("dtype", DOUBLE)
def test_programs_and_transforms_of_torch(rng, dtype):
    x, y = tensors(*random_hermitian(rng, (2, 3, 3), dtype))
    expected = torch.autograd.grad(_loss(x, y), (x, y))
    torch._dynamo.reset()
    compiled = torch.compile(_loss, fullgraph=True, backend="aot_eager")
    both = func.grad(_loss, argnums=(0, 1))
    x_, y_ = x.detach(), y.detach()
    for found in (
        torch.autograd.grad(compiled(x, y), (x, y)),
        both(x_, y_),
        torch.compile(both, backend="aot_eager")(x_, y_),
    ):
        for got, wanted in zip(found, expected, strict=True):
            close(got, wanted)
    torch._dynamo.reset()
    each = func.vmap(both, in_dims=(0, None))(torch.stack([x_, 2 * x_]), y_)
    close(each[0][0], expected[0])
    traced = torch.jit.trace(_loss, (x_, y_), check_trace=False)
    close(traced(2 * x_, y_), _loss(2 * x_, y_))
    from torch.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        close(make_fx(_loss, tracing_mode=mode)(x_, y_)(2 * x_, y_), _loss(2 * x_, y_))
    empty = bed.eigh(x_.to("meta"), b=y_.real.half().to("meta"), order="magnitude")
    assert [z.dtype for z in empty] == [torch.float64, x.dtype]
    if dtype == "f8":
        hessian = func.hessian(_loss, argnums=1)(x_, y_)
        close(hessian, hessian.permute(2, 3, 0, 1), 1e-9)


def test_half_types_and_their_gradients():
    a = torch.eye(2, dtype=torch.float16, requires_grad=True)
    b = (2 * torch.eye(2, dtype=torch.bfloat16)).requires_grad_()
    w = bed.eigvalsh(a, b=b)
    assert w.dtype == torch.float32
    of_a, of_b = torch.autograd.grad(w.sum(), (a, b))
    assert (of_a.dtype, of_b.dtype) == (a.dtype, b.dtype)
    assert of_a.tolist() == [[0.5, 0], [0, 0.5]]
    assert of_b.tolist() == [[-0.25, 0], [0, -0.25]]


def test_libraries_are_not_mixed_where_one_differentiates():
    x = torch.eye(2, requires_grad=True)
    with pytest.raises(TypeError, match="one of torch and one of numpy"):
        bed.eigh(x, b=np.eye(2))
    with pytest.raises(TypeError, match="one of numpy and one of torch"):
        bed.eigvalsh(np.eye(2), b=x)


def failing(rng):
    a, b = pair(rng, "f8", leading=(3,))
    b[1] = -b[1]
    return a, b


def test_a_failed_pair_that_is_left_out_has_gradient_zero(rng):
    x, y = tensors(*failing(rng))
    w, v, status = bed.eigh(x, b=y, return_info=True, signs="max", order="magnitude")
    assert status.tolist() == [0, bed.Status.NOT_DEFINITE, 0]
    good = status == 0
    for g in torch.autograd.grad(
        w[good].sum() + v[good].sum(), (x, y), retain_graph=True
    ):
        assert (g[1] == 0).all() and torch.isfinite(g).all() and (g[0] != 0).any()
    for g in torch.autograd.grad(w.sum() + v.sum(), (x, y)):
        assert torch.isnan(g[1]).all() and torch.isfinite(g[[0, 2]]).all()


def test_a_failed_pair_that_does_not_move_has_tangent_zero(rng):
    x, y = (z.detach() for z in tensors(*failing(rng)))
    moved = torch.ones_like(x)
    moved[1] = 0
    for tangents in ((moved, moved), (moved, torch.zeros_like(y))):
        _, (dw, dv) = func.jvp(lambda x, y: tuple(bed.eigh(x, b=y)), (x, y), tangents)
        assert (dw[1] == 0).all() and (dv[1] == 0).all() and torch.isfinite(dv).all()
