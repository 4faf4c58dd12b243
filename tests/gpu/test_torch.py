"""torch tensors on a GPU: bits, devices, streams, gradients."""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian
from kernels import solve

# Cycles that a stream sleeps before it produces the input.
SLEEP = 50_000_000
# Eigenvalues of the matrices that are differentiated; the smallest gap is 1.
SPECTRUM = (-3.0, -1.0, 0.5, 2.0, 3.0, 5.0)


@pytest.fixture
def torch(torch_device):
    import torch

    return torch


def host(tensors):
    return tuple(x.cpu().resolve_conj().numpy() for x in tensors)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 8, 20, 40])
def test_tensors_go_in_and_come_back(rng, torch, torch_device, n, dtype):
    """The same bits as from CuPy, and back on their device."""
    a = random_hermitian(rng, (2, 3, n, n), dtype)
    there = torch.from_numpy(a).to(torch_device)
    for uplo in "LU":
        result = tuple(bed.eigh(there, uplo, return_info=True))
        for x in result:
            assert isinstance(x, torch.Tensor)
            assert x.device == there.device
        assert_same_bits(host(result), solve(a, uplo))
        values = host([bed.eigvalsh(there, uplo)])
        assert_same_bits(values, solve(a, uplo, vectors=False)[:1])
    conjugate = host(bed.eigh(there.mT.conj(), "L"))
    assert_same_bits(conjugate, solve(a)[:2])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(rng, torch, torch_device, name):
    x = torch.from_numpy(random_hermitian(rng, (5, 6, 6), "f4")).to(torch_device)
    half = x.to(getattr(torch, name))
    assert_same_bits(host(bed.eigh(half)), host(bed.eigh(half.float())))


def test_a_late_producer_on_another_stream(rng, torch, torch_device):
    """Input made late on a stream of torch, result used on that stream."""
    if torch_device == "cpu":
        pytest.skip("torch has no stream on the host")
    a = random_hermitian(rng, (500, 16, 16), "f4")
    expected = solve(a)
    there = torch.from_numpy(a).to("cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            late = torch.zeros_like(there)
            if hasattr(torch.cuda, "_sleep"):
                torch.cuda._sleep(SLEEP)
            late.copy_(there)
            copies = [x.clone() for x in bed.eigh(late)]
            stream.synchronize()
            assert_same_bits(host(copies), expected[:2])


def test_what_is_asked_for_a_gradient(torch, torch_device):
    a = torch.eye(3, device=torch_device, requires_grad=True)
    assert bed.eigh(a).eigenvalues.requires_grad
    with torch.no_grad():
        assert not bed.eigh(a).eigenvalues.requires_grad
    with pytest.raises(TypeError, match="dense tensor"):
        bed.eigh(torch.eye(3, device=torch_device).to_sparse())


@pytest.mark.parametrize("dtype", [np.dtype(x) for x in DTYPES], ids=str)
def test_gradients_are_those_of_the_host(rng, torch, torch_device, dtype):
    """Of Σ w³ + Re⟨C, P⟩, with P the projector on the two largest eigenvalues."""

    def gradient(a, c, device):
        x = torch.as_tensor(a, device=device).requires_grad_()
        w, v = bed.eigh(x)
        top = v[..., -2:]
        product = torch.as_tensor(c, device=device).conj() * (top @ top.mH)
        loss = (w**3).sum() + product.sum().real
        return host(torch.autograd.grad(loss, x))[0]

    a = planted(rng, np.tile(SPECTRUM, (3, 1)), dtype)
    c = random_hermitian(rng, a.shape, dtype)
    wide = np.dtype("c16" if dtype.kind == "c" else "f8")
    found = gradient(a, c, torch_device)
    truth = gradient(a.astype(wide), c.astype(wide), "cpu")
    assert abs(found - truth).max() <= 200 * np.finfo(dtype).eps * abs(truth).max()
    x = torch.eye(4, dtype=getattr(torch, dtype.name), device=torch_device)
    x.requires_grad_()
    (g,) = torch.autograd.grad(bed.eigvalsh(x).sum(), x)
    assert torch.equal(g, x.detach())
