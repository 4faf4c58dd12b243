"""Time bed.eigh against numpy.linalg.eigh on random matrices; results are checked."""

import secrets

import numpy as np

import bed

from .._accuracy import measure
from .._config import installed_versions, processor
from .._interop import put, to_host
from .._normalize import compute_dtype
from ..engines._threads import thread_count
from ._timing import best_device, numpy_seconds, progress, seconds
from .demo import PROMISE

# Matrices of the batch that are checked before timing; all of a small batch.
CHECKED = 100


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    parser.add_argument("--n", type=int, nargs="+", default=[2, 3, 4, 8, 16, 32, 64])
    parser.add_argument("--batch", type=int, nargs="+", default=[10000])
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--driver", default="auto", help="engine, see `info`")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--values-only", action="store_true", help="time eigvalsh")
    parser.add_argument("--seed", type=int, default=None)


def run(options) -> int:
    """Print one line for every combination of the options."""
    device = options.device or best_device()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    rng = np.random.default_rng(seed)
    print(f"{processor()}; {', '.join(installed_versions())}")
    print(
        f"seed {seed}; {device}; bed: {thread_count()} threads; numpy: one BLAS thread"
    )
    print(
        f"{'dtype':11}{'n':>4}{'batch':>9} {'engine':11}{'worst n·eps':>12}"
        f"{'bed ms':>11}{'numpy ms':>11}{'ratio':>8}{'matrices/s':>13}"
    )
    for dtype in options.dtype:
        for n in options.n:
            for batch in options.batch:
                progress(f"{dtype} n = {n}, batch {batch} …")
                line = _measure(rng, dtype, n, batch, device, options)
                progress("")
                print(line, flush=True)
    return 0


def _measure(rng, dtype, n, batch, device, options) -> str:
    a = _random(rng, (batch, n, n), compute_dtype(dtype))
    there = put(a, device)
    few = slice(0, CHECKED)
    w, v = (to_host(x) for x in bed.eigh(there[few], driver=options.driver))
    worst = np.nanmax(measure(a[few], w, v).worst())
    if not worst <= PROMISE:
        raise SystemExit(f"wrong result for {dtype}, n = {n}: error {worst} n·eps")
    solve, peer = (
        (bed.eigvalsh, np.linalg.eigvalsh)
        if options.values_only
        else (bed.eigh, np.linalg.eigh)
    )
    ours = seconds(lambda: solve(there, driver=options.driver), device)
    theirs = numpy_seconds(lambda: peer(a))
    engine = bed.explain(there, driver=options.driver).engine
    times = f"{ours * 1e3:11.3f}{theirs * 1e3:11.3f}{theirs / ours:8.2f}"
    return (
        f"{a.dtype!s:11}{n:4}{batch:9} {engine:11}{worst:12.2f}{times}"
        f"{batch / ours:13.4g}"
    )


def _random(rng, shape, dtype) -> np.ndarray:
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return ((x + x.conj().swapaxes(-1, -2)) / 2).astype(dtype)
