"""Times of A^-½ and of its gradient, beside the same composed in CuPy and in torch."""

from importlib.util import find_spec

import cupy
import numpy as np

from bed import engines
from bed._functions import Function, Spectral

from ._cases import hermitian
from ._device import engine, get, release, repeated, timed

# With a floor, as layers have one.
INVSQRT = Spectral(Function.INVSQRT, floor=1.0)
SIZES = ((2, 1 << 20), (3, 1 << 20), (4, 1 << 18), (8, 1 << 16), (16, 1 << 14))
LARGE_SIZES = ((32, 1 << 13), (64, 1 << 11))
# Different matrices of a batch, which repeats them.
PERIOD = 61
# Error of A^-½ A A^-½ − I that a result may have to count, in n·eps·cond.
TOLERANCE = 8
# Seconds that times may take, of the few minutes of a run.
SECONDS = 30.0


def cells(smoke: bool) -> list[tuple[str, int, int]]:
    """Dtype, n and batch of every time."""
    if smoke:
        return [("float32", 3, 64), ("float64", 9, 64)]
    sizes = (*SIZES, *LARGE_SIZES)
    return [(d, n, batch) for d in ("float32", "float64") for n, batch in sizes]


def times(run, part) -> None:
    """Times of the function and of its gradient, launch by launch."""
    part.data["cells"] = []
    end = run.elapsed() + SECONDS
    for dtype, n, batch in cells(run.smoke):
        what = f"{dtype} {n} × {n}, batch {batch}"
        if run.elapsed() > end or run.left() <= 0:
            part.notes.append(f"{what}: left out, no time left")
            continue
        with part.attempt(what):
            one_cell(run, part, dtype, n, batch, what)


def one_cell(run, part, dtype, n, batch, what) -> None:
    """Check a few results, then time what there is."""
    base = hermitian(run.rng("function times", dtype, n), PERIOD, n, np.dtype(dtype))
    base = (base @ base.swapaxes(1, 2) / n + np.eye(n)).astype(dtype)
    release()
    a = repeated(base, batch)
    load = engines.get("raw_cuda").load
    function, gradient = load("spectral"), load("spectral_vjp")
    f, w, v, _ = function(a, "L", INVSQRT)
    error = residual(get(f)[:PERIOD], base[: min(PERIOD, batch)])
    part.expect(error <= TOLERANCE, f"{what}: {error:.3g} n·eps·cond")
    calls = {
        "eigh": lambda: engine()(a),
        "function": lambda: function(a, "L", INVSQRT),
        "gradient": lambda: gradient(w, v, a, INVSQRT),
        "cupy function": lambda: composed(a),
    }
    row = {"dtype": dtype, "n": n, "batch": batch}
    row |= {f"{name}_ms": timed(call)[0] for name, call in calls.items()}
    row |= in_torch(a)
    part.data["cells"].append(row)
    text = ", ".join(f"{k[:-3]} {x:.4g}" for k, x in row.items() if k.endswith("_ms"))
    part.notes.append(f"{what}, ms: {text}")
    run.say(f"  {what}, ms: {text}")


def residual(f, a) -> float:
    """Of the worst matrix, in n·eps·cond."""
    n = a.shape[-1]
    unit = n * np.finfo(a.dtype).eps * np.linalg.cond(a.astype("f8"))
    return float((abs(f @ a @ f - np.eye(n)).max(axis=(-2, -1)) / unit).max())


def composed(a):
    """A^-½ from CuPy's eigenvalues and eigenvectors."""
    w, v = cupy.linalg.eigh(a)
    return cupy.matmul(v * w[:, None, :] ** -0.5, cupy.swapaxes(v, 1, 2))


def in_torch(a) -> dict[str, float]:
    """Milliseconds of the composed function and of it with its gradient, if any."""
    if find_spec("torch") is None:
        return {}
    import torch

    if not torch.cuda.is_available():
        return {}
    x = torch.from_dlpack(a)

    def function(x):
        w, v = torch.linalg.eigh(x)
        return (v * w.rsqrt()[:, None, :]) @ v.mT

    def with_gradient():
        there = x.detach().requires_grad_()
        return torch.autograd.grad(function(there), there, x)

    def wait(_):
        torch.cuda.synchronize()

    return {
        "torch function_ms": timed(lambda: function(x), wait=wait)[0],
        "torch with gradient_ms": timed(with_gradient, wait=wait)[0],
    }
