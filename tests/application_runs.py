"""What the tests of the applications share: runs in smoke size, killed and not."""

import csv
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "scripts" / "applications"


def module(name: str):
    """A file of scripts/applications."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)


def comments(path: Path) -> list[str]:
    """The lines above a table."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("#")]


def rows(path: Path) -> list[dict[str, str]]:
    """Of a table."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def without_times(path: Path) -> list[dict[str, str]]:
    times = module("_train").TIMES
    return [{k: x for k, x in row.items() if k not in times} for row in rows(path)]


def killed_and_run_again(
    name: str, folder: Path, words: list[str], begun: Callable[[Path], object]
) -> None:
    """Leave `steady` and `killed` in a folder, of a run and of one that was killed.

    It is killed as soon as ``begun(folder)`` of its own folder is true.
    """

    def start(out: Path):
        return subprocess.Popen(
            [sys.executable, FOLDER / f"{name}.py", *words, "--out", out],
            env={
                **os.environ,
                "PYTHONPATH": str(FOLDER.parents[1]),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.DEVNULL,
        )

    assert start(folder / "steady").wait(120) == 0
    killed = folder / "killed"
    with start(killed) as process:
        deadline = time.monotonic() + 120
        while not begun(killed):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    assert not (killed / f"{name}.csv").exists()
    assert start(killed).wait(120) == 0
