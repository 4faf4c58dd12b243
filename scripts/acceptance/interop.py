"""Arrays of torch and JAX, where these libraries are present."""

import numpy as np

import bed

from ._cases import ALL_DTYPES, hermitian
from ._device import put, solve

SIZES = (3, 8, 20, 40)
# Cycles that a torch stream sleeps before it produces the input.
SLEEP = 50_000_000


def torch_tensors(run, part) -> None:
    """torch tensors go in and come back, on their device and after their stream."""
    try:
        import torch
    except ImportError:
        return part.notes.append("torch is not installed")
    if not torch.cuda.is_available():
        return part.notes.append("torch finds no CUDA device")
    torch_on(torch, "cuda", run, part)


def torch_on(torch, device, run, part) -> None:
    """The checks of `torch_tensors` on a device."""
    for dtype in ALL_DTYPES:
        for n in SIZES:
            what = f"torch, n = {n}, {dtype}"
            with part.attempt(what):
                a = hermitian(run.rng(what), 6, n, dtype).reshape(2, 3, n, n)
                torch_both_ways(torch, part, a, torch.from_numpy(a).to(device), what)
    for name in ("float16", "bfloat16"):
        x = torch.from_numpy(hermitian(run.rng(name), 5, 6, np.dtype("f4"))).to(device)
        half = x.to(getattr(torch, name))
        with part.attempt(f"torch {name}"):
            found, wide = _host(bed.eigh(half)), _host(bed.eigh(half.float()))
            part.same(found, wide, f"torch {name}")
    if device == "cuda":
        with part.attempt("torch, another stream"):
            side_stream(torch, run, part)
    a = torch.eye(3, device=device, requires_grad=True)
    part.expect(bed.eigh(a).eigenvalues.requires_grad, "with a gradient")
    with torch.no_grad():
        part.expect(not bed.eigh(a).eigenvalues.requires_grad, "under no_grad")
    sparse = torch.eye(3, device=device).to_sparse()
    refused(part, lambda: bed.eigh(sparse), "dense tensor", "a sparse tensor")


def torch_both_ways(torch, part, a, there, what) -> None:
    """One tensor: same bits as from CuPy, and back in torch."""
    for uplo in "LU":
        result = tuple(bed.eigh(there, uplo, return_info=True))
        for x in result:
            right = isinstance(x, torch.Tensor) and x.device == there.device
            part.expect(right, f"{what}: {type(x)} on {getattr(x, 'device', '?')}")
        part.same(_host(result), solve(put(a), uplo), what)
        values = _host([bed.eigvalsh(there, uplo)])
        wanted = solve(put(a), uplo, vectors=False)[:1]
        part.same(values, wanted, f"{what}, values only")
    conjugate = _host(bed.eigh(there.mT.conj(), "L"))
    part.same(conjugate, solve(put(a))[:2], f"{what}, conjugate transpose")


def _host(tensors):
    return tuple(x.cpu().numpy() for x in tensors)


def side_stream(torch, run, part) -> None:
    """Input made late on a stream of torch, result used on that stream."""
    a = hermitian(run.rng("side"), 500, 16, np.dtype("f4"))
    expected = solve(put(a))
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
            found = tuple(x.cpu().numpy() for x in copies)
            part.same(found, expected[:2], "torch, another stream")


def jax_arrays(run, part) -> None:
    """JAX arrays go in and come back on their device."""
    try:
        import jax
    except ImportError:
        return part.notes.append("jax is not installed")
    if jax.default_backend() != "gpu":
        return part.notes.append(f"jax runs on {jax.default_backend()} alone")
    jax_on(jax, run, part)


def jax_on(jax, run, part) -> None:
    """The checks of `jax_arrays` on JAX's default device."""
    for dtype in ALL_DTYPES:
        if jax.numpy.zeros(1, dtype).dtype != dtype:
            part.notes.append(f"JAX has no {dtype} here: JAX_ENABLE_X64 is off")
            continue
        for n in SIZES:
            what = f"jax, n = {n}, {dtype}"
            with part.attempt(what):
                a = hermitian(run.rng(what), 6, n, dtype).reshape(2, 3, n, n)
                jax_both_ways(jax, part, a, what)
    for name in ("float16", "bfloat16"):
        half = jax.numpy.asarray(hermitian(run.rng(name), 5, 6, np.dtype("f4")), name)
        with part.attempt(f"jax {name}"):
            found = tuple(np.asarray(x) for x in bed.eigh(half))
            wide = solve(put(np.asarray(half.astype("float32"))))
            part.same(found, wide[:2], f"jax {name}")


def jax_both_ways(jax, part, a, what) -> None:
    """One array: same bits as from CuPy, and back in JAX."""
    there = jax.numpy.asarray(a)
    for uplo in "LU":
        result = tuple(bed.eigh(there, uplo, return_info=True))
        for x in result:
            right = isinstance(x, jax.Array) and x.devices() == there.devices()
            part.expect(right, f"{what}: {type(x)}")
        found = tuple(np.asarray(x) for x in result)
        part.same(found, solve(put(a), uplo), what)
        late = there + 0  # made by JAX just before, on its own stream
        found = np.asarray(bed.eigvalsh(late, uplo))
        wanted = solve(put(a + 0), uplo, vectors=False)[0]
        part.same(found, wanted, f"{what}, values only")


def refused(part, call, words, what) -> None:
    """Either the call works, or it raises the error that bed documents."""
    try:
        call()
    except TypeError as error:
        part.expect(words in str(error), f"{what}: {error}")
    except Exception as error:
        part.expect(False, f"{what}: {type(error).__name__}: {error}")
    else:
        part.notes.append(f"{what} is accepted")
