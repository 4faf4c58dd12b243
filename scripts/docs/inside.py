"""Draw inside.svg: the active part of a batch while the reference iterates."""

from pathlib import Path

import matplotlib
import numpy as np

from bed.engines.reference import EighStats, eigh

SIZES = (8, 16, 32)
BATCH = 256


def active_sizes(n: int) -> list[int]:
    """Rows that are active in every iteration, for random matrices."""
    x = np.random.default_rng(0).standard_normal((BATCH, n, n))
    stats = EighStats()
    eigh(x + x.swapaxes(1, 2), stats=stats)
    return stats.active_sizes


def draw(path: Path) -> None:
    """One line for each size; the same file each time."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "bed", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for n in SIZES:
        sizes = active_sizes(n)
        axes.step(range(1, len(sizes) + 1), sizes, where="mid", label=f"n = {n}")
    axes.set(xlabel="QR iteration", ylabel="rows of the active part", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".svg"))
