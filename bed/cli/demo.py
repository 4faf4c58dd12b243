"""Decompose real matrices, check every result against exact eigenvalues, draw them."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bed

from .._config import config_text
from .._console import progress, show
from .._data import real_matrices
from .._dispatch.interop import put, to_host
from ..engines._threads import thread_count
from ..testing.accuracy import PROMISE, Errors, measure
from ..testing.clock import in_turns
from ._peers import awaited, best_device, one_blas_thread


class Row(NamedTuple):
    """One array of the table."""

    name: str
    a: np.ndarray
    w: np.ndarray
    engine: str
    errors: Errors
    seconds: float
    numpy_seconds: float


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "--out", default="bed-demo.png", help="the picture (default: %(default)s)"
    )
    parser.add_argument("--driver", default="auto", help="engine, see `info`")


def run(options) -> int:
    """Print the table, write the picture; fails if an error passes the promise."""
    device = best_device()
    drawn = find_spec("matplotlib") is not None
    if drawn:
        Path(options.out).touch()  # before the work, if that cannot be done
    show(config_text(), "")
    progress("compiling (once per machine) …")
    matrices = real_matrices()
    for n, dtype in {(a.shape[-1], a.dtype) for a, _ in matrices.values()}:
        bed.warmup(n, dtype, device=device, driver=options.driver)
    rows = []
    for i, (name, (a, w)) in enumerate(matrices.items(), 1):
        progress(f"{i}/{len(matrices)} {name}")
        rows.append(_solve(name, a, w, device, options.driver))
    progress("")
    show(_table(rows, device))
    worst = max(max(row.errors.worst()) for row in rows)
    held = worst <= PROMISE
    show(
        f"\nworst error {worst:.2f} n·eps: "
        + ("within" if held else "ABOVE")
        + f" the {PROMISE} n·eps that bed promises"
    )
    if drawn:
        progress("drawing …")
        _draw(rows, options.out)
        progress("")
        show(f"picture: {options.out}")
    else:
        show("no picture: it needs matplotlib (pip install matplotlib)")
    return 0 if held else 1


def _solve(name, a, exact, device, driver) -> Row:
    there = put(a, device)
    w, v = (to_host(x) for x in bed.eigh(there, driver=driver))
    seconds = in_turns(
        {
            "bed": awaited(lambda: bed.eigh(there, driver=driver), device),
            "numpy": lambda: np.linalg.eigh(a),
        },
        within={"numpy": one_blas_thread},
    )
    return Row(
        name,
        a,
        exact,
        bed.explain(there, driver=driver).engine,
        measure(a, w, v, exact),
        seconds["bed"],
        seconds["numpy"],
    )


def _table(rows: list[Row], device: str) -> str:
    lines = [
        f"{'':50}{'largest error, n·eps':>26}{'time, ms':>20}",
        f"{'array':15}{'n':>4}{'batch':>8} {'dtype':11}{'engine':11}"
        f"{'residual':>9}{'orthog.':>9}{'values':>9}{'bed':>10}{'numpy':>10}",
    ]
    for row in rows:
        batch, n, _ = row.a.shape
        errors = "".join(f"{x:9.2f}" for x in row.errors.worst())
        lines.append(
            f"{row.name:15}{n:4}{batch:8} {row.a.dtype!s:11}{row.engine:11}{errors}"
            f"{row.seconds * 1e3:10.3f}{row.numpy_seconds * 1e3:10.3f}"
        )
    where = f"{thread_count()} threads" if device == "cpu" else "GPU, device arrays"
    lines.append(
        f"bed: {where}. numpy: numpy.linalg.eigh, one BLAS thread; it computes float32 "
        "in float64."
    )
    return "\n".join(lines)


def _draw(rows: list[Row], out: str) -> None:
    """Left: how far each spectrum reaches. Right: the errors of every matrix."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    height = 1.5 + 0.34 * len(rows)
    fig, (left, right) = plt.subplots(1, 2, figsize=(12, height), sharey=True)
    for y, row in enumerate(rows):
        size = abs(row.w)
        largest = size.max(axis=1, keepdims=True)
        share = (size / np.where(largest > 0, largest, 1)).ravel()
        share = share[share > 0]
        left.plot(share, np.full(share.size, y), "|", color="C0", alpha=0.15, ms=9)
        for kind, marker, color, shift in (
            ("residual", "o", "C0", -0.22),
            ("orthogonality", "s", "C1", 0.0),
            ("values", "d", "C2", 0.22),
        ):
            low, median, high = np.quantile(getattr(row.errors, kind), (0, 0.5, 1))
            label = kind if y == 0 else None
            right.plot([low, high], [y + shift] * 2, "-", color=color, lw=1)
            right.plot(high, y + shift, "|", color=color, ms=6)
            right.plot(median, y + shift, marker, color=color, ms=4, label=label)
    left.set_xscale("log")
    left.set_xlim(1e-21, 3)
    left.set_xlabel("|eigenvalue| / largest of its matrix")
    left.set_yticks(range(len(rows)), [r.name for r in rows])
    left.invert_yaxis()
    left.set_title("exact spectra (zeros not shown)")
    right.axvline(PROMISE, color="0.3", ls="--", lw=1)
    right.text(PROMISE, -0.75, " promised", color="0.3", va="bottom", ha="center")
    right.set_xlim(0, PROMISE * 1.08)
    right.set_xlabel("error, n·eps (median and range over the batch)")
    right.set_title("errors of bed.eigh", loc="left")
    right.legend(loc="center", frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
    fig.tight_layout()
    fig.savefig(out, dpi=120)
    plt.close(fig)
