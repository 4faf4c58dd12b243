"""A batch in a file, what is found beside it, and runs that are killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SMALL = 20_000  # bytes of memory, for many windows of few matrices


def saved_batch(rng, folder):
    """A file of 500 positive definite matrices, one of them NaN, and the array."""
    x = rng.standard_normal((500, 3, 7))
    a = x @ x.swapaxes(1, 2)
    a[103, 1, 1] = np.nan
    np.save(folder / "in.npy", a)
    return folder / "in.npy", a


def results(folder):
    """The arrays in a folder, by name."""
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


def assert_same(found, expected):
    """Names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert found[name].tobytes() == x.tobytes(), name


def journals_on_a_disk(monkeypatch, out, disk, check):
    """Check journals of a run to `out` on a disk that keeps what was synchronised.

    The folder `disk` has of each file what was there when it was last synchronised, and
    ``check(journal)`` is called with each journal from there that is put in its place.
    """
    fsync, replace = os.fsync, Path.replace

    def synchronises(file):
        fsync(file)
        synchronised = os.fstat(file)
        for x in filter(Path.is_file, out.rglob("*")):
            if os.path.samestat(synchronised, x.stat()):
                copy = disk / x.relative_to(out)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(x.read_bytes())

    def replaces(self, target):
        if self.parent == out:
            check(json.loads((disk / self.name).read_text()))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synchronises)
    monkeypatch.setattr(Path, "replace", replaces)


KILLED = """
import os, signal, sys
import bed.files
from bed._files.journal import Journal

path, folder, memory, done, written = sys.argv[1:]
note = Journal.note

def killed(self, to):
    if to >= int(done) and written == "written":
        note(self, to)
    if to >= int(done):
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, to)

Journal.note = killed
bed.files.eigh(path, folder, memory=memory)
"""


def killed(path, folder, done, written, memory=SMALL):
    """How a process ends that is killed when it is about to note, or has noted."""
    words = [sys.executable, "-c", KILLED, path, folder, memory, done, written]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(list(map(str, words)), env=environment).returncode
