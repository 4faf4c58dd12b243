"""What README and the documentation say was measured is what scripts/results has."""

import re
from pathlib import Path

import pytest

from bed.cli._table import read_table

ROOT = Path(__file__).parents[1]
SOLVERS = ("bed", "torch_eigh", "torch_svd", "reference")


def results(name):
    """Lines of a table by the names of its columns."""
    return read_table(ROOT / "scripts" / "results" / f"{name}.csv")[1]


def page(name):
    return (ROOT / "scripts" / "docs" / f"{name}.md").read_text("utf-8")


def cells(text, first):
    """Lines of the table in a text whose heading begins with `first`."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    split = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return split[0], split[2:]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_times_of_numpy_and_torch_over_those_of_bed(dtype):
    heading, lines = cells((ROOT / "README.md").read_text("utf-8"), "n")
    (line,) = (line for line in lines if line[0] == dtype)
    found = {row["n"]: row for row in results("cpu") if row["dtype"] == dtype}
    for n, said in zip(heading[1:], line[1:], strict=True):
        bed, numpy, torch = (
            float(found[n][f"{name}_ms"]) for name in ("bed", "numpy", "torch")
        )
        assert said == f"{numpy / bed:.1f} ({torch / bed:.1f})"


def test_times_of_a_function_and_its_gradient():
    text = page("functions")
    _, lines = cells(text, "batch × n")
    found = results("functions_cpu")
    assert len(lines) == len(found) > 0
    for line, row in zip(lines, found, strict=True):
        bed, torch = float(row["total_ms"]), float(row["torch.eigh_ms"])
        ratio = float(row["torch.eigh_ratio"])
        size = f"{row['batch']} × {row['n']}"
        assert line == [size, f"{bed:.1f} ms", f"{torch:.1f} ms", f"{ratio:.1f}"]
    forward = [float(row["forward_ratio"]) for row in found]
    words = re.search(r"alone takes (\S+) to (\S+) times", text).groups()
    assert words == (f"{min(forward):.2f}", f"{max(forward):.2f}")


def test_times_of_the_root_in_applications():
    text = page("applications").replace("\n", " ")
    last = {
        (row["solver"], row["matrices"]): row["root_ms"] for row in results("so_vit")
    }
    said = re.search(
        r"is (\S+) ms with bed, (\S+) with `torch.linalg.eigh`, (\S+) with `svd` and "
        r"(\S+) with the reference",
        text,
    ).groups()
    for solver, number in zip(SOLVERS, said, strict=True):
        exact = float(last[solver, "64×32×32"])
        assert float(number) == pytest.approx(exact, rel=0.02)
    rows = [row for row in results("decorrelated_bn") if row["epoch"] == "7"]
    of_bed, of_torch = (
        [float(r["root_ms"]) for r in rows if (r["solver"], r["gradient"]) in kinds]
        for kinds in (
            {("bed", "exact")},
            {("torch_eigh", "exact"), ("torch_svd", "exact")},
        )
    )
    said = re.search(r"is (\S+) to (\S+) ms with bed and (\S+) to (\S+) with", text)
    expected = [min(of_bed), max(of_bed), min(of_torch), max(of_torch)]
    assert list(said.groups()) == [f"{x:.2f}" for x in expected]
    error = {
        (row["solver"], row["groups"]): float(row["test_error"])
        for row in rows
        if row["seed"] == "0" and row["gradient"] == "exact"
    }
    for groups in {groups for _, groups in error}:
        ends = [error[solver, groups] for solver in SOLVERS]
        assert max(ends) - min(ends) <= 0.3 + 1e-9
