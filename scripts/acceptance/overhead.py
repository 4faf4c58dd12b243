"""What a call costs the host, which does not wait for the result."""

import cProfile
import pstats
import time
from pathlib import Path

import numpy as np

import bed

from ._cases import hermitian
from ._device import engine, put, synchronize

# Calls between two waits: few enough that the launch queue never fills.
CALLS = 20
PROFILED = 300
TOP = 20


def overhead(run, part) -> None:
    """Microseconds of a call on the host without waiting."""
    for n in (4, 16, 40):
        a = put(hermitian(run.rng("overhead", n), 8, n, np.dtype("f4")))
        part.data[f"n = {n}"] = {
            name: microseconds(call, 3 if run.smoke else 30)
            for name, call in calls_with(a).items()
        }
        part.cases += 1
    a = put(hermitian(run.rng("overhead"), 8, 4, np.dtype("f4")))
    part.data["profile of bed.eigh"] = profile(lambda: bed.eigh(a))


def calls_with(a) -> dict:
    """The calls that are timed, from the public ones down to a launch."""
    direct = engine()
    out = direct(a)
    values_out = (out[0], None, out[2])
    return {
        "bed.eigh": lambda: bed.eigh(a),
        "bed.eigh with status": lambda: bed.eigh(a, return_info=True),
        "bed.eigvalsh": lambda: bed.eigvalsh(a),
        "engine": lambda: direct(a),
        "engine, given outputs": lambda: direct(a, out=out),
        "engine, given outputs, values": lambda: direct(
            a, eigenvectors=False, out=values_out
        ),
    }


def microseconds(call, rounds: int) -> dict[str, float]:
    """Median and lower decile of single calls."""
    times = []
    for _ in range(rounds + 1):
        synchronize()
        for _ in range(CALLS):
            began = time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1e6)
    synchronize()
    times = times[CALLS:]  # the first round warms up
    return {"median": float(np.median(times)), "low": float(np.quantile(times, 0.1))}


def profile(call) -> list[dict]:
    """The functions that take longest, by their own time."""
    profiler = cProfile.Profile()
    for _ in range(PROFILED // CALLS):
        profiler.enable()
        for _ in range(CALLS):
            call()
        profiler.disable()
        synchronize()
    rows = []
    for (file, line, name), (_, calls, own, total, _) in pstats.Stats(
        profiler
    ).stats.items():
        rows.append(
            {
                "function": f"{Path(file).name}:{line}({name})",
                "calls": calls / PROFILED,
                "own_us": own / PROFILED * 1e6,
                "total_us": total / PROFILED * 1e6,
            }
        )
    return sorted(rows, key=lambda row: -row["own_us"])[:TOP]
