#!/usr/bin/env python
"""Draw the tables that the scripts have left, as PNG and SVG beside them.

python scripts/paper/draw.py [FOLDER]
"""

import argparse
from importlib import import_module
from pathlib import Path

from _harness import RESULTS, Row, comments, read

from bed._console import ArgumentParser, show

SCRIPTS = (
    "fig_cover", "fig_numerical_test", "fig_svd_bed_bs", "fig_batch_40",
    "tab_eig_comparison", "fig_gpu_usage", "fig_error_dim", "average_r", "convergence",
    "error_bound", "tab_computation_complexity", "tab_zca_norm", "tab_2nd_transformer",
    "tab_style_transfer",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Draw all that is there."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS / "cpu")
    folder = parser.parse_args(arguments).folder
    found = [name for name in SCRIPTS if (folder / f"{name}.csv").exists()]
    if not found:
        raise SystemExit(f"{folder} has no tables; run scripts/reproduce.py")
    for name in found:
        path, figure = folder / f"{name}.csv", import_module(name).FIGURE
        if rows := chosen(read(path), figure):
            draw(path, rows, figure)
        else:
            show(f"nothing to draw in {path}")
    return 0


def draw(path: Path, rows: list[Row], figure: dict) -> None:
    """Panels of lines, as the figure of a script says."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(row.get(figure["panel"], "") for row in rows))
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    picture = Figure((1.5 + 3.4 * columns, 0.8 + 3 * lines), layout="constrained")
    axes = picture.subplots(lines, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis, panel in zip(axes, panels, strict=False):
        _panel(axis, [r for r in rows if r.get(figure["panel"], "") == panel], figure)
        if figure["panel"]:
            axis.set_title(f"{figure['panel']} {panel}", fontsize="medium")
    entries = {
        label: handle
        for axis in axes[: len(panels)]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    picture.legend(
        entries.values(), entries, loc="outside right upper", fontsize="small"
    )
    machine = comments(path)[0].split(";")[0]
    picture.supxlabel(f"{figure['x']}; {machine}", fontsize="small")
    for ending in ("png", "svg"):
        picture.savefig(path.with_suffix(f".{ending}"), dpi=110)
    show(f"drew {path.with_suffix('.png')} and .svg")


def chosen(rows: list[Row], figure: dict) -> list[Row]:
    """Rows that the figure shows: of its kind, with numbers that its axes have."""
    wanted = figure.get("where", {}).items()
    return [
        row
        for row in rows
        if all(row[name] == x for name, x in wanted)
        and "" not in (row[figure["x"]], row[figure["y"]])
        and all(row[figure[direction]] > 0 for direction in figure["log"])
    ]


def _panel(axis, rows: list[Row], figure: dict) -> None:
    names = sorted({str(row[figure["line"]]) for row in rows})
    for name in names:
        points = sorted(
            (row[figure["x"]], row[figure["y"]])
            for row in rows
            if str(row[figure["line"]]) == name
        )
        axis.plot(*zip(*points, strict=True), marker=".", label=name)
    for direction in figure["log"]:
        getattr(axis, f"set_{direction}scale")("log")
    axis.set_ylabel(figure["y"])
    axis.grid(alpha=0.3)


if __name__ == "__main__":
    raise SystemExit(main())
