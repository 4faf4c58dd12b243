"""What is handed over to bed and back: by interface, on another device, to be learnt.

The numbers in brackets are those of the reported faults in tests/test_cases_interop.py.
"""

import gc

import cupy
import numpy as np

import bed
from bed.testing.matrices import planted

from ._cases import ALL_DTYPES, hermitian
from ._device import get, put, solve, synchronize

SIZES = (3, 16, 40)
CALLS = 10_000
# Eigenvalues of the matrices that are differentiated; the smallest gap is 1.
SPECTRUM = (-3.0, -1.0, 0.5, 2.0, 3.0, 5.0)


class Interface:
    """A CUDA array interface and nothing else."""

    def __init__(self, array, **changed):
        self.array = array  # lives as long as what is lent
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | changed


def interfaces(run, part) -> None:
    """Bare CUDA array interfaces, strides told and null (C65)."""
    for dtype in ALL_DTYPES:
        for n in SIZES:
            a = hermitian(run.rng("interface", n, dtype), 12, n, dtype)
            there = put(a.reshape(3, 4, n, n))
            what = f"interface, n = {n}, {dtype}"
            with part.attempt(what):
                for uplo in "LU":
                    expected = solve(there, uplo)
                    found = solve(Interface(there, strides=None), uplo)
                    part.same(found, expected, f"{what}, null strides")
                    view = there[::2].swapaxes(2, 3)
                    expected = solve(view, uplo)
                    found = solve(Interface(view), uplo)
                    part.same(found, expected, f"{what}, strides of a view")


def kept(run, part) -> None:
    """Ten thousand hand-offs keep no memory of the device (C70)."""
    calls = CALLS // 100 if run.smoke else CALLS
    there = put(hermitian(run.rng("kept"), 4, 4, np.dtype("f4")))
    makers = {"CuPy": lambda: there, "interface": lambda: Interface(there)}
    torch = torch_with_a_device(part)
    if torch:
        tensor = torch.as_tensor(get(there), device="cuda")
        makers["torch"] = lambda: tensor
    for name, make in makers.items():
        with part.attempt(name):
            before = held(torch)
            for _ in range(calls):
                bed.eigh(make())
            synchronize()
            after = held(torch)
            part.expect(
                after <= before,
                f"{name}: {after - before} bytes more in use after {calls} calls",
            )


def held(torch) -> int:
    """Bytes that arrays of CuPy and torch occupy."""
    gc.collect()
    used = cupy.get_default_memory_pool().used_bytes()
    return used + (torch.cuda.memory_allocated() if torch else 0)


def second_device(run, part) -> None:
    """Arrays on a device that is not the current one are solved there (C68)."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        return part.notes.append("there is one device alone")
    torch = torch_with_a_device(part)
    for dtype in ALL_DTYPES:
        what = f"second device, {dtype}"
        with part.attempt(what):
            a = hermitian(run.rng("second", dtype), 9, 16, dtype)
            with cupy.cuda.Device(1):
                arrays = [put(a)]
            if torch:
                arrays.append(torch.as_tensor(a, device="cuda:1"))
            for there in arrays:
                before = cupy.cuda.Device().id
                result = bed.eigh(there)
                same = all(x.device == there.device for x in result)
                part.expect(same, f"{what}: results are elsewhere")
                part.expect(
                    cupy.cuda.Device().id == before, f"{what}: another is current"
                )
                with cupy.cuda.Device(1):
                    synchronize()
                    part.right(a, *host(result), what=what)


def host(arrays):
    """CuPy arrays or torch tensors, on the host."""
    return tuple(x.get() if hasattr(x, "get") else x.cpu().numpy() for x in arrays)


def gradients(run, part) -> None:
    """torch differentiates on the device as on the host."""
    torch = torch_with_a_device(part)
    if torch:
        gradients_on(torch, "cuda", run, part)


def gradients_on(torch, device, run, part) -> None:
    """The checks of `gradients` on a device, against float64 on the host."""
    for dtype in ALL_DTYPES:
        what = f"gradient, {dtype}"
        with part.attempt(what):
            rng = run.rng("gradient", dtype)
            a = planted(rng, np.tile(SPECTRUM, (3, 1)), dtype)
            c = hermitian(rng, 3, len(SPECTRUM), dtype)
            wide = np.dtype("c16" if dtype.kind == "c" else "f8")
            found = gradient(torch, a, c, device)
            truth = gradient(torch, a.astype(wide), c.astype(wide), "cpu")
            error = abs(found.astype(wide) - truth).max() / abs(truth).max()
            part.expect(
                error <= 200 * np.finfo(dtype).eps, f"{what}: off by {error:.3g}"
            )
            x = torch.eye(4, dtype=getattr(torch, dtype.name), device=device)
            x.requires_grad_()
            (g,) = torch.autograd.grad(bed.eigvalsh(x).sum(), x)
            part.expect(torch.equal(g, x.detach()), f"{what}: not 1 at the identity")


def gradient(torch, a, c, device) -> np.ndarray:
    """Of Σ w³ + Re⟨C, P⟩, with P the projector on the two largest eigenvalues."""
    x = torch.as_tensor(a, device=device).requires_grad_()
    w, v = bed.eigh(x)
    top = v[..., -2:]
    product = torch.as_tensor(c, device=device).conj() * (top @ top.mH)
    loss = (w**3).sum() + product.sum().real
    return torch.autograd.grad(loss, x)[0].cpu().resolve_conj().numpy()


def torch_with_a_device(part):
    """torch, or None and a note."""
    try:
        import torch
    except ImportError:
        part.notes.append("torch is not installed")
        return None
    if not torch.cuda.is_available():
        part.notes.append("torch finds no CUDA device")
        return None
    return torch
