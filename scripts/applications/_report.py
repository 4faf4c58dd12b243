"""Tables and curves that an application leaves."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from _files import whole

from bed._config import installed_versions, processor
from bed._console import show
from bed.cli._table import commit, write_table
from bed.engines._threads import thread_count


def heading(device: str, settings: dict[str, Any]) -> list[str]:
    """Machine, versions, commit and settings, as lines above a table."""
    where = processor()
    if torch.device(device).type == "cuda":
        where = f"{torch.cuda.get_device_name(device)}; {where}"
    return [
        f"{where}, {thread_count()} threads; {', '.join(installed_versions())}",
        f"commit {commit(Path(__file__).parent)}",
        "; ".join(f"{name} {value}" for name, value in settings.items()),
    ]


def table(path: Path, lines: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Write a CSV; what a row lacks is empty."""
    with whole(path) as unfinished:
        write_table(unfinished, lines, rows)
    show(f"wrote {path}")


def curves(path: Path, panels: dict[str, dict[str, tuple]], y: str, note: str) -> None:
    """Draw lines ``(epochs, values)`` by name in panels that share their axes.

    Without matplotlib nothing is drawn, which is told.
    """
    if not find_spec("matplotlib"):
        show("no curves: they are drawn with matplotlib, pip install matplotlib")
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1 + 3.6 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for label, (epochs, values) in lines.items():
            axis.plot(epochs, values, marker=".", label=label)
        axis.set(title=title, xlabel="epoch")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    axes[0].set_ylabel(y)
    figure.supxlabel(note, fontsize="small", color="0.4")
    with whole(path) as unfinished:
        figure.savefig(unfinished, dpi=110)
    show(f"wrote {path}")
