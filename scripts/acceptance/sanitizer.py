"""A small set of calls under NVIDIA's compute-sanitizer, where it is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import ROOT

TOOLS = ("memcheck", "racecheck")
TIMEOUT = 60  # seconds for both, which run at the same time
FOUND = 99  # the exit code that stands for errors found

# One size for every kind of kernel, an odd number of matrices, strides and NaN.
CALLS = """
import cupy, numpy as np, bed
from bed.engines.raw_cuda import _split_layouts

rng = np.random.default_rng(0)

def call(kind, n):
    a = rng.standard_normal((7, n, n)).astype(kind)
    a[2, n - 1, 0] = np.nan
    there = cupy.asarray(a)
    for view in (there, there[::-1, ::-1, ::-1]):
        for uplo in "LU":
            bed.eigh(view, uplo, return_info=True)[2].get()
            bed.eigvalsh(view, uplo).get()

for kind, n in (("f4", 3), ("f4", 11), ("f4", 20), ("f8", 64), ("c8", 5), ("c16", 9)):
    call(kind, n)
_split_layouts.CHOSEN.update(_split_layouts.POSSIBLE)
for kind, n in (("f8", 40), ("c8", 50)):
    call(kind, n)
print("done")
"""


def sanitizer(run, part) -> None:
    """compute-sanitizer's memcheck and racecheck on a call of every kind of kernel."""
    program = find()
    if program is None:
        return part.notes.append(
            "compute-sanitizer was not found on PATH or in CUDA_HOME: not run"
        )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = (sys.executable, "-c", CALLS)
    running = {
        tool: subprocess.Popen(
            (program, "--tool", tool, "--error-exitcode", str(FOUND), *words),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for tool in TOOLS
    }
    end = min(TIMEOUT, max(5.0, run.left())) + run.elapsed()
    for tool, process in running.items():
        try:
            text, _ = process.communicate(timeout=max(1.0, end - run.elapsed()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            part.notes.append(f"{tool} was stopped: no time left")
            continue
        part.data[tool] = {"exit": process.returncode, "output": text[-2000:]}
        if process.returncode not in (0, FOUND):
            # The tool itself did not work, for instance with this driver.
            part.notes.append(f"{tool} ended with {process.returncode}: {text[-200:]}")
            continue
        clean = process.returncode == 0 and "done" in text
        part.expect(clean, f"{tool}: {text[-500:]}")


def find() -> str | None:
    """The program, from PATH or a CUDA toolkit."""
    if found := shutil.which("compute-sanitizer"):
        return found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        for folder in ("bin", "compute-sanitizer"):
            place = Path(os.environ.get(variable, "/usr/local/cuda")) / folder
            if (place / "compute-sanitizer").is_file():
                return str(place / "compute-sanitizer")
    return None
