"""What pytest checks on the device: a list of the project's tests for each part.

Every list runs in a process of its own, so that a fault of one, which can leave the
device unusable for the process, does not blind the others. What pytest needs may come
from a folder of wheels; README in this folder says how to fill it.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from . import ROOT

MISSING = (
    "pytest is not here, so nothing of this was checked: fill a folder where there is "
    "a network, pip download --dest WHEELS pytest pytest-xdist array-api-compat "
    "threadpoolctl, and pass --wheels WHEELS"
)
# Exit codes of pytest that are no accident: passed, failed.
ENDED = (0, 1)
# Processes at most for the tests of one part, where pytest-xdist is.
MAX_PROCESSES = 8


@dataclass(frozen=True)
class Tests:
    """Tests of a part, and which of them are enough for a smoke test (pytest's -k)."""

    title: str
    files: tuple[str, ...]
    smoke: str = ""


PARTS = {
    "spectra": Tests(
        "The fused engine on known spectra: every n to 64, both triangles, NaN unread",
        ("tests/gpu/test_spectra.py",),
        "3-f4 or 9-c16 or 33-f8",
    ),
    "memory": Tests(
        "Views, half precision, given outputs, ends of blocks, in every kernel",
        ("tests/gpu/test_inputs.py", "tests/gpu/test_outputs.py"),
        "f4 or nothing or float16",
    ),
    "bits": Tests(
        "The same bits anywhere, on any stream; failures stay alone, in a million too",
        ("tests/gpu/test_bits.py", "tests/gpu/test_failures.py"),
        "f4",
    ),
    "handoff": Tests(
        "Array interfaces, torch and its gradients, JAX; what a call takes and keeps",
        (
            "tests/gpu/test_handoff.py",
            "tests/gpu/test_torch.py",
            "tests/gpu/test_resources.py",
            "tests/test_cases_interop.py",
        ),
        "3-f4 or half or gradient or kept or second or left",
    ),
    "jax_jit": Tests(
        "Under jax.jit: XLA's memory, its stream, no host copies",
        ("tests/gpu/test_jax_jit.py",),
        "3-f4 or nan or allocates",
    ),
    "zoo": Tests(
        "Every engine on the zoo, on planted spectra and on real matrices",
        ("tests/test_engines.py",),
        "(raw_cuda-9-f4 or real_matrices) and raw_cuda",
    ),
    "functions": Tests(
        "Functions of matrices and their gradients, in every kernel; the contract",
        ("tests/gpu/test_functions.py", "tests/test_functions_contract.py"),
        "float32_that_is or raw_cuda-3-f4",
    ),
    "stages": Tests(
        "The engine of a Numba kernel for each stage, n to 128",
        ("tests/gpu/test_stages_engine.py",),
        "2-f4 or 8-c16",
    ),
    "contract": Tests(
        "Every engine: the contract of bed.eigh, and faults reported elsewhere",
        ("tests/test_eigh.py", "tests/test_cases.py"),
        "raw_cuda and (one_by_one or overflowing or strides)",
    ),
}


def unpacked(wheels: Path | None, into: Path) -> list[str]:
    """Folders for the path of the children, with the wheels of a folder unpacked."""
    if wheels is None:
        return []
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into)
    return [str(into)]


def run_tests(name: str, wheels: Path | None, run, part) -> None:
    """Run the tests of a part; each is a case."""
    from ._cases import processes  # needs CuPy

    tests = PARTS[name]
    with tempfile.TemporaryDirectory() as folder:
        extra = unpacked(wheels, Path(folder, "wheels"))
        path = [*extra, str(ROOT), str(ROOT / "tests"), str(ROOT / "scripts")]
        if PathFinder.find_spec("pytest", [*extra, *sys.path]) is None:
            part.notes.append(MISSING)
            part.stopped = True
            return
        record = Path(folder, "record")
        words = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
        words += ["-p", "acceptance.recorder", *tests.files]
        if run.smoke and tests.smoke:
            words += ["-k", tests.smoke]
        elif PathFinder.find_spec("xdist", [*extra, *sys.path]) is not None:
            words += ["-n", str(min(MAX_PROCESSES, processes()))]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
            "BED_TEST_SEED": str(run.seed),
            "BED_ACCEPTANCE_RECORD": str(record),
        }
        if run.smoke:
            environment["BED_GPU_FEW"] = "1"
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=max(1.0, run.left() / 2),  # the rest is for other parts
            )
        except subprocess.TimeoutExpired:
            part.notes.append("stopped, no time left: the rest did not run")
            part.stopped = True
        else:
            if done.returncode not in ENDED or not record.exists():
                text = done.stdout.decode(errors="replace")[-800:]
                part.fail(f"pytest ended with {done.returncode}: {text}")
        count(record, part)


def count(record: Path, part) -> None:
    """Enter what the tests reported, as far as they came."""
    reasons: dict[str, int] = {}
    lines = record.read_text("utf-8").splitlines() if record.exists() else ()
    for line in lines:
        report = json.loads(line)
        if report["outcome"] == "skipped":
            reasons[report["text"]] = reasons.get(report["text"], 0) + 1
            continue
        part.expect(report["outcome"] == "passed", f"{report['id']}: {report['text']}")
        for kind, dtype, value in report["worst"]:
            part.note_worst(kind, dtype, value)
    part.notes += [f"skipped {times}: {text}" for text, times in reasons.items()]
