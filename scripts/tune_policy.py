"""Measure which engine is fastest for each size, dtype and output; write the table.

    python scripts/tune_policy.py                  # this machine's CPU
    python scripts/tune_policy.py --device cuda    # its GPU
    python scripts/tune_policy.py --device cuda --report FILE.json

With a report of scripts/gpu_acceptance.py nothing is measured, but its times are taken:
those of the engines with kernels of their own beside cuSOLVER's.

One thread each. The part of the table for the other device stays as it is. Times are
compared within one run, engine against engine in turns, and only their ratios are kept.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    os.environ["NUMBA_NUM_THREADS"] = "1"  # read when the first engine starts

import numpy as np

from bed._config import devices, installed_versions, processor
from bed._console import ArgumentParser, progress, show
from bed._dispatch import policy
from bed._dispatch.interop import put
from bed.cli._peers import awaited
from bed.engines import DTYPES, engines
from bed.testing.clock import in_turns
from bed.testing.matrices import random_hermitian

TABLE = Path(policy.__file__).with_name("table.json")
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384)
# Entries of a batch: a few tens of milliseconds at n = 32 on one core. No batch is
# smaller than a block of the engines that work on several matrices at a time.
ENTRIES = {"cpu": 1 << 19, "cuda": 1 << 25}
SMALLEST_BATCH, LARGEST_BATCH = 64, 20_000
# An engine that is fast on batches is not chosen if a matrix alone takes it longer than
# this many times the time of the fastest one. The choice cannot depend on the batch,
# because the bits of a result must not.
LARGEST_LOSS_ALONE = 2.25
# Never chosen, because it is to be read.
TO_BE_READ = ("reference",)
# Beyond the sizes that are measured: blocked algorithms of the libraries.
BEYOND = {"cpu": "lapack", "cuda": "cusolver"}
# What a report times where fused kernels end.
NUMBA_TIMES = ("numba_cuda", "cusolver")
# Rounds in which every engine has its turn, and seconds after which none is begun.
ROUNDS, ENOUGH = 15, 5.0


def main(arguments=None) -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--output", type=Path, default=TABLE)
    parser.add_argument("--report", type=Path, help="of a run on a GPU")
    options = parser.parse_args(arguments)
    if options.report and options.device != "cuda":
        parser.error("--report is of a GPU: add --device cuda")
    if options.report:
        measured, rows = from_report(report_in(options.report))
    else:
        measured, rows = circumstances(options.device), by_measuring(options)
    show(*rows)
    rows.append(policy.Row("any", None, None, BEYOND[options.device], {}))
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    table[options.device] = {
        "measured": measured,
        "rows": [row._asdict() for row in rows],
    }
    options.output.write_text(as_text(table), encoding="utf-8")
    return 0


def by_measuring(options) -> list[policy.Row]:
    """All engines of the device that are here, for every kind of call."""
    candidates = [
        engine
        for engine in engines()
        if options.device in engine.devices
        and engine.name not in TO_BE_READ
        and engine.missing() is None
    ]
    return rows_of_all(
        lambda dtype, eigenvectors: [
            (n, *fastest(candidates, n, dtype, options.device, eigenvectors))
            for n in sorted(options.n)
        ]
    )


def rows_of_all(ratios: Callable) -> list[policy.Row]:
    """The rows for every kind of call, of ``ratios(dtype, eigenvectors)``."""
    return [
        row
        for dtype in DTYPES
        for eigenvectors in (True, False)
        for row in merged(ratios(dtype, eigenvectors), dtype.name, eigenvectors)
    ]


def report_in(path: Path) -> dict:
    """A report that has times to go by, or an error."""
    try:
        report = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise SystemExit(f"{path} cannot be read: {problem}") from problem
    parts = "date", "environment", "parts", "timings"
    if not isinstance(report, dict) or any(part not in report for part in parts):
        raise SystemExit(f"{path} is no report of scripts/gpu_acceptance.py")
    if report.get("smoke"):
        raise SystemExit(f"{path} is of a smoke test, whose times decide nothing")
    return report


def from_report(report) -> tuple[str, list[policy.Row]]:
    """Where times of a report were measured, and the rows that they make.

    Kinds of calls that it has no times for keep the engine with fused kernels.
    """
    reported = times_reported(report)
    if not reported:
        raise SystemExit("the report has no times of cuSOLVER to compare with")
    rows = rows_of_all(
        lambda dtype, eigenvectors: [
            (n, *chosen(*_together_and_alone(by_batch)))
            for (name, wanted, n), by_batch in sorted(reported.items())
            if (name, wanted) == (dtype.name, eigenvectors)
        ]
    )
    largest = next(engine.max_n for engine in engines() if engine.name == "raw_cuda")
    rows.append(policy.Row("any", None, largest, "raw_cuda", {}))
    facts = report["environment"]
    versions = ", ".join(
        f"{x} {facts[x]}" for x in ("cupy", "numba-cuda") if x in facts
    )
    command = "python scripts/gpu_acceptance.py"
    return f"{facts['device']}; {versions}; {report['date']}; {command}", rows


def times_reported(report) -> dict[tuple, dict[int, dict[str, float]]]:
    """Times of engines by batch, for each dtype, kind of call and size."""
    found: dict[tuple, dict[int, dict[str, float]]] = defaultdict(dict)
    for cell in report["timings"]:
        peer = cell["peers"].get("cupy", {})
        if "ms" in peer:
            times = {"raw_cuda": cell["engine_ms"], "cusolver": peer["ms"]}
            found[cell["dtype"], cell["vectors"], cell["n"]][cell["batch"]] = times
    parts = [part for part in report["parts"] if part["name"] == "numba_times"]
    for cell in [cell for part in parts for cell in part["data"].get("cells", ())]:
        if all(f"{name}_ms" in cell for name in NUMBA_TIMES):
            times = {name: cell[f"{name}_ms"] for name in NUMBA_TIMES}
            found[cell["dtype"], True, cell["n"]][cell["batch"]] = times
    return found


def _together_and_alone(by_batch) -> tuple[dict[str, float], dict[str, float]]:
    """Times of the largest batch, and of one matrix, where there are, or else these."""
    together = by_batch[max(by_batch)]
    return together, by_batch.get(1, together)


def fastest(candidates, n, dtype, device, eigenvectors) -> tuple[str, float]:
    """The engine to choose, and the best time of another one over its time."""
    taking = [engine for engine in candidates if engine.takes(n)]
    progress(f"{dtype} n = {n} …")
    batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, ENTRIES[device] // (n * n)))
    rng = np.random.default_rng()
    a = put(random_hermitian(rng, (batch, n, n), dtype), device)
    together = times(taking, a, device, eigenvectors)
    alone = times(taking, a[:1], device, eigenvectors)
    progress("")
    return chosen(together, alone)


def chosen(together, alone) -> tuple[str, float]:
    """Of times of a batch and of one matrix: the engine, and by what it is faster."""
    allowed = LARGEST_LOSS_ALONE * min(alone.values())
    name = min((x for x in together if alone[x] <= allowed), key=together.get)
    others = [time for x, time in together.items() if x != name]
    return name, min(others, default=np.inf) / together[name]


def times(taking, a, device, eigenvectors) -> dict[str, float]:
    """Seconds of each engine, medians of some rounds in which all have turns."""
    calls = {}
    for engine in taking:
        solve = partial(engine.load(), a, eigenvectors=eigenvectors)
        calls[engine.name] = awaited(solve, device)
    return in_turns(calls, rounds=ROUNDS, enough=ENOUGH)


def merged(ratios, dtype, eigenvectors) -> list[policy.Row]:
    """Rows of the table: runs of sizes with the same engine."""
    rows: list[policy.Row] = []
    for n, engine, ratio in ratios:
        if not rows or rows[-1].engine != engine:
            rows.append(policy.Row(dtype, eigenvectors, n, engine, {}))
        rows[-1] = rows[-1]._replace(largest_n=n)
        if np.isfinite(ratio):
            rows[-1].speedups[str(n)] = round(float(ratio), 2)
    return rows


def circumstances(device) -> str:
    """Where, when, with what and how."""
    where = processor() if device == "cpu" else devices()[1]
    command = "python scripts/tune_policy.py"
    if device != "cpu":
        command += f" --device {device}"
    today = date.today().isoformat()
    return f"{where}; {', '.join(installed_versions())}; {today}; {command}"


def as_text(table) -> str:
    """JSON with one line a row."""
    parts = []
    for device, part in table.items():
        rows = ",\n".join(f"      {json.dumps(row)}" for row in part["rows"])
        measured = json.dumps(part["measured"], ensure_ascii=False)
        parts.append(
            f'  "{device}": {{\n    "measured": {measured},\n'
            f'    "rows": [\n{rows}\n    ]\n  }}'
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
