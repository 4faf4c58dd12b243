"""Files: what is refused, with which words, and what stays as it was."""

import errno
import json
import os
import pickle

import numpy as np
import pytest

import bed
import bed.files
from bed.__main__ import main
from bed._files import npy
from bed._files.journal import Journal
from file_batches import SMALL, assert_same, results, saved_batch
from interpreter import run_python


@pytest.fixture
def batch(rng, tmp_path):
    return saved_batch(rng, tmp_path)


def test_a_second_process_is_refused(batch, tmp_path):
    path, _ = batch
    paths = str(path), str(tmp_path / "out")
    bed.files.eigh(*paths)
    code = f"import bed.files; print(bed.files.eigh(*{paths}).solved)"
    task = json.loads((tmp_path / "out" / "journal.json").read_text())["task"]
    journal = Journal(tmp_path / "out", task)
    try:
        with pytest.raises(AssertionError, match="another process is at work in"):
            run_python(code)
    finally:
        journal.close()
    assert run_python(code) == "0\n"


def test_a_file_system_without_locks_is_no_other_process(
    batch, tmp_path, monkeypatch, capsys
):
    fcntl = pytest.importorskip("fcntl")

    def flock(*arguments):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert main(["eigh", str(batch[0]), str(tmp_path / "out")]) == 2
    assert "/out: no files can be locked there" in capsys.readouterr().err


FORKED = """
import os, warnings
from pathlib import Path
from bed._files.journal import Journal

warnings.simplefilter("ignore")  # about threads that the child does not have
folder = Path({!r})
journal, (up, is_up), (over, is_over) = Journal(folder, {{}}), os.pipe(), os.pipe()
if os.fork():
    os.read(up, 1)
    try:
        Journal(folder, {{}})
    except BlockingIOError:
        journal.close()
        Journal(folder, {{}}).close()
        print("locked again")
    finally:
        os.write(is_over, b".")
        os.wait()
else:
    os.write(is_up, b".")
    os.read(over, 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    assert run_python(FORKED.format(str(tmp_path))) == "locked again\n"


CHANGES = {
    "truncated": (lambda p: os.truncate(p, p.stat().st_size - 8), "is truncated"),
    "longer": (
        lambda p: p.write_bytes(p.read_bytes() + b"x"),
        r"has changed since \(size, modif",
    ),
    "touched": (lambda p: os.utime(p, (1, 1)), r"has changed since \(modified\)"),
    "entries": (lambda p: np.save(p, np.load(p) + 1), "has changed since .*sample"),
    "dtype": (lambda p: np.save(p, np.load(p).astype("f4")), "size, modified, dtype"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_input_is_noticed(batch, tmp_path, change):
    path, _ = batch
    bed.files.eigh(path, tmp_path / "out")
    before = results(tmp_path / "out")
    alter, said = CHANGES[change]
    alter(path)
    with pytest.raises(ValueError, match=said):
        bed.files.eigh(path, tmp_path / "out")
    assert_same(results(tmp_path / "out"), before)


def test_entries_that_keep_size_and_time(batch, tmp_path):
    path, a = batch
    bed.files.eigh(path, tmp_path / "out")
    modified = path.stat().st_mtime_ns
    np.save(path, a + 1)
    os.utime(path, ns=(modified, modified))
    with pytest.raises(ValueError, match=r"has changed since \(sample\)"):
        bed.files.eigh(path, tmp_path / "out")


def test_a_change_in_the_midst_of_a_run(batch, tmp_path, monkeypatch):
    path, _ = batch
    note = Journal.note

    def change(self, done):
        note(self, done)
        if done:
            os.truncate(path, 9_000)

    monkeypatch.setattr(Journal, "note", change)
    with pytest.raises(ValueError, match="has changed while it was read"):
        bed.files.eigh(path, tmp_path / "out", memory=SMALL)
    noted = json.loads((tmp_path / "out" / "journal.json").read_text())["done"]
    assert 0 < noted < 500


def test_a_change_while_the_last_window_is_solved(batch, tmp_path, monkeypatch):
    path, _ = batch
    original = bed.eigh

    def eigh(a, **options):
        if len(a):
            os.utime(path, (1, 1))
        return original(a, **options)

    monkeypatch.setattr(bed, "eigh", eigh)
    with pytest.raises(ValueError, match="has changed while it was read"):
        bed.files.eigh(path, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "journal.json").read_text())["done"] == 0


@pytest.mark.parametrize(
    "option",
    [{"UPLO": "U"}, {"driver": "lapack"}, {"function": "eigvalsh"}],
)
def test_another_task_is_noticed(batch, tmp_path, option):
    path, _ = batch
    bed.files.eigh(path, tmp_path / "out")
    with pytest.raises(ValueError, match=r"is of another run: .* was .*, and is"):
        bed.files.apply(
            **{"function": "eigh", **option}, input=path, output=tmp_path / "out"
        )


def test_another_version_is_noticed(batch, tmp_path, monkeypatch):
    path, _ = batch
    bed.files.eigh(path, tmp_path / "out")
    monkeypatch.setattr(bed, "__version__", "0")
    with pytest.raises(ValueError, match=r"bed was .*, and is 0; remove the folder"):
        bed.files.eigh(path, tmp_path / "out")


def test_files_of_others_are_not_overwritten(batch, tmp_path):
    path, _ = batch
    np.save(tmp_path / "status.npy", [1])
    with pytest.raises(ValueError, match="would be overwritten"):
        bed.files.eigh(path, tmp_path)
    assert np.load(tmp_path / "status.npy") == [1]
    bed.files.eigh(path, tmp_path / "out")
    os.truncate(tmp_path / "out" / "status.npy", 200)
    with pytest.raises(ValueError, match="another file now"):
        bed.files.eigh(path, tmp_path / "out")
    (tmp_path / "out" / "status.npy").unlink()
    with pytest.raises(ValueError, match="is gone"):
        bed.files.eigh(path, tmp_path / "out")
    (tmp_path / "out" / "journal.json").write_text("{")
    with pytest.raises(ValueError, match="is no journal"):
        bed.files.eigh(path, tmp_path / "out")


class Ran:
    """Leaves a trace if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_what_is_no_batch_of_numbers_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in.npy"
    wrong = {
        "no .npy file": pickle.dumps(Ran()),
        "no .npy file of numbers": b"",
        "Python objects": np.array([[Ran()]], object),
        "not supported": np.zeros((2, 2), "S3"),
        "expected square matrices": np.zeros((2, 3)),
    }
    for said, content in wrong.items():
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content)
        with pytest.raises(ValueError, match=said):
            bed.files.eigh(path, tmp_path / "out")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "out").exists()


def test_a_shape_that_cannot_be(tmp_path):
    with (tmp_path / "in.npy").open("wb") as file:
        description = {"descr": "<f8", "fortran_order": False, "shape": (-1, 3, 3)}
        np.lib.format.write_array_header_1_0(file, description)
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        bed.files.eigh(tmp_path / "in.npy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    words = str(tmp_path / "pipe"), str(tmp_path / "out")
    with pytest.raises(AssertionError, match="no file that can be mapped"):
        run_python(f"import bed.files; bed.files.eigh(*{words})")


def test_links_that_lead_nowhere(batch, tmp_path, capsys):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert main(["eigh", str(batch[0]), str(loop)]) == 2
    assert f"cannot write to {loop}: " in capsys.readouterr().err
    assert main(["eigh", str(loop), str(tmp_path / "out")]) == 2
    assert str(loop) in capsys.readouterr().err


def no_space(*arguments):
    raise OSError(28, os.strerror(28))


@pytest.mark.parametrize("moment", ["beginning", "midst"])
def test_a_full_disk(batch, tmp_path, monkeypatch, capsys, moment):
    path, a = batch
    words = ["eigh", str(path), str(tmp_path / "out"), "--memory", str(SMALL)]
    with monkeypatch.context() as full:
        if moment == "beginning":
            full.setattr(npy, "_allocate", no_space)
        else:
            write, calls = npy.NpyOutputs.write, []

            def fails(self, *arguments):
                calls.append(arguments)
                (write if len(calls) < 4 else no_space)(self, *arguments)

            full.setattr(npy.NpyOutputs, "write", fails)
        assert main(words) == 2
    said = capsys.readouterr().err
    assert "no room for the results in" in said
    assert "the same command goes on" in said
    assert main(words) == 1
    assert_same(results(tmp_path / "out"), bed.eigh(a, return_info=True)._asdict())


def test_a_folder_that_cannot_be_written_to(batch, tmp_path, capsys):
    path, _ = batch
    if os.getuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        folder = tmp_path / "locked" / "out"
    else:  # root may write anywhere but here
        folder = "/proc/out"
    assert main(["eigh", str(path), str(folder)]) == 2
    assert f"cannot write to {folder}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, said",
    [
        (["--power", "2"], "--function powm needs --power"),
        (["--function", "powm"], "--function powm needs --power"),
        (["--min", "2"], "are for --function clampm"),
        (["--floor", "2"], "--floor is for --function"),
        (["--eigenvalues-only", "--function", "absm"], "is not for --function"),
        (["--memory", "lots"], "expected a size such as 1GB"),
        (["--memory", "100"], "one matrix takes"),
        (["--driver", "none"], "none"),
        (["--device", "cuda", "--driver", "lapack"], "cuda"),
    ],
)
def test_options_that_do_not_fit(batch, tmp_path, capsys, options, said):
    assert main(["eigh", str(batch[0]), str(tmp_path / "out"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
