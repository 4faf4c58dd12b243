"""Time bed.eigh against NumPy and torch on random matrices; results are checked."""

import argparse
import csv
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bed

from .._config import installed_versions, no_gpu, processor
from .._console import progress, show
from .._dispatch.dtypes import compute_dtype
from .._dispatch.interop import put, to_host
from ..engines import DTYPES
from ..engines._threads import thread_count
from ..testing.accuracy import PROMISE, measure
from ..testing.clock import in_turns
from ..testing.matrices import random_hermitian
from ._peers import (
    awaited,
    best_device,
    one_blas_thread,
    one_torch_thread,
    torch_call,
)

# Matrices of the batch that are checked before timing; all of a small batch.
CHECKED = 100


HEADER = (
    f"{'dtype':11}{'n':>4}{'batch':>9} {'engine':11}{'worst n·eps':>12}"
    f"{'bed ms':>11}{'numpy ms':>11}{'ratio':>7}{'torch ms':>11}{'ratio':>7}"
    f"{'matrices/s':>13}"
)


class Line(NamedTuple):
    """One measurement; times in milliseconds, NaN where a peer did not run."""

    dtype: str
    n: int
    batch: int
    engine: str
    threads: int
    worst_error: float
    bed_ms: float
    numpy_ms: float
    torch_ms: float

    def __str__(self) -> str:
        return (
            f"{self.dtype:11}{self.n:4}{self.batch:9} {self.engine:11}"
            f"{self.worst_error:12.2f}{self.bed_ms:11.3f}"
            f"{self.numpy_ms:11.3f}{self.numpy_ms / self.bed_ms:7.2f}"
            f"{self.torch_ms:11.3f}{self.torch_ms / self.bed_ms:7.2f}"
            f"{self.batch / self.bed_ms * 1e3:13.4g}"
        )


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    sizes = [2, 3, 4, 8, 16, 32, 64]
    parser.add_argument("--n", type=_positive, nargs="+", default=sizes)
    parser.add_argument("--batch", type=_positive, nargs="+", default=[10000])
    names = [*(dtype.name for dtype in DTYPES), "float16"]  # that one in float32
    parser.add_argument("--dtype", nargs="+", choices=names, default=names[:2])
    parser.add_argument("--driver", default="auto", help="engine, see `info`")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--values-only", action="store_true", help="time eigvalsh")
    parser.add_argument("--torch", action="store_true", help="time torch.linalg too")
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--seed", type=_positive, default=None)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def run(options) -> int:
    """Print one line for every combination of the options."""
    device = options.device or best_device()
    if device == "cuda" and (problem := no_gpu()):
        raise SystemExit(f"--device cuda {problem}")
    if options.csv:
        options.csv.touch()  # before the work, if that cannot be done
    seed = secrets.randbits(32) if options.seed is None else options.seed
    machine = f"{processor()}; {', '.join(installed_versions())}"
    setting = (
        f"seed {seed}; {device}; bed: {thread_count()} threads; "
        "numpy and torch: one thread, on the CPU"
    )
    show(machine, setting, HEADER)
    lines = []
    for line in _lines(np.random.default_rng(seed), device, options):
        show(line)
        lines.append(line)
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            file.write(f"# {machine}\n# {setting}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Line._fields)
            writer.writerows(
                [f"{x:.4g}" if isinstance(x, float) else x for x in line]
                for line in lines
            )
    return 0


def _lines(rng, device, options) -> Iterator[Line]:
    for dtype in options.dtype:
        for n in options.n:
            for batch in options.batch:
                progress(f"{dtype} n = {n}, batch {batch} …")
                line = _measure(rng, dtype, n, batch, device, options)
                progress("")
                yield line


def _measure(rng, dtype, n, batch, device, options) -> Line:
    a = random_hermitian(rng, (batch, n, n), compute_dtype(dtype))
    there = put(a, device)
    few = slice(0, CHECKED)
    w, v = (to_host(x) for x in bed.eigh(there[few], driver=options.driver))
    worst = np.nanmax(measure(a[few], w, v).worst())
    if not worst <= PROMISE:
        raise SystemExit(f"wrong result for {dtype}, n = {n}: error {worst} n·eps")
    name = "eigvalsh" if options.values_only else "eigh"
    ours, numpys = getattr(bed, name), getattr(np.linalg, name)
    explained = bed.explain(
        there, eigenvectors=not options.values_only, driver=options.driver
    )
    calls = {
        "bed": awaited(lambda: ours(there, driver=options.driver), device),
        "numpy": lambda: numpys(a),
    }
    if options.torch:
        calls["torch"] = torch_call(name, a)
    seconds = in_turns(
        calls, within={"numpy": one_blas_thread, "torch": one_torch_thread}
    )
    return Line(
        str(a.dtype),
        n,
        batch,
        explained.engine,
        thread_count(),
        float(worst),
        seconds["bed"] * 1e3,
        seconds["numpy"] * 1e3,
        seconds.get("torch", np.nan) * 1e3,
    )
