#!/usr/bin/env python
"""Measure every claim of the paper again, and say of each whether it holds.

    python scripts/reproduce.py                  scripts/results/REPRODUCTION.md
    python scripts/reproduce.py --device cuda    its columns of the GPU
    python scripts/reproduce.py --smoke          seconds, to see that it runs
    python scripts/reproduce.py --report         from the tables that are there

Runs the scripts of scripts/paper one after the other. A table that is finished, of the
same machine, versions, commit and options, is not measured again: after a run that was
ended the same command goes on.
"""

import argparse
import sys
import traceback
from importlib import import_module
from pathlib import Path

from bed._console import ArgumentParser, show

PAPER = Path(__file__).resolve().parent / "paper"
sys.path.append(str(PAPER))
harness = import_module("_harness")

# Those that solve on the device come first; what the others find depends on none.
ON_DEVICE = (
    "fig_cover", "fig_numerical_test", "fig_svd_bed_bs", "fig_batch_40",
    "tab_eig_comparison", "fig_gpu_usage", "fig_error_dim", "tab_zca_norm",
    "tab_2nd_transformer", "tab_style_transfer",
)  # fmt: skip
ON_HOST = ("average_r", "convergence", "error_bound", "tab_computation_complexity")
COUNTS = {"S": 12, "T": 8, "A": 13, "E": 8, "M": 1, "P": 11}
IDS = [f"{kind}{i}" for kind, count in COUNTS.items() for i in range(1, count + 1)]
GROUPS = {
    "S": "Speed", "T": "Times in the tables of applications", "A": "Algorithm",
    "E": "Accuracy", "M": "Memory", "P": "Applications",
}  # fmt: skip
NAMES = {"cpu": "CPU", "cuda": "GPU"}


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing and write the report; 1 if a script failed."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    harness.add_arguments(parser)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    given = parser.parse_args(arguments)
    chosen = given.out
    options = harness.completed(given)
    base = chosen or options.out.parent
    options.out = base / options.device
    failed = [] if options.report else measured(options)
    path = base / "REPRODUCTION.md"
    if base == harness.RESULTS:
        path = base.parent / path.name
    text = report(base, options)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    show(f"wrote {path}", *(f"failed: {name}" for name in failed))
    return int(bool(failed))


def measured(options: argparse.Namespace) -> list[str]:
    """Run the scripts; the names of those that failed."""
    failed = []
    names = ON_DEVICE if options.device == "cuda" else (*ON_DEVICE, *ON_HOST)
    for i, name in enumerate(names, 1):
        show(f"{i}/{len(names)} {harness.command(name, options)}")
        try:
            harness.result(name, import_module(name).measure, options, resume=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
    return failed


def report(base: Path, options: argparse.Namespace) -> str:
    """All claims with what was found on either device."""
    found = {device: judged(base / device, options) for device in NAMES}
    told = found["cpu"] | {
        k: x for k, x in found["cuda"].items() if k not in found["cpu"]
    }
    missing = [id for id in IDS if id not in told]
    lines = [
        "# The paper's claims, measured again",
        "",
        'Y. Song, N. Sebe, W. Wang, "Batch-efficient EigenDecomposition for Small and',
        'Medium Matrices", ECCV 2022. Written by `python scripts/reproduce.py`; tables',
        "and pictures are beside the commands in `scripts/paper`. `reference` is the",
        "paper's algorithm as array code, `bed` the engine that `bed.eigh` chooses.",
        "*Of their baseline only* means: it holds beside a loop over matrices, as the",
        "paper's version of torch solved batches, and not beside today's torch.",
        "",
        "The paper timed a GPU. On a CPU calls are cheap, and nothing waits for more",
        "work: what its columns say of speed and memory does not decide about a GPU.",
        "",
        *(f"- {line}" for line in _machines(base)),
        "",
        *_summary(found),
    ]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    for kind, title in GROUPS.items():
        lines += ["", f"## {title}", "", _row(HEADS), _row(["---"] * len(HEADS))]
        for id in IDS:
            if id[0] == kind and id in told:
                lines.append(_row(_cells(id, told[id], found)))
    return "\n".join(lines) + "\n"


HEADS = (
    "id", "claim", "the paper", "CPU", "verdict", "GPU", "verdict", "why", "command"
)  # fmt: skip


def judged(folder: Path, options: argparse.Namespace) -> dict[str, tuple]:
    """Claims by id, each with the command of its script."""
    found = {}
    for name in (*ON_DEVICE, *ON_HOST):
        path = folder / f"{name}.csv"
        if path.exists():
            command = f"python scripts/paper/{name}.py" + " --smoke" * options.smoke
            try:
                rows = harness.read(path)
            except ValueError as problem:
                raise SystemExit(f"{problem}; measure it again") from problem
            for claim in import_module(name).claims(rows):
                found[claim.id] = claim, command
    return found


def _cells(id: str, told: tuple, found: dict) -> list[str]:
    claim, command = told
    cells = [id, claim.claim, claim.paper]
    for device in NAMES:
        one = found[device].get(id)
        cells += [one[0].ours, f"*{one[0].verdict}*"] if one else ["", ""]
    return [*cells, claim.why, f"`{command}`"]


def _row(cells) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _machines(base: Path) -> list[str]:
    """Where the tables are from, each line once."""
    lines = {}
    for device, name in NAMES.items():
        for path in sorted((base / device).glob("*.csv")):
            if path.stem not in (*ON_DEVICE, *ON_HOST):
                continue
            machine, commit, _, clock = harness.comments(path)
            lines[f"{name}: {machine}; {commit}; {clock}"] = None
    return list(lines)


def _summary(found: dict) -> list[str]:
    lines = ["| verdict | CPU | GPU |", "| --- | --- | --- |"]
    for verdict in harness.VERDICTS:
        counts = [
            sum(claim.verdict == verdict for claim, _ in found[device].values()) or ""
            for device in NAMES
        ]
        lines.append(f"| *{verdict}* | {counts[0]} | {counts[1]} |")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
