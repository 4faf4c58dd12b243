"""A file larger than memory may be: killed twice on the way, and what memory it takes.

Writes random 3 × 3 matrices, solves them by ``python -m bed eigh`` once without and
once with interruptions, and compares the results byte for byte. Beside them stands the
time of a plain copy of the file. Linux only.
"""

import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bed._console import ArgumentParser, show

# Matrices that are made at once.
PIECE = 2**20
# Where the process is killed.
KILLED_AT = (0.3, 0.7)


def main() -> int:
    """Run all of it; 1 if bytes differ or memory was not kept."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gb", type=float, default=4.0, help="size of the input")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--most", type=float, default=1000, help="anonymous MB")
    parser.add_argument("--folder", type=Path, help="for all files; emptied at the end")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="bed-files-", dir=options.folder) as name:
        folder = Path(name)
        count = int(options.gb * 1e9 / 36)
        path = _written(folder / "in.npy", count)
        size = path.stat().st_size / 1e6
        seconds = _copied(path, folder / "copy.npy")
        show(f"copy: {size:.0f} MB in {seconds:.1f} s, {size / seconds:.0f} MB/s")

        began = time.perf_counter()
        peak = _solved(path, folder / "once", options.memory)
        seconds = time.perf_counter() - began
        written = sum(x.stat().st_size for x in _results(folder / "once")) / 1e6
        show(
            f"bed: {count} matrices in {seconds:.1f} s, {count / seconds:.3g} a second;"
            f" {size / seconds:.0f} MB/s read, {written / seconds:.0f} MB/s written"
        )
        for part in KILLED_AT:
            peak = max(
                peak, _solved(path, folder / "killed", options.memory, part * count)
            )
            done = _done(folder / "killed")
            show(f"killed with {done} of {count} noted")
        peak = max(peak, _solved(path, folder / "killed", options.memory))
        same = all(
            filecmp.cmp(x, folder / "killed" / x.name, shallow=False)
            for x in _results(folder / "once")
        )
        show(f"same bytes: {same}; anonymous memory at most {peak:.0f} MB")
    return 0 if same and peak < options.most else 1


def _written(path: Path, count: int) -> Path:
    rng = np.random.default_rng()
    a = np.lib.format.open_memmap(path, "w+", "f4", (count, 3, 3))
    for start in range(0, count, PIECE):
        part = a[start : start + PIECE]
        rng.standard_normal(out=(x := np.empty(part.shape, "f4")), dtype="f4")
        part[...] = x + x.swapaxes(1, 2)
    a.flush()
    return path


def _copied(source: Path, target: Path) -> float:
    """Seconds of a copy until it is on the disk."""
    began = time.perf_counter()
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


def _solved(path: Path, out: Path, memory: str, until: float = np.inf) -> float:
    """Solve, until so many matrices are noted; peak anonymous memory in MB."""
    words = [sys.executable, "-m", "bed", "eigh", path, out, "--memory", memory]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
    status, peak = Path(f"/proc/{process.pid}/status"), 0.0
    while process.poll() is None:
        if found := re.search(r"RssAnon:\s+(\d+) kB", status.read_text()):
            peak = max(peak, int(found[1]) / 1e3)
        if _done(out) >= until:
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.01)
    if process.returncode != (0 if until == np.inf else -signal.SIGKILL):
        raise SystemExit(f"{words} ended with {process.returncode}")
    return peak


def _done(out: Path) -> int:
    journal = out / "journal.json"
    return json.loads(journal.read_text())["done"] if journal.exists() else 0


def _results(out: Path) -> list[Path]:
    return sorted(out.glob("*.npy"))


if __name__ == "__main__":
    raise SystemExit(main())
