"""Files larger than memory: the same bits as in memory, also after a kill."""

import json
import signal
import sys

import numpy as np
import pytest

import bed
import bed.files
from bed.__main__ import main
from bed._files.progress import Progress
from bed._files.windows import boxes, in_bytes
from file_batches import (
    SMALL,
    assert_same,
    journals_on_a_disk,
    killed,
    results,
    saved_batch,
)
from interpreter import run_python


@pytest.fixture
def batch(rng, tmp_path):
    return saved_batch(rng, tmp_path)


@pytest.mark.parametrize("name", bed.files.FUNCTIONS)
def test_results_are_those_of_arrays(batch, tmp_path, name):
    path, a = batch
    options = {"powm": {"p": np.float32(-0.5)}, "clampm": {"min": 1, "max": 2}}.get(
        name, {}
    )
    found = bed.files.apply(name, path, tmp_path / "out", memory=SMALL, **options)
    expected = getattr(bed, name)(a, return_info=True, **options)
    assert_same(results(tmp_path / "out"), expected._asdict())
    assert found.counts == {bed.Status.OK: 499, bed.Status.NOT_FINITE: 1}
    assert (found.failed, found.failures, found.solved) == ([103], 1, 500)
    assert "matrix 103" in str(found)


def test_failures_are_summed_up_in_pieces(batch, tmp_path, monkeypatch):
    path, a = batch
    a[110:125] = np.inf
    np.save(path, a)
    monkeypatch.setattr("bed._files.summary._AT_ONCE", 64)
    found = bed.files.eigh(path, tmp_path / "out")
    assert found.counts == {bed.Status.OK: 484, bed.Status.NOT_FINITE: 16}
    assert found.failed == [103, *range(110, 119)]
    assert "matrix 118; and 6 more" in str(found)


def test_an_interruption(batch, tmp_path, monkeypatch, capsys):
    path, a = batch
    words = ["eigh", str(path), str(tmp_path / "out"), "--memory", str(SMALL)]
    original, calls = bed.eigh, []

    def eigh(a, **options):
        calls.append(len(a))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(a, **options)

    monkeypatch.setattr(bed, "eigh", eigh)
    assert main(words) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main(words) == 1
    assert_same(results(tmp_path / "out"), original(a, return_info=True)._asdict())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<c8", "<i8"])
@pytest.mark.parametrize("leading", [(), (0,), (40,), (3, 5, 4)])
def test_any_order_dtype_and_shape(rng, tmp_path, order, dtype, leading):
    a = (9 * rng.standard_normal((*leading, 2, 2))).astype(dtype)
    np.save(tmp_path / "in.npy", np.asarray(a, order=order))
    bed.files.eigh(tmp_path / "in.npy", tmp_path / "out", "U", memory=2_000)
    expected = bed.eigh(a, "U", return_info=True)
    assert_same(results(tmp_path / "out"), expected._asdict())


def test_matrices_without_entries(tmp_path):
    np.save(tmp_path / "in.npy", np.empty((4, 0, 0)))
    found = bed.files.eigh(tmp_path / "in.npy", tmp_path / "out")
    assert found.counts == {bed.Status.OK: 4}


def test_a_killed_run_goes_on(batch, tmp_path):
    path, a = batch
    out = tmp_path / "out"
    # Before there is any output, before a window is noted, and behind one.
    for done, written in ((0, ""), (100, ""), (300, "written")):
        assert killed(path, out, done, written) == -signal.SIGKILL
    noted = json.loads((out / "journal.json").read_text())["done"]
    assert 300 <= noted < 500
    found = bed.files.eigh(path, out, memory=SMALL)
    assert found.solved == 500 - noted
    assert found.counts[bed.Status.NOT_FINITE] == 1
    assert_same(results(out), bed.eigh(a, return_info=True)._asdict())
    assert bed.files.eigh(path, out).solved == 0


def test_the_journal_says_no_more_than_is_on_the_disk(batch, tmp_path, monkeypatch):
    path, a = batch
    disk, noted = tmp_path / "disk", []
    expected = bed.eigh(a, return_info=True)._asdict()

    def check(journal):
        for name, x in expected.items() if journal["prepared"] else ():
            there = (disk / f"{name}.npy").read_bytes()[-x.nbytes :]
            assert len(there) == x.nbytes
            assert there.startswith(x[: journal["done"]].tobytes())
        noted.append(journal["done"])

    journals_on_a_disk(monkeypatch, tmp_path / "out", disk, check)
    bed.files.eigh(path, tmp_path / "out", memory=SMALL)
    assert noted[:2] == [0, 0]
    assert noted[-1] == 500
    assert len(noted) > 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded(tmp_path):
    """Input and results of 280 MB, of which few are in memory."""
    np.save(tmp_path / "in.npy", np.zeros((2_000_000, 3, 3), "f4"))
    code = f"""
import re
import bed, bed.files, numpy as np
from bed._files.journal import Journal

def anonymous():
    text = open("/proc/self/status").read()
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", text)[1]) / 1e3

note, peak = Journal.note, []
Journal.note = lambda self, done: (peak.append(anonymous()), note(self, done))
bed.eigh(np.zeros((200_000, 3, 3), "f4"))
before = anonymous()
bed.files.eigh({str(tmp_path / "in.npy")!r}, {str(tmp_path / "out")!r}, memory="40MB")
print(len(peak), max(peak) - before)
"""
    windows, most = run_python(code).split()
    assert int(windows) > 10
    assert float(most) < 45


def test_the_command(batch, tmp_path, capsys):
    path, a = batch
    out = tmp_path / "out"
    given = ["--function", "powm", "--power", "0.5", "--floor", "1", "--uplo", "U"]
    assert main(["eigh", str(path), str(out), *given]) == 1
    shown = capsys.readouterr().out
    assert "status 1: 1 (the triangle that is read holds NaN or Inf)" in shown
    assert str(out / "result.npy") in shown
    expected = bed.powm(a, 0.5, "U", floor=1, return_info=True)
    assert_same(results(out), expected._asdict())
    np.save(path, a[:100])
    words = ["eigh", str(path), str(tmp_path / "values"), "--eigenvalues-only"]
    assert main(words) == 0
    assert results(tmp_path / "values").keys() == {"eigenvalues", "status"}


def test_sizes_and_boxes(rng):
    assert in_bytes(7) == 7
    assert [in_bytes(x) for x in ("1GB", "2 MiB", "1.5k")] == [10**9, 2**21, 1500]
    shape = (3, 4, 1, 5)
    a = np.arange(60).reshape(shape)
    for _ in range(50):
        start, stop = sorted(rng.integers(0, 61, 2))
        found = [a[box].ravel() for box in boxes(shape, start, stop)]
        assert np.concatenate([[], *found]).tolist() == list(range(start, stop))


def test_progress():
    bar = Progress(1000, 200, 100)
    assert bar.line(200, 0.0) == "[#####...................]  20%"
    line = bar.line(600, 4.0)
    assert line.startswith("[##############..........]  60%  100 matrices/s, 0.01 MB/s")
    assert line.endswith("0:04 left")
    assert bar.line(201, 50.0).endswith("11:05:50 left")


ON_THE_STAND_IN = """
import cuda_stand_in
cuda_stand_in.install()
import numpy as np, bed.files
from bed._files import on_cuda
from cuda_stand_in.streams import Stream

path, out = {paths}
order, synchronize, begin = [], Stream.synchronize, on_cuda._Place.begin

def begins(self, a):
    order.append(("begins", self._stream.ptr))
    return begin(self, a)

def synchronizes(self):
    order.append(("waits", self.ptr))
    synchronize(self)

on_cuda._Place.begin, Stream.synchronize = begins, synchronizes
summary = bed.files.apply({name!r}, path, out, device="cuda", memory={memory})
streams = [stream for what, stream in order if what == "begins"]
assert len(set(streams)) == 2, streams
assert streams[:-2] == streams[2:]
print(len(streams), summary.counts[0])
"""


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "sqrtm"])
def test_two_streams_of_a_gpu(batch, tmp_path, name):
    """On the stand-in, what is queued is done when its stream is waited for."""
    path, a = batch
    paths = str(path), str(tmp_path / "out")
    code = ON_THE_STAND_IN.format(paths=paths, name=name, memory=SMALL)
    begun, solved = run_python(code).split()
    assert (int(begun) > 10, solved) == (True, "499")
    expected = getattr(bed, name)(a, return_info=True)._asdict()
    found = results(tmp_path / "out")
    assert found.keys() == expected.keys()
    for each, x in expected.items():
        np.testing.assert_array_equal(found[each], x)
