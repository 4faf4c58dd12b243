#!/usr/bin/env python
"""Draw the tables that the scripts have left, as PNG and SVG beside them.

python scripts/paper/draw.py [FOLDER]
"""

import argparse
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from math import inf
from pathlib import Path

from _harness import RESULTS, Row, comments, read

from bed._console import ArgumentParser, show

SCRIPTS = (
    "fig_cover", "fig_numerical_test", "fig_svd_bed_bs", "fig_batch_40",
    "tab_eig_comparison", "fig_gpu_usage", "fig_error_dim", "average_r", "convergence",
    "error_bound", "tab_computation_complexity", "tab_zca_norm", "tab_2nd_transformer",
    "tab_style_transfer",
)  # fmt: skip
LABELS = {
    "peak_mib": "MiB beyond the input",
    "iterations_over_n": "iterations / n",
    "r_over_n": "r / n",
    "holds": "share of matrices within the bound",
}
COLOURS = {
    "bed": "black", "bed:numba_cpu": "dimgray", "bed:lapack": "darkgray",
    "reference": "tab:red", "torch_svd": "tab:blue", "torch_eigh": "tab:green",
    "torch_eig": "tab:orange", "numpy_eigh": "tab:purple", "cupy_eigh": "tab:olive",
    "jax_eigh": "tab:cyan", "public_code": "tab:pink",
}  # fmt: skip


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
    if not find_spec("matplotlib"):
        raise SystemExit("pictures need matplotlib: pip install matplotlib")
    problems: list[str] = []
    for name in found:
        path, figure = folder / f"{name}.csv", import_module(name).FIGURE
        try:
            rows = read(path)
        except ValueError as problem:
            problems.append(str(problem))
            continue
        if not (rows := chosen(rows, figure)):
            show(f"nothing to draw in {path}")
            continue
        try:
            draw(path, rows, figure)
        except OSError as problem:
            problems.append(f"no picture of {path}: {problem}")
    for text in problems:
        show(text)
    return int(bool(problems))


def draw(path: Path, rows: list[Row], figure: dict) -> None:
    """Panels of lines, as the figure of a script says."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(row.get(figure["panel"], "") for row in rows))
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    lines = -(-len(panels) // columns)
    picture = Figure((1.5 + 3.4 * columns, 0.8 + 3 * lines), layout="constrained")
    axes = picture.subplots(lines, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis, panel in zip(axes, panels, strict=False):
        _panel(axis, [r for r in rows if r.get(figure["panel"], "") == panel], figure)
        if figure["panel"]:
            axis.set_title(_title(figure["panel"], panel), fontsize="medium")
    entries = {
        label: handle
        for axis in axes[: len(panels)]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    picture.legend(
        entries.values(), entries, loc="outside right upper", fontsize="small"
    )
    picture.supxlabel(comments(path)[0].split(";")[0], fontsize="small")
    # Letters as text: smaller files, in which names can be searched.
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        for ending in ("png", "svg"):
            picture.savefig(path.with_suffix(f".{ending}"), dpi=110)
    show(f"drew {path.with_suffix('.png')} and .svg")


def _title(name: str, panel) -> str:
    if name == "batch" and panel == 1:
        return "single matrices"
    return f"{name} = {panel}" if isinstance(panel, int) else f"{panel}"


def chosen(rows: list[Row], figure: dict) -> list[Row]:
    """Rows that the figure shows: of its kind, with numbers that its axes have."""
    wanted = figure.get("where", {}).items()
    found = [row for row in rows if all(row[name] == x for name, x in wanted)]
    return [row for row in found if _has_place(row, figure)]


def _has_place(row: Row, figure: dict) -> bool:
    at = {"x": row[_x(row, figure)], "y": row[figure["y"]]}
    return "" not in at.values() and all(at[axis] > 0 for axis in figure["log"])


def _x(row: Row, figure: dict) -> str:
    """The column along the axis, which may differ from panel to panel."""
    x = figure["x"]
    return x[row[figure["panel"]]] if isinstance(x, dict) else x


def _panel(axis, rows: list[Row], figure: dict) -> None:
    x, y = _x(rows[0], figure), figure["y"]
    names = [_name(row, figure) for row in rows]
    for name in sorted(set(names)):
        points = sorted(
            (row[x], row[y]) for row, of in zip(rows, names, strict=True) if of == name
        )
        axis.plot(*zip(*points, strict=True), marker=".", label=name, **_style(name))
    for direction in figure["log"]:
        getattr(axis, f"set_{direction}scale")("log")
    if x == "n":
        # Few sizes, with names of their own rather than powers of ten.
        sizes = sorted({row[x] for row in rows})
        apart = [n for n, after in pairwise([*sizes, inf]) if after > 1.2 * n]
        axis.set_xticks(apart if len(sizes) < 8 else sizes[3::4], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:.0f}")
    axis.set_xlabel(x)
    axis.set_ylabel(LABELS.get(y, y))
    axis.grid(alpha=0.3)


def _name(row: Row, figure: dict) -> str:
    columns = figure["line"]
    columns = [columns] if isinstance(columns, str) else columns
    return ", ".join(str(row[name]) for name in columns)


def _style(name: str) -> dict:
    """Solvers look alike in all figures, loops over matrices like the batched call."""
    batched = name.removesuffix("_loop")
    if batched not in COLOURS:
        return {"linestyle": "--"}
    style = "-" if batched == name else ":"
    return {"color": COLOURS[batched], "linestyle": style}


if __name__ == "__main__":
    raise SystemExit(main())
