"""The two files that a run leaves: everything as JSON, and tables to read."""

import datetime
import json
from dataclasses import asdict
from pathlib import Path

from . import targets

PEERS = ("torch", "cupy", "jax", "cusolverdx")
KINDS = ("residual", "orthogonality", "values")


def write(run, folder: Path) -> list[Path]:
    """Write both; named by device and date."""
    date = datetime.date.today().isoformat()
    stem = f"gpu_acceptance_{run.environment.get('short_name', 'unknown')}_{date}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.json", folder / f"{stem}.md"]
    verdicts = targets.verdicts(run.cells, run.environment.get("device", "unknown"))
    data = {
        "date": date,
        "seed": run.seed,
        "smoke": run.smoke,
        "seconds": run.elapsed(),
        "environment": run.environment,
        "parts": [asdict(part) for part in run.parts],
        "timings": run.cells,
        "left_out": run.left_out,
        "targets": [asdict(verdict) for verdict in verdicts],
    }
    paths[0].write_text(json.dumps(data, indent=1, default=float) + "\n", "utf-8")
    paths[1].write_text("\n".join(markdown(run, date, verdicts)) + "\n", "utf-8")
    return paths


def markdown(run, date, verdicts) -> list[str]:
    """The lines of the second file."""
    facts = run.environment
    smoke = " (smoke test)" if run.smoke else ""
    return [
        f"# GPU acceptance: {facts.get('device', 'unknown')}, {date}{smoke}",
        "",
        f"Made by `scripts/gpu_acceptance.py` in {run.elapsed():.0f} s, seed "
        f"{run.seed}.",
        "",
        *table(("", ""), [(key, value) for key, value in facts.items()]),
        "",
        *correctness(run.parts),
        *overhead(run.parts),
        *times(run),
        "## Targets",
        "",
        f"Peers timed in this run: {', '.join(timed_peers(run)) or 'none'}.",
        "",
        *table(
            ("target", "in this run", "numbers"),
            [(v.target, v.state, v.detail) for v in verdicts],
        ),
    ]


def correctness(parts) -> list[str]:
    """What was checked, the largest errors, and every failure and note."""
    rows = []
    for part in parts:
        worst = [_worst(part.worst.get(kind)) for kind in KINDS]
        rows.append(
            (
                part.name,
                part.title,
                part.cases,
                *worst,
                part.state,
                f"{part.seconds:.1f}",
            )
        )
    header = ("part", "what", "cases", *KINDS, "outcome", "s")
    lines = [
        "## Parts",
        "",
        "Largest errors in n·eps of the largest entry of a matrix; 8 are allowed.",
        "",
        *table(header, rows),
        "",
    ]
    for part in parts:
        if part.failed:
            lines.append(f"**{part.name}: {part.failed} failures**")
            lines += ["", *(f"- {_line(text)}" for text in part.failures), ""]
    notes = [f"- {p.name}: {_line(text)}" for p in parts for text in p.notes]
    return [*lines, *notes, ""]


def overhead(parts) -> list[str]:
    """Host time of calls."""
    found = [p for p in parts if p.name == "overhead" and p.data]
    if not found:
        return []
    rows, data = [], found[0].data
    for size, calls in data.items():
        if isinstance(calls, dict):
            rows += [
                (size, name, f"{x['median']:.1f}", f"{x['low']:.1f}")
                for name, x in calls.items()
            ]
    return [
        "## Host time of a call, without waiting",
        "",
        *table(("", "call", "median µs", "lowest tenth µs"), rows),
        "",
    ]


def times(run) -> list[str]:
    """One row for every cell."""
    if not run.cells and not run.left_out:
        return []
    present = [name for name in PEERS if any(name in c["peers"] for c in run.cells)]
    rows, notes = [], {}
    for cell in run.cells:
        peers = []
        for name in present:
            found = cell["peers"].get(name, {})
            if "ms" in found:
                peers.append(f"{found['ms']:.4g}")
                continue
            note = found.get("note", "")
            peers.append(f"[{notes.setdefault(note, len(notes) + 1)}]" if note else "")
        rows.append(
            (
                cell["dtype"],
                cell["n"],
                cell["batch"],
                "" if cell["vectors"] else "values",
                f"{cell['bed_ms']:.4g}",
                f"{cell['engine_ms']:.4g}",
                *peers,
                f"{cell['ratio']:.3g} ({cell['best_peer']})" if "ratio" in cell else "",
                f"{cell['gb_s']:.3g}",
                f"{cell['share']:.1%}",
                "" if cell["bed_bytes"] is None else f"{cell['bed_bytes'] / 1e6:.1f}",
            )
        )
    header = ["dtype", "n", "batch", "", "bed ms", "engine ms"]
    header += [f"{name} ms" for name in present]
    header += ["best peer / bed", "GB/s", "of copy", "bed MB"]
    copy = [p.data["copy_gb_s"] for p in run.parts if "copy_gb_s" in p.data]
    measured = f" (here {copy[0]:.0f} GB/s)" if copy else ""
    lines = [
        "## Times",
        "",
        "Values and vectors unless said. Back-to-back calls, median of several runs: "
        "events on the stream, for JAX the host's clock. bed is `bed.eigh` as called, "
        "engine its kernel into given outputs. GB/s counts the input read once and the "
        f"outputs written once, beside a copy inside the device{measured}, read and "
        "written. bed MB is what a call allocates, outputs included. JAX may take 40 % "
        "of the memory of the device.",
        "",
        *table(header, rows),
        "",
    ]
    lines += [f"[{number}] {_line(note)}  " for note, number in notes.items()]
    if run.left_out:
        lines += ["", "Left out: " + "; ".join(run.left_out) + "."]
    return [*lines, ""]


def timed_peers(run) -> list[str]:
    """Those with a time in some cell."""
    return [
        name
        for name in PEERS
        if any("ms" in cell["peers"].get(name, {}) for cell in run.cells)
    ]


def table(header, rows) -> list[str]:
    """A markdown table."""
    lines = [tuple(header), ("---",) * len(header), *rows]
    return ["| " + " | ".join(_line(x) for x in line) + " |" for line in lines]


def _worst(by_dtype) -> str:
    return f"{max(by_dtype.values(), key=_nan_last):.2f}" if by_dtype else ""


def _nan_last(x) -> float:
    return float("inf") if x != x else x


def _line(text) -> str:
    return str(text).replace("\n", " ").replace("|", "\\|")
