#!/usr/bin/env python
"""Check and time bed on one GPU, in one command of under four minutes.

    PYTHONPATH=. python3 scripts/gpu_acceptance.py

Needs Python 3.10, NumPy, CuPy and a CUDA device; nothing has to be installed besides.
torch and JAX are checked and timed where they are present, the staged engine where
numba-cuda is, kernels of cuSolverDx where `--peers` names a folder
(acceptance/cusolverdx.py says what it holds).

Correctness comes first, in parts that do not depend on each other: a part that fails or
crashes is reported and the rest still run. Then times, until the time is up; what was
left out is listed. Leaves gpu_acceptance_DEVICE_DATE.json and .md in --out. The exit
code is 0 if no part failed or found no time, 1 otherwise, 2 without a device.
"""

import argparse
import importlib
import multiprocessing
import os
import secrets
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import acceptance
from acceptance import ROOT

# In this order: module of `acceptance` and function.
PARTS = {
    "compile": ("compile", "compile_kernels"),
    "zoo": ("spectra", "known_spectra"),
    "real": ("spectra", "real"),
    "strided": ("inputs", "strided"),
    "half": ("inputs", "half_types"),
    "outputs": ("outputs", "guarded"),
    "small": ("outputs", "small"),
    "memory": ("outputs", "memory"),
    "bits": ("bits", "same_bits"),
    "sizes": ("bits", "any_order"),
    "failures": ("failures", "in_every_kernel"),
    "million": ("failures", "among_a_million"),
    "boundaries": ("limits", "boundaries"),
    "ten_million": ("limits", "ten_million"),
    "int32": ("limits", "beyond_int32"),
    "streams": ("streams", "late_producer"),
    "graphs": ("streams", "graphs"),
    "unchanged": ("streams", "unchanged"),
    "interfaces": ("handoff", "interfaces"),
    "kept": ("handoff", "kept"),
    "second_device": ("handoff", "second_device"),
    "torch": ("interop", "torch_tensors"),
    "gradients": ("handoff", "gradients"),
    "jax": ("interop", "jax_arrays"),
    "jax_ffi": ("jax_ffi", "under_jit"),
    "sanitizer": ("sanitizer", "sanitizer"),
    "staged": ("staged", "correct"),
    "overhead": ("overhead", "overhead"),
    "staged_times": ("staged", "times"),
    "timings": ("timings", "timings"),
}
# Seconds beyond the budget after which a run that hangs is ended.
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
    if missing := nothing_to_run_on():
        print(f"gpu_acceptance: {missing}", file=sys.stderr)
        return 2
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from acceptance import _device, environment, report
    from acceptance._run import Run

    run = Run(options.minutes, options.smoke, options.seed, options.peers)
    run.environment = environment.describe()
    run.environment["short_name"] = environment.short_name(run.environment["device"])
    for name, value in run.environment.items():
        print(f"{name}: {value}")
    print(f"seed: {run.seed}", flush=True)
    watch(run, options, report)
    for name in options.only or PARTS:
        module, function = PARTS[name]
        run.do(name, part_function(module, function), _device.synchronize)
    return finish(run, options, report)


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny version, seconds")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--minutes", type=float, default=4.0, help="time budget")
    parser.add_argument("--out", type=Path, default=ROOT / "scripts" / "results")
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


def part_function(module: str, name: str):
    """The function of a part; if its module cannot be imported, one that raises."""
    try:
        return getattr(importlib.import_module(f"{acceptance.__name__}.{module}"), name)
    except Exception as error:
        problem = error

        def unusable(run, part):
            raise problem

        return unusable


def watch(run, options, report) -> None:
    """End a run that hangs, for instance in a kernel, with a report of what it did."""

    def end():
        part = run.parts[-1]
        part.fail("did not end in time")
        part.state = "failed"
        finish(run, options, report)
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(1)

    timer = threading.Timer(options.minutes * 60 + PATIENCE, end)
    timer.daemon = True
    timer.start()


def finish(run, options, report) -> int:
    """Write the report and sum up."""
    paths = report.write(run, options.out)
    failed = [part.name for part in run.parts if part.state == "failed"]
    left_out = [part.name for part in run.parts if part.state == "left out"]
    cases = sum(part.cases for part in run.parts)
    run.say(f"{cases} cases, {len(run.cells)} cells; report: {paths[1]}")
    if left_out:
        run.say(f"left out, no time left: {', '.join(left_out)}")
    run.say(f"FAILED: {', '.join(failed)}" if failed else "all parts that ran passed")
    return 1 if failed or left_out else 0


if __name__ == "__main__":
    raise SystemExit(main())
