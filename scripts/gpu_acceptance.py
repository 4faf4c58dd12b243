#!/usr/bin/env python
"""Check and time bed on one GPU, in one command of under four minutes.

    PYTHONPATH=. python3 scripts/gpu_acceptance.py --wheels WHEELS
    PYTHONPATH=. python3 scripts/gpu_acceptance.py --quick

Needs Python 3.10, NumPy, CuPy and a CUDA device; nothing has to be installed besides.
torch and JAX are checked and timed where they are present, the engine of Numba kernels
where numba-cuda is, kernels of cuSolverDx where `--peers` names a folder
(acceptance/cusolverdx.py says what it holds). Tests of the project check correctness:
pytest is taken from the folder that `--wheels` names, which acceptance/README fills, or
from where it is installed; without it the report says so, and times are taken still.

Every kernel is compiled and checked first, in seconds: that is all that `--quick` does,
in a minute at most. Then come the times, for half of what is left, and then the rest:
parts do not depend on each other and do not share a process once one has failed. What
was left out is listed. Leaves gpu_acceptance_DEVICE_DATE.json and .md in --out. The
exit code is 0 if no part failed or found no time, 1 otherwise, 2 without a device.
"""

import argparse
import os
import secrets
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from acceptance import ROOT, device_tests

from bed._console import ArgumentParser, show

# In this order: a list of tests, or module of `acceptance` and function.
PARTS = {
    "compile": ("compile", "compile_kernels"),
    "kernels": ("kernels", "kernels"),
    "timings": ("timings", "timings"),
    "function_times": ("function_times", "times"),
    "several": ("several_launches", "several"),
    **dict.fromkeys(device_tests.PARTS),
    "ten_million": ("limits", "ten_million"),
    "int32": ("limits", "beyond_int32"),
    "streams": ("streams", "late_producer"),
    "graphs": ("streams", "graphs"),
    "sanitizer": ("sanitizer", "sanitizer"),
    "overhead": ("overhead", "overhead"),
    "numba_times": ("numba_times", "times"),
}
# What `--quick` does, and the minutes that it may take.
QUICK, QUICK_MINUTES = ("compile", "kernels"), 1.0
# Seconds beyond the budget after which a part that hangs is ended.
PATIENCE = 45

# Before JAX is imported: float64, and memory left for the others.
SETTINGS = {
    "JAX_ENABLE_X64": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts, write the report, return the exit code."""
    options = parse(arguments)
    if options.quick:
        options.only = options.only or QUICK
        options.minutes = min(options.minutes, QUICK_MINUTES)
    if missing := nothing_to_run_on():
        show(f"gpu_acceptance: {missing}", file=sys.stderr)
        return 2
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from acceptance import _worker, environment, report
    from acceptance._run import Run

    run = Run(options.minutes, options.smoke, options.seed, options.peers)
    worker = _worker.Worker()
    found, problem = worker.call(_worker.facts, run, seconds=PATIENCE)
    if found is None:
        show(f"gpu_acceptance: {problem}", file=sys.stderr)
        return 2
    run.environment = found
    run.environment["short_name"] = environment.short_name(found["device"])
    for name, value in run.environment.items():
        show(f"{name}: {value}")
    show(f"seed: {run.seed}")
    for name in options.only or PARTS:
        if name in device_tests.PARTS:
            tests = partial(device_tests.run_tests, name, options.wheels)
            run.do(name, tests, title=device_tests.PARTS[name].title)
        else:
            worker.part(run, name, *PARTS[name], max(run.left(), 0) + PATIENCE)
    worker.end()
    return finish(run, options, report)


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny version, seconds")
    parser.add_argument(
        "--quick", action="store_true", help="every kernel, checked in a minute"
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--minutes", type=float, default=4.0, help="time budget")
    parser.add_argument("--out", type=Path, default=ROOT / "scripts" / "results")
    parser.add_argument(
        "--wheels", type=Path, help="folder of wheels: pytest and what it needs"
    )
    parser.add_argument("--peers", type=Path, help="folder of cuSolverDx kernels")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    return parser.parse_args(arguments)


def nothing_to_run_on() -> str | None:
    """What is missing, or None."""
    if find_spec("cupy") is None:
        return "needs CuPy: pip install 'cupy-cuda12x[ctk]' or 'cupy-cuda13x[ctk]'"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy fails in many ways without a driver
        return f"CuPy finds no CUDA device: {error}"
    return None if count else "CuPy finds no CUDA device"


def finish(run, options, report) -> int:
    """Write the report and sum up."""
    paths = report.write(run, options.out)
    failed = [part.name for part in run.parts if part.state == "failed"]
    left_out = [part.name for part in run.parts if part.state == "left out"]
    cases = sum(part.cases for part in run.parts)
    run.say(f"{cases} cases, {len(run.cells)} cells; report: {paths[1]}")
    if left_out:
        run.say(f"left out: {', '.join(left_out)}")
    run.say(f"FAILED: {', '.join(failed)}" if failed else "all parts that ran passed")
    return 1 if failed or left_out else 0


if __name__ == "__main__":
    raise SystemExit(main())
