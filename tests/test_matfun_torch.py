"""Functions of matrices under torch: derivatives of every order, modes and programs."""

import mpmath
import numpy as np
import pytest
import torch

import bed
from bed import Status
from bed.testing.checks import assert_same_bits

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

NAMED = {
    "sqrtm": bed.sqrtm,
    "invsqrtm": bed.invsqrtm,
    "logm": bed.logm,
    "expm": bed.expm,
    "powm": lambda a, **options: bed.powm(a, 0.3, **options),
    "cube": lambda a, **options: bed.powm(a, 3, **options),
    "inverse": lambda a, **options: bed.powm(a, -1, **options),
    "absm": bed.absm,
    "signm": bed.signm,
    "clampm": lambda a, **options: bed.clampm(a, 0.35, 1.6, **options),
    "pair": lambda a, **options: sum(bed.sqrtm_invsqrtm(a, **options)[:2]),
    "floor": lambda a, **options: bed.logm(a, floor=5e14, **options),  # at 0.33 to 0.67
    "funm": lambda a, **options: bed.funm(a, torch.tanh, **options),
}
DTYPES = [torch.float64, torch.complex128]
SPECTRA = {
    "identity": (1, 1, 1),
    "pair": (1, 1, 2),
    "apart": (0.2, 1, 2),
    **{f"gap {gap:g}": (1, 1 + gap, 2) for gap in (1e-14, 1e-10, 1e-6, 1e-3, 1e-1)},
}


def herm(a):
    return (a + a.mH) / 2


def with_eigenvalues(w, dtype=torch.float64, signs=False):
    w = torch.tensor(w, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(len(w), len(w), dtype=dtype, generator=generator)
    basis, _ = torch.linalg.qr(basis)
    return (basis * (w - 1.5 if signs else w)) @ basis.mH


@pytest.mark.share(2)
@pytest.mark.sweep(12)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", NAMED)
def test_first_and_second_derivatives(name, spectrum, dtype):
    """Away from the kinks of abs, sign and clamp, by finite differences of torch."""
    if (name, spectrum) == ("floor", "apart"):
        pytest.skip("the floor counts as a constant, and moves what it lifts")
    a = with_eigenvalues(SPECTRA[spectrum], dtype, name in ("absm", "signm"))
    a.requires_grad_()

    def f(x):
        return NAMED[name](herm(x))

    torch.autograd.gradcheck(f, a, check_forward_ad=True, atol=1e-5)
    torch.autograd.gradgradcheck(f, a, atol=1e-4)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", ["sqrtm", "expm", "powm", "funm"])
def test_modes_in_one_another(name):
    a = with_eigenvalues((1, 1, 2)).requires_grad_()

    def f(x):
        return NAMED[name](herm(x))

    torch.autograd.gradcheck(f, a, check_batched_grad=True, atol=1e-5)
    torch.autograd.gradgradcheck(f, a, atol=1e-4, check_fwd_over_rev=True)
    c = torch.randn(3, 3, dtype=torch.float64)

    def loss(x):
        return (f(x) * c).sum() ** 2

    x = a.detach()
    backward, forward = torch.func.jacrev, torch.func.jacfwd
    expected = backward(backward(loss))(x)
    for outer, inner in ((forward, backward), (backward, forward), (forward, forward)):
        torch.testing.assert_close(outer(inner(loss))(x), expected)


def test_a_spectral_function_at_a_repeated_eigenvalue():
    """⟨C, A^½⟩ at I has the gradient C/2, whichever basis the eigenvectors are."""
    c = herm(torch.randn(4, 4, dtype=torch.float64))
    a = torch.eye(4, dtype=torch.float64, requires_grad=True)
    (bed.sqrtm(a) * c).sum().backward()
    torch.testing.assert_close(a.grad, c / 2)


@pytest.mark.parametrize("n", [1, 2, 4, 9])
def test_the_hessian_of_the_trace_of_exp_at_the_identity(n):
    """Along D and E it is e·tr(D E), within what is promised of eigenvalues."""
    d, e = (herm(torch.randn(n, n, dtype=torch.float64)) for _ in "de")
    a = torch.eye(n, dtype=torch.float64, requires_grad=True)
    loss = bed.expm(a).diagonal(dim1=-2, dim2=-1).sum()
    (g,) = torch.autograd.grad(loss, a, create_graph=True)
    (h,) = torch.autograd.grad((g * d).sum(), a)
    bound = 8 * n * torch.finfo(torch.float64).eps * np.e * d.norm() * e.norm()
    assert abs((h * e).sum() - np.e * (d * e).sum()) <= bound


@pytest.mark.parametrize("gap", [0, 1e-14, 1e-12, 1e-8, 1e-4, 1e-1])
def test_a_gradient_against_fifty_digits(gap):
    """⟨C, A^-½⟩ with two eigenvalues that are nearly one."""
    c = herm(torch.randn(3, 3, dtype=torch.float64))
    e = herm(torch.randn(3, 3, dtype=torch.float64))
    a = with_eigenvalues((1, 1 + gap, 2)).requires_grad_()
    (bed.invsqrtm(a) * c).sum().backward()
    with mpmath.workdps(50):
        exact, step = mpmath.matrix(herm(a.detach()).tolist()), mpmath.mpf(10) ** -16

        def loss(t):
            x = exact + t * mpmath.matrix(e.tolist())
            w, v = mpmath.eigsy(x)
            root = v * mpmath.diag([1 / mpmath.sqrt(y) for y in w]) * v.T
            products = mpmath.matrix(c.tolist()) * root
            return sum(products[i, i] for i in range(3))

        slope = float((loss(step) - loss(-step)) / (2 * step))
    found = (a.grad * e).sum().item()
    assert abs(found - slope) <= 1e-14 * (c.norm() * e.norm()).item()


@pytest.mark.parametrize("name", NAMED)
def test_neighbours_change_no_bit_of_a_gradient(name):
    a = with_eigenvalues((0.7, 1, 2), signs=name in ("absm", "signm"))
    g = torch.randn(3, 3, dtype=torch.float64)

    def gradient(x, g):
        x = x.clone().requires_grad_()
        return torch.autograd.grad((NAMED[name](x) * g).sum(), x)[0]

    together = torch.stack([a, a * torch.nan, 1e6 * torch.eye(3, dtype=a.dtype), a])
    found = gradient(together, torch.stack([g] * 4))
    for i in (0, 3):
        assert_same_bits(found[i].numpy(), gradient(a, g).numpy())
    assert found[1].isnan().all()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["sqrtm", "logm", "pair"])
def test_what_failed_is_left_out(name, order):
    """Of the first one the loss is made; the others are outside of the domain."""
    eye = torch.eye(2, dtype=torch.float64)
    bad = torch.diag(torch.tensor([1.0, -2.0], dtype=torch.float64))
    a = torch.stack([eye, bad, eye * torch.nan]).requires_grad_()
    loss = NAMED[name](a)[0].sum()
    (g,) = torch.autograd.grad(loss, a, create_graph=order == 2)
    if order == 2:
        (g,) = torch.autograd.grad((g[0] ** 2).sum(), a)
    assert g[0].isfinite().all() and (g[1:] == 0).all()


def test_a_matrix_that_counts_and_failed_has_no_gradient():
    a = torch.diag(torch.tensor([1.0, -2.0])).requires_grad_()
    result, status = bed.logm(a, return_info=True)
    assert status == Status.DOMAIN
    (g,) = torch.autograd.grad(result.sum(), a)
    assert g.isnan().all()
    with pytest.raises(torch.linalg.LinAlgError, match="domain"):
        bed.logm(a, check=True)


def test_matrices_without_entries_have_second_derivatives():
    a = torch.zeros(0, 0, dtype=torch.float64)
    for f in (bed.sqrtm, lambda x: bed.eigh(x)[0]):
        hessian = torch.func.hessian(lambda x, f=f: f(x).sum())(a)
        assert hessian.shape == (0, 0, 0, 0)


def test_what_a_floor_lifts_does_not_move():
    a = with_eigenvalues((1e-9, 1, 2)).requires_grad_()
    floor = 1e-3 / (3 * torch.finfo(a.dtype).eps * 2)  # the smallest becomes 1e-3
    w = torch.linalg.eigvalsh(bed.invsqrtm(a, floor=floor))
    torch.testing.assert_close(w[-1].item(), 1e-3**-0.5)
    _, v = torch.linalg.eigh(a.detach())
    (g,) = torch.autograd.grad(w[-1], a)
    assert abs(v[:, 0] @ g @ v[:, 0]) < 1e-9


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_single_precision(dtype):
    a = with_eigenvalues((0.5, 1, 2)).to(dtype).requires_grad_()
    result = bed.sqrtm(a)
    assert result.dtype == torch.float32
    result.sum().backward()
    assert a.grad.dtype == dtype


def test_autocast_stays_out_of_the_products():
    a = with_eigenvalues((0.5, 1, 2)).float()
    expected = torch.func.hessian(lambda x: bed.logm(x).sum())(a)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.func.hessian(lambda x: bed.logm(x).sum())(a)
    assert_same_bits(found.numpy(), expected.numpy())


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", sorted(NAMED.keys() - {"funm"}))
def test_a_compiled_program(name):
    a = with_eigenvalues((0.5, 1, 2), signs=name in ("absm", "signm"))
    g = torch.randn(3, 3, dtype=torch.float64)

    def loss(x):
        return (NAMED[name](x) * g).sum()

    torch._dynamo.reset()  # its limit counts programs by their source
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    pairs = []
    for f in (loss, compiled):
        x = a.clone().requires_grad_()
        value = f(x)
        pairs.append((value.detach(), torch.autograd.grad(value, x)[0]))
    torch.testing.assert_close(pairs[1], pairs[0], rtol=0, atol=1e-14)
    gradient = torch.compile(torch.func.grad(loss), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(gradient(a), pairs[0][1], rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("ignore:.torch.jit.trace")
def test_other_tracers_record_operators():
    from torch.fx.experimental.proxy_tensor import make_fx

    a = with_eigenvalues((0.5, 1, 2))
    expected = bed.sqrtm(a)
    graph = make_fx(lambda x: bed.sqrtm(x))(a)
    assert "bed.spectral" in graph.code
    assert_same_bits(graph(a).numpy(), expected.numpy())

    class Root(torch.nn.Module):
        def forward(self, x):
            return bed.sqrtm(x)

    program = torch.export.export(Root(), (a,)).module()
    assert_same_bits(program(a).numpy(), expected.numpy())
    traced = torch.jit.trace(lambda x: bed.sqrtm(x), a)
    assert_same_bits(traced(a).numpy(), expected.numpy())
    assert bed.sqrtm(a.to("meta")).shape == (3, 3)
    with torch._subclasses.FakeTensorMode() as mode:
        assert bed.logm(mode.from_tensor(a)).dtype == torch.float64
    with pytest.raises(torch.linalg.LinAlgError):
        bed.sqrtm(torch.ones(2, 3, device="meta"))


def test_recorded_functions_of_a_caller_are_refused():
    a = with_eigenvalues((0.5, 1, 2))
    compiled = torch.compile(lambda x: bed.funm(x, torch.exp), backend="eager")
    with pytest.raises(NotImplementedError, match="named function"):
        compiled(a)


def test_numbers_that_are_symbols_of_a_program():
    """With ``dynamic=True`` torch keeps floats of Python open."""
    a = with_eigenvalues((0.5, 1, 2))

    def f(a, x):
        return bed.sqrtm(a, floor=x) + bed.powm(a, x) + bed.clampm(a, x, 1 + x)

    compiled = torch.compile(f, fullgraph=True, dynamic=True, backend="aot_eager")
    for x in (0.25, 0.75):
        torch.testing.assert_close(compiled(a, x), f(a, x), rtol=0, atol=0)


def test_parameters_of_a_function_have_gradients():
    a = with_eigenvalues((0.5, 1, 2)).requires_grad_()
    p = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def f(a, p):
        return bed.funm(herm(a), lambda x: x**p)

    torch.autograd.gradcheck(f, (a, p), check_forward_ad=True)

    (expected,) = torch.autograd.grad(f(a, p).sum(), p)
    (found,) = torch.autograd.grad(f(a.detach(), p).sum(), p)
    assert found == expected

    def slope(p):
        (g,) = torch.autograd.grad((f(a, p) ** 2).sum(), a, create_graph=True)
        return (g * g).sum()

    torch.autograd.gradcheck(slope, (p,))
    (by_p,) = torch.autograd.grad((f(a, p) ** 2).sum(), p, create_graph=True)
    with pytest.raises(NotImplementedError, match="matrix first"):
        torch.autograd.grad(by_p, a)


def test_derivatives_that_a_caller_gives_are_used():
    a = with_eigenvalues((1, 1, 2)).requires_grad_()
    calls = []

    def df(x):
        calls.append(1)
        return torch.exp(x)

    def d2f(x):
        calls.append(2)
        return torch.exp(x)

    def second(*given):
        (g,) = torch.autograd.grad(
            bed.funm(a, torch.exp, *given).sum(), a, create_graph=True
        )
        return torch.autograd.grad((g**2).sum(), a)[0]

    torch.testing.assert_close(second(df, d2f), second())
    assert set(calls) == {1, 2}


@pytest.mark.parametrize("gradient_of", ["w", "v", "both"])
def test_the_gradient_of_eigh_is_that_of_its_operations(gradient_of):
    """At once it is the engine's, and differentiable it is torch's operations."""
    a = with_eigenvalues((0.3, 1, 2, 2.5), torch.complex128).requires_grad_()
    w, v = bed.eigh(a)
    c = torch.randn(4, 4, dtype=torch.float64)
    loss = (w * c[0]).sum() if gradient_of != "v" else 0
    if gradient_of != "w":
        loss = loss + (abs(v) ** 2 * c).sum()
    (at_once,) = torch.autograd.grad(loss, a, retain_graph=True)
    (operations,) = torch.autograd.grad(loss, a, create_graph=True)
    torch.testing.assert_close(at_once, operations.detach(), rtol=0, atol=1e-14)
