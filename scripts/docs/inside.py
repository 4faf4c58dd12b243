"""Draw the pictures of inside.md from runs of the reference: stages.svg, inside.svg."""

from pathlib import Path

import matplotlib
import numpy as np

from bed.engines.reference import EighStats, eigh
from bed.engines.reference.qr_iteration import (
    qr_step,
    settle,
    trailing_block,
    wilkinson_shifts,
)
from bed.engines.reference.tridiagonalize import tridiagonalize

SIZES = (8, 16, 32)
BATCH = 256
# Of the matrix whose stages are drawn, and the iterations that are.
N = 8
ITERATIONS = (2, 6, 10)


def random(batch: int, n: int) -> np.ndarray:
    """Symmetric matrices, always the same."""
    x = np.random.default_rng(0).standard_normal((batch, n, n))
    return x + x.swapaxes(1, 2)


def active_sizes(n: int) -> list[int]:
    """Rows that are active in every iteration, for random matrices."""
    stats = EighStats()
    eigh(random(BATCH, n), stats=stats)
    return stats.active_sizes


def stages() -> dict[str, np.ndarray]:
    """One matrix from A to its eigenvalues, by the steps of the reference."""
    a = random(1, N)
    d, e, *_ = tridiagonalize(a / abs(a).max())
    found = {"A": a[0], "T": tridiagonal(d, e)}
    size, iterations = N, 0
    while size > 1:
        near, _ = wilkinson_shifts(*trailing_block(d, e, size))
        qr_step(d, e, near, size)
        size, iterations = settle(d, e, size), iterations + 1
        if iterations in ITERATIONS:
            found[f"{iterations} iterations"] = tridiagonal(d, e)
    found[f"{iterations} iterations"] = tridiagonal(d, e)
    return found


def tridiagonal(d: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The only matrix of a batch."""
    return np.diag(d[0]) + np.diag(e[0], 1) + np.diag(e[0], -1)


def draw_stages(plt, path: Path) -> None:
    """Sizes of the entries, each as a square."""
    found = stages()
    figure, panels = plt.subplots(1, len(found), figsize=(8, 2), layout="constrained")
    for axes, (title, t) in zip(panels, found.items(), strict=True):
        with np.errstate(divide="ignore"):
            size = np.log10(abs(t) / abs(t).max())
        image = axes.pcolormesh(
            np.where(t == 0, np.nan, size), vmin=-8, vmax=0, cmap="viridis_r", ec="w"
        )
        axes.set(title=title, aspect="equal", xticks=[], yticks=[])
        axes.invert_yaxis()
    figure.colorbar(image, ax=panels, label="log₁₀ of the size", shrink=0.7)
    figure.savefig(path, metadata={"Date": None})


def draw_active(plt, path: Path) -> None:
    """One line for each size."""
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for n in SIZES:
        sizes = active_sizes(n)
        axes.step(range(1, len(sizes) + 1), sizes, where="mid", label=f"n = {n}")
    axes.set(xlabel="QR iteration", ylabel="rows of the active part", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def draw(folder: Path) -> None:
    """The same files each time."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "bed", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    draw_stages(plt, folder / "stages.svg")
    draw_active(plt, folder / "inside.svg")


if __name__ == "__main__":
    draw(Path(__file__).parent)
