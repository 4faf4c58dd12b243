"""Arrays of zarr, larger than memory: what holds of .npy files holds of them."""

import json
import os
import signal
import sys

import numpy as np
import pytest

import bed
import bed.files
from bed.__main__ import main
from file_batches import SMALL, assert_same, journals_on_a_disk, killed

zarr = pytest.importorskip("zarr", reason="needs zarr: pip install 'batched-ed[zarr]'")


def saved(path, a, leading_chunks):
    array = zarr.create_array(
        path, shape=a.shape, dtype=a.dtype, chunks=(*leading_chunks, *a.shape[-2:])
    )
    array[...] = a
    return path


def results(folder):
    return {
        path.stem: zarr.open_array(path, mode="r")[...]
        for path in folder.glob("*.zarr")
    }


@pytest.fixture
def batch(rng, tmp_path):
    """A folder of 500 matrices, one of them NaN, in chunks of 30, and the array."""
    a = rng.standard_normal((500, 3, 3))
    a[103, 1, 1] = np.nan
    return saved(tmp_path / "in.zarr", a, (30,)), a


@pytest.mark.parametrize("memory", [2_500, SMALL, "1GB"])
@pytest.mark.parametrize(
    "leading, chunks",
    [((), ()), ((0,), (1,)), ((40,), (7,)), ((3, 5, 4), (2, 3, 4))],
)
def test_results_are_those_of_arrays(rng, tmp_path, memory, leading, chunks):
    a = rng.standard_normal((*leading, 2, 2))
    path = saved(tmp_path / "in.zarr", a, chunks)
    bed.files.eigh(path, tmp_path / "out", memory=memory)
    expected = bed.eigh(a, return_info=True)
    assert_same(results(tmp_path / "out"), expected._asdict())
    vectors = zarr.open_array(tmp_path / "out" / "eigenvectors.zarr", mode="r")
    assert vectors.chunks == (*chunks, 2, 2)


def test_windows_are_whole_chunks(batch, tmp_path, monkeypatch):
    read, starts = bed._files.zarr.ZarrInput.read, []

    def noted(self, start, stop):
        starts.append(start)
        return read(self, start, stop)

    monkeypatch.setattr(bed._files.zarr.ZarrInput, "read", noted)
    bed.files.eigh(batch[0], tmp_path / "out", memory=50_000)
    assert len(starts) > 3
    assert not any(start % 30 for start in starts)


def test_a_killed_run_goes_on(batch, tmp_path):
    path, a = batch
    out = tmp_path / "out"
    for done, written in ((100, ""), (300, "written")):
        assert killed(path, out, done, written) == -signal.SIGKILL
    noted = json.loads((out / "journal.json").read_text())["done"]
    assert 300 <= noted < 500
    assert bed.files.eigh(path, out, memory=SMALL).solved == 500 - noted
    assert_same(results(out), bed.eigh(a, return_info=True)._asdict())


@pytest.mark.parametrize("shape, chunks", [((500,), (30,)), ((5, 20, 5), (2, 7, 3))])
def test_the_journal_says_no_more_than_is_on_the_disk(
    rng, tmp_path, monkeypatch, shape, chunks
):
    a = rng.standard_normal((*shape, 3, 3))
    a[1] = np.nan
    path = saved(tmp_path / "in.zarr", a, chunks)
    disk, noted = tmp_path / "disk", []
    expected = bed.eigh(a, return_info=True)._asdict()

    def check(journal):
        noted.append(journal["done"])
        if not journal["prepared"]:
            return
        there, done = results(disk), np.s_[: journal["done"]]
        assert there.keys() == expected.keys()
        for name, x in there.items():
            found = x.reshape(-1, *x.shape[len(shape) :])
            wanted = expected[name].reshape(found.shape)
            np.testing.assert_array_equal(found[done], wanted[done])

    journals_on_a_disk(monkeypatch, tmp_path / "out", disk, check)
    bed.files.eigh(path, tmp_path / "out", memory=100_000)
    assert len(noted) > 5
    assert noted[-1] == 500


def test_another_chunk_is_noticed(batch, tmp_path):
    path, a = batch
    bed.files.eigh(path, tmp_path / "out")
    array = zarr.open_array(path, mode="r+")
    array[499] = 2 * a[499]
    with pytest.raises(ValueError, match=r"the input has changed since .*modified"):
        bed.files.eigh(path, tmp_path / "out")
    (path / "c" / "3" / "0" / "0").unlink()
    with pytest.raises(ValueError, match=r"the input has changed since .*files"):
        bed.files.eigh(path, tmp_path / "out")


def test_a_change_in_the_midst_of_a_run(batch, tmp_path, monkeypatch):
    original = bed.eigh

    def eigh(a, **options):
        if len(a):
            os.utime(batch[0] / "c" / "2" / "0" / "0", (1, 1))
        return original(a, **options)

    monkeypatch.setattr(bed, "eigh", eigh)
    with pytest.raises(ValueError, match="has changed while it was read"):
        bed.files.eigh(batch[0], tmp_path / "out")
    journal = json.loads((tmp_path / "out" / "journal.json").read_text())
    assert journal["done"] == 0


def test_outputs_that_are_gone_are_noticed(batch, tmp_path):
    bed.files.eigh(batch[0], tmp_path / "out")
    (tmp_path / "out" / "status.zarr").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is gone"):
        bed.files.eigh(batch[0], tmp_path / "out")


class Ran:
    """Leaves a trace if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_pickles_are_refused(tmp_path, monkeypatch):
    numcodecs = pytest.importorskip("numcodecs")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in.zarr"
    folder.mkdir()
    description = {
        "zarr_format": 2,
        "shape": [2, 2, 2],
        "chunks": [2, 2, 2],
        "dtype": "<f8",
        "compressor": {"id": "pickle", "protocol": 5},
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (folder / ".zarray").write_text(json.dumps(description))
    content = np.array([Ran()], object)
    (folder / "0.0.0").write_bytes(numcodecs.Pickle().encode(content))
    with pytest.raises(ValueError, match="holds pickles"):
        bed.files.eigh(folder, tmp_path / "out")
    assert not (tmp_path / "ran").exists()


def test_a_word_elsewhere_in_the_metadata_is_no_pickle(batch, tmp_path):
    path, a = batch
    zarr.open_array(path, mode="r+").attrs["made"] = "by hand, not with pickle"
    bed.files.eigh(path, tmp_path / "out")
    assert_same(results(tmp_path / "out"), bed.eigh(a, return_info=True)._asdict())


LAYOUTS = {
    "version 2": {"zarr_format": 2},
    "Fortran order": {"zarr_format": 2, "order": "F"},
    "big endian": {"dtype": ">f8"},
    "cut matrices": {"chunks": (7, 2, 1)},
    "shards": {"chunks": (5, 3, 3), "shards": (20, 3, 3)},
    "missing chunks": {"fill_value": 2.0},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(rng, tmp_path, layout):
    a = rng.standard_normal((50, 3, 3))
    options = {"dtype": "f8", "chunks": (7, 3, 3)} | LAYOUTS[layout]
    array = zarr.create_array(tmp_path / "in.zarr", shape=a.shape, **options)
    array[:14] = a[:14]
    if "fill_value" in options:
        a[14:] = options["fill_value"]
    else:
        array[14:] = a[14:]
    bed.files.eigh(tmp_path / "in.zarr", tmp_path / "out", memory="10KB")
    assert_same(results(tmp_path / "out"), bed.eigh(a, return_info=True)._asdict())


def test_a_chunk_that_cannot_be_read(batch, tmp_path, capsys):
    path, _ = batch
    words = ["eigh", str(path), str(tmp_path / "out"), "--memory", "50KB"]
    (path / "c" / "3" / "0" / "0").write_bytes(b"no chunk")
    assert main(words) == 2
    assert "matrices 90 to 119 cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize("folder", [".", "out", "c/out"])
def test_results_inside_the_input_are_refused(batch, folder):
    path, _ = batch
    before = sorted(path.rglob("*"))
    with pytest.raises(ValueError, match="lies in the input"):
        bed.files.eigh(path, path / folder)
    assert sorted(path.rglob("*")) == before


def test_what_is_no_batch_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    zarr.create_group(tmp_path / "group")
    saved(tmp_path / "oblong", np.ones((4, 2, 3)), (1,))
    for name, text in {"cut": b'{"zarr', "list": b"[]", "bytes": b"\xff"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_bytes(text)
    for name, said in {
        "empty": "is no array of zarr",
        "cut": "is no array of zarr",
        "list": "is no array of zarr",
        "bytes": "is no array of zarr",
        "group": "is no array of zarr",
        "oblong": "expected square matrices",
    }.items():
        with pytest.raises(ValueError, match=said):
            bed.files.eigh(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_zarr_it_is_said_what_to_install(batch, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"pip install 'batched-ed\[zarr\]'"):
        bed.files.eigh(batch[0], tmp_path / "out")
