"""Whether every kernel is right, in seconds and with NumPy alone to judge."""

import importlib
from importlib.util import find_spec
from unittest import mock

import cupy
import numpy as np

import bed
from bed import engines
from bed._derivative import divided_differences
from bed._functions import Function, Spectral
from bed.engines.raw_cuda import _spectral_layouts

from ._cases import ALL_DTYPES, every_layout, hermitian
from ._device import engine, get, put

# Ends of blocks are met, and a block that is not full.
BATCH = 35
# Of a function and of its gradient, in n·eps of the largest there can be.
TOLERANCE = 32
SQRT = Spectral(Function.SQRT)


def kernels(run, part) -> None:
    """Every kernel once, and calls as users make them, in CuPy, torch and JAX."""
    for dtype in ALL_DTYPES[:1] if run.smoke else ALL_DTYPES:
        for vectors in (True, False):
            for n, layout in every_layout(dtype, vectors=vectors):
                with part.attempt(layout.expression):
                    solved(run, part, n, dtype, vectors)
                    if layout.rounds > 1:
                        in_rounds(run, part, n, dtype)
        for n in sizes_of_functions(dtype):
            with part.attempt(f"functions of {dtype} {n} × {n}"):
                functions(run, part, n, dtype)
    users(run, part)


def solved(run, part, n, dtype, vectors) -> None:
    """Both triangles, the other one unread, and a matrix with NaN among the others."""
    whole = hermitian(run.rng("kernels", n, dtype), BATCH, n, dtype)
    exact = np.linalg.eigvalsh(whole.astype("c16"))
    i, j = np.indices((n, n))
    for uplo in "LU":
        a = np.where(i < j if uplo == "L" else i > j, np.nan, whole).astype(dtype)
        a[BATCH // 2] = np.nan
        w, v, status = get(engine()(put(a), uplo, eigenvectors=vectors))
        good = np.arange(BATCH) != BATCH // 2
        part.expect(
            (status != 0).tolist() == (~good).tolist() and np.isnan(w[~good]).all(),
            f"{dtype} {n} × {n}, {uplo}: status {status.tolist()}",
        )
        results = w[good], None if v is None else v[good], exact[good]
        part.right(whole[good], *results, uplo, what=f"{dtype} {n} × {n}")


def in_rounds(run, part, n, dtype) -> None:
    """Eigenvalues by as few blocks as can be, as in large batches, and by many."""
    a = put(hermitian(run.rng("rounds", n, dtype), BATCH, n, dtype))
    launcher = importlib.import_module("bed.engines.raw_cuda.eigh")
    w, _, status = get(engine()(a, eigenvectors=False))
    with mock.patch.object(launcher, "FILLING", 1):
        again, _, status_again = get(engine()(a, eigenvectors=False))
    part.expect(
        np.array_equal(w, again) and not status.any() and not status_again.any(),
        f"{dtype} {n} × {n}: eigenvalues of another round have other bits",
    )


def sizes_of_functions(dtype) -> list[int]:
    """The largest n of every kernel of theirs."""
    found = {}
    for n in range(1, _spectral_layouts.MAX_N + 1):
        for layout in (
            _spectral_layouts.product(n, dtype),
            _spectral_layouts.vjp(n, dtype),
        ):
            found[layout.expression] = n
    return sorted(set(found.values()))


def functions(run, part, n, dtype) -> None:
    """The root of a definite matrix, and its gradient."""
    a = hermitian(run.rng("functions", n, dtype), BATCH, n, dtype)
    a = a @ a.conj().swapaxes(1, 2) / n + np.eye(n, dtype=dtype)
    g = hermitian(run.rng("gradients", n, dtype), BATCH, n, dtype)
    load = engines.get("raw_cuda").load
    f, w, v, status = get(load("spectral")(put(a), "L", SQRT))
    there = [put(x) for x in (w, v, g)]
    gradient = get(load("spectral_vjp")(*there, SQRT))
    wide, back = v.astype("c16"), v.astype("c16").conj().swapaxes(1, 2)
    slopes = divided_differences.first(SQRT, w.astype("f8"))
    expected = {
        "root": ((wide * np.sqrt(w.astype("f8"))[:, None]) @ back, f, np.sqrt(w).max()),
        "gradient": (
            wide @ (slopes * (back @ g @ wide)) @ back,
            gradient,
            abs(slopes).max(),
        ),
    }
    part.expect(not status.any(), f"sqrtm of {dtype} {n} × {n}: status {status}")
    for name, (exact, found, size) in expected.items():
        unit = size * n * np.finfo(dtype).eps * max(1.0, float(abs(g).max()))
        error = float(abs(found - exact).max() / unit)
        part.note_worst(name, dtype, error)
        part.expect(error <= TOLERANCE, f"{name}, {dtype} {n} × {n}: {error:.3g} n·eps")


def users(run, part) -> None:
    """What is called as users call it."""
    a = hermitian(run.rng("users"), BATCH, 8, np.dtype("f4"))
    with part.attempt("bed.eigh of a CuPy array"):
        w, v = get(tuple(bed.eigh(cupy.asarray(a))))
        part.right(a, w, v, what="bed.eigh of a CuPy array")
    if find_spec("torch") is not None:
        with part.attempt("bed.eigh of a torch tensor"):
            in_torch(part, a)
    if find_spec("jax") is not None:
        with part.attempt("bed.eigh of a JAX array"):
            in_jax(part, a)


def in_torch(part, a) -> None:
    import torch

    if not torch.cuda.is_available():
        part.notes.append("torch is here, and finds no CUDA device")
        return
    w, v = bed.eigh(torch.from_numpy(a).to("cuda"))
    part.right(a, w.cpu().numpy(), v.cpu().numpy(), what="torch")


def in_jax(part, a) -> None:
    import jax

    there = jax.numpy.asarray(a)
    if {device.platform for device in there.devices()} == {"cpu"}:
        part.notes.append("JAX is here, and finds no CUDA device")
    w, v = (np.asarray(x) for x in bed.eigh(there))
    part.right(a, w, v, what="JAX")
