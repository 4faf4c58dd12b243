"""Write what was measured into README and the pages: python scripts/docs/tables.py

Between the comments `<!-- NAME -->` and `<!-- end -->` stands what the function of that
name finds in scripts/results. A test compares.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from bed.cli._table import read_table

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [ROOT / "README.md", *sorted((ROOT / "scripts" / "docs").glob("*.md"))]
BLOCK = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)
SOLVERS = {
    "bed": "bed",
    "torch_eigh": "torch eigh",
    "torch_svd": "torch svd",
    "reference": "reference",
}


def results(name: str) -> tuple[list[str], list[dict[str, str]]]:
    """The comments and the lines of a table by the names of its columns."""
    return read_table(ROOT / "scripts" / "results" / f"{name}.csv")


def markdown(heading: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table."""
    rows = [[*heading], *([*line] for line in lines)]
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def machine(heading: list[str], *packages: str) -> str:
    """The processor and the versions that the first comment of a table names."""
    processor, _, versions = heading[0].replace("(R)", "").partition("; ")
    found = dict(each.split(" ") for each in versions.split(", "))
    named = (f"{package} {found[package].partition('+')[0]}" for package in packages)
    return ", ".join([processor.partition(",")[0], *named])


def span(numbers: Iterable[float], digits: int) -> str:
    """From the smallest to the largest."""
    numbers = [*numbers]
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def grid(rows: Iterable[dict[str, str]], cell: Callable) -> str:
    """A table with a line for each dtype and a column for each size."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        cells.setdefault(row["dtype"], {})[row["n"]] = cell(row)
    sizes = [*cells["float64"]]
    lines = ([dtype, *map(of.get, sizes)] for dtype, of in cells.items())
    return markdown(["n", *sizes], lines)


def batches(rows: Iterable[dict[str, str]]) -> str:
    """How many matrices were solved in each call."""
    sizes = [int(row["batch"]) for row in rows]
    ends = sorted({min(sizes), max(sizes)})
    return " to ".join(f"{size:,}".replace(",", " ") for size in ends)


def speed() -> str:
    """Times of NumPy, and of torch in brackets, over those of bed."""

    def cell(row):
        bed, *others = (float(row[f"{name}_ms"]) for name in ("bed", "numpy", "torch"))
        numpy, torch = (f"{other / bed:.1f}" for other in others)
        return f"{numpy} ({torch})"

    heading, rows = results("cpu")
    of = machine(heading, "numpy", "torch", "numba")
    return f"{grid(rows, cell)}\n\n{batches(rows)} random matrices; {of}."


def peers() -> str:
    """The least time of other libraries over that of bed."""

    def cell(row):
        return f"{float(row['best_ratio']):.1f} {row['best_peer']}"

    heading, rows = results("peers")
    of = machine(heading, "numpy", "torch", "numba")
    return (
        f"{grid(rows, cell)}\n\n{batches(rows)} matrices on one thread; {of}, "
        "Eigen 3.4."
    )


def threads() -> str:
    """What the second thread gains."""
    one, two = (
        {(row["dtype"], row["n"]): float(row["bed_ms"]) for row in results(name)[1]}
        for name in ("cpu", "cpu_two_threads")
    )
    gains = span((one[at] / two[at] for at in two if int(at[1]) >= 8), 1)
    return f"From n = 8 on two threads are {gains} times as fast as one."


def single() -> str:
    """Calls with one matrix."""
    heading, rows = results("single")
    lines = (
        [
            f"`{row['function']}`, {row['n']} × {row['n']}",
            f"{bed:.1f}",
            f"{numpy:.1f}",
            f"{numpy / bed:.1f}",
        ]
        for row in rows
        for bed, numpy in [(float(row["bed_us"]), float(row["numpy_us"]))]
    )
    table = markdown(["µs for one float64 matrix", "bed", "numpy", "ratio"], lines)
    return f"{table}\n\n{machine(heading, 'numpy', 'numba')}."


def functions() -> str:
    """A function and its gradient."""
    heading, rows = results("functions_cpu")
    lines = (
        [
            f"{row['batch']} × {row['n']}",
            f"{float(row['total_ms']):.1f} ms",
            f"{float(row['torch.eigh_ms']):.1f} ms",
            f"{float(row['torch.eigh_ratio']):.1f}",
        ]
        for row in rows
    )
    table = markdown(["batch × n", "bed", "torch", "ratio"], lines)
    forward = span((float(row["forward_ratio"]) for row in rows), 2)
    of = machine(heading, "numpy", "torch", "numba")
    return (
        f"{table}\n\nThe forward pass alone takes {forward} times as long as\n"
        f"`bed.eigh`. {of}."
    )


def roots() -> str:
    """The root in the forward pass of two applications, and how trainings end."""
    of, transformer = results("so_vit")
    last = max((row["epoch"] for row in transformer), key=int)
    found = {
        (f"So-ViT, {row['matrices']}", row["solver"]): row
        for row in transformer
        if row["epoch"] == last
    }
    resnet = results("decorrelated_bn")[1]
    last = max((row["epoch"] for row in resnet), key=int)
    ends = {
        (f"ResNet, {row['groups']}", row["solver"]): row
        for row in resnet
        if (row["epoch"], row["seed"], row["gradient"]) == (last, "0", "exact")
    }
    found |= ends
    models = dict.fromkeys(model for model, solver in found if solver in SOLVERS)
    lines = (
        [model, *(f"{float(found[model, s]['root_ms']):.2f}" for s in SOLVERS)]
        for model in models
    )
    table = markdown(["ms for the root of", *SOLVERS.values()], lines)
    errors = {
        model: [float(ends[model, s]["test_error"]) for s in SOLVERS]
        for model in models
        if (model, "bed") in ends
    }
    apart = max(max(each) - min(each) for each in errors.values())
    return (
        f"{table}\n\nWith the seed that all have, errors of the ResNet end within "
        f"{apart:.1f} percentage points.\n{machine(of, 'torch')}, one thread."
    )


BLOCKS = {
    each.__name__: each for each in (speed, threads, peers, single, functions, roots)
}


def filled(text: str) -> str:
    """A text with its blocks written anew."""
    return BLOCK.sub(
        lambda found: f"<!-- {found[1]} -->\n\n{BLOCKS[found[1]]()}\n\n<!-- end -->",
        text,
    )


if __name__ == "__main__":
    for path in TEXTS:
        path.write_text(filled(path.read_text("utf-8")), "utf-8")
