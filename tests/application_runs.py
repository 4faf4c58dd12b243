"""What the tests of the applications share: runs in smoke size, killed and not."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bed.cli._table import read_table

FOLDER = Path(__file__).parents[1] / "scripts" / "applications"


def module(name: str):
    """A file of scripts/applications."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)


def rows(path: Path) -> list[dict[str, str]]:
    """Of a table."""
    return read_table(path)[1]


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
