"""Compiled code on disk: read back where it is sound, and missed by no call."""

import errno
import importlib.util
import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import config, types
from numba.core.bytecode import FunctionIdentity

import bed
from bed.__main__ import main
from bed.engines.numba_cpu import _cache, _entries
from bed.engines.numba_cpu._compile import NARROW, kernel

SOURCE = "def double(x):\n    return x + x\n"
ADVICE = "NUMBA_CACHE_DIR"


@pytest.fixture
def function(tmp_path, monkeypatch):
    """A function of a file of its own, whose code is kept in ``tmp_path / "kept"``."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    # Code is read back into a module that can be found, or by luck into what is left.
    monkeypatch.setitem(sys.modules, "doubling", module)
    spec.loader.exec_module(module)
    # What an earlier test had set in the environment is read now, and not in between.
    config.reload_config()
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(_cache, "_warned", [])
    return module.double


def _kept(function):
    """Compile a function, whose code is kept as that of the solver."""
    dispatcher = numba.njit(function)
    _cache.keep_on_disk(dispatcher, "double")
    return dispatcher


def _files(tmp_path, suffix):
    return sorted((tmp_path / "kept").rglob(f"*{suffix}"))


def _hits(compiled):
    return sum(compiled.stats.cache_hits.values())


def test_code_is_read_back(function):
    assert _kept(function)(1.5) == 3
    again = _kept(function)  # as another process does
    assert again(1.5) == 3
    assert _hits(again) == 1


def _empty(index, data):
    index.write_bytes(b"")


def _noise(index, data):
    index.write_bytes(bytes(range(256)))


def _another_pickle(index, data):
    version = index.read_bytes()[: len(pickle.dumps(numba.__version__, -1))]
    index.write_bytes(version + pickle.dumps(5))


def _half_of_the_index(index, data):
    index.write_bytes(index.read_bytes()[:-20])


def _half_of_the_data(index, data):
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])


def _hole_in_the_data(index, data):
    text = bytearray(data.read_bytes())
    middle = len(text) // 2
    text[middle : middle + 64] = bytes(64)
    data.write_bytes(text)


def _data_of_another_program(index, data):
    data.write_bytes(pickle.dumps({"not": "Numba's"}))


def _no_data(index, data):
    data.unlink()


@pytest.mark.parametrize(
    "spoil",
    [
        _empty,
        _noise,
        _another_pickle,
        _half_of_the_index,
        _half_of_the_data,
        _hole_in_the_data,
        _data_of_another_program,
        _no_data,
    ],
)
def test_a_file_that_is_spoilt_is_replaced(function, tmp_path, spoil):
    _kept(function)(1.5)
    (index,), (data,) = _files(tmp_path, ".nbi"), _files(tmp_path, ".nbc")
    spoil(index, data)
    compiled = _kept(function)
    assert compiled(1.5) == 3
    assert _hits(compiled) == 0
    healed = _kept(function)
    assert healed(1.5) == 3
    assert _hits(healed) == 1


def test_data_of_another_signature_is_not_taken(function, tmp_path):
    """As two processes that write at once may leave it: an index, and others' data."""
    compiled = _kept(function)
    assert (compiled(1.5), compiled(1)) == (3, 2)
    first, second = _files(tmp_path, ".nbc")
    texts = first.read_bytes(), second.read_bytes()
    first.write_bytes(texts[1])
    second.write_bytes(texts[0])
    compiled = _kept(function)
    assert (compiled(1.5), compiled(1)) == (3, 2)
    assert _hits(compiled) == 0


def test_data_with_a_changed_byte_is_not_taken(tmp_path):
    """One that can be unpickled, and would be machine code that crashes."""
    files = _cache._Files(str(tmp_path), "name", b"stamp")
    files.save("key", b"x" * 1000)
    assert files.load("key") == b"x" * 1000
    (data,) = tmp_path.glob("*.nbc")
    data.write_bytes(data.read_bytes().replace(b"xxxx", b"xxxy", 1))
    assert files.load("key") is None


def test_a_full_disk_is_told_of_once(function, tmp_path, monkeypatch):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_cache.IndexDataCacheFile, "_open_for_write", full)
    compiled = _kept(function)
    with pytest.warns(RuntimeWarning, match=ADVICE) as told:
        assert compiled(1.5) == 3
        assert compiled(1) == 2
        assert _kept(function)(1.5) == 3
    assert len(told) == 1
    assert str(tmp_path / "kept") in str(told[0].message)


def test_no_folder_to_write_to_is_told_of_once(function, tmp_path, monkeypatch):
    monkeypatch.setattr(_cache.FunctionCache._impl_class, "_locator_classes", [])
    with pytest.warns(RuntimeWarning, match=ADVICE) as told:
        assert _kept(function)(1.5) == 3
        assert _kept(function)(1.5) == 3
    assert len(told) == 1
    assert str(tmp_path) in str(told[0].message)


def test_a_numba_with_other_insides_keeps_nothing(function, tmp_path, monkeypatch):
    """Its own cache would take code of sources that have changed."""
    monkeypatch.setattr(_cache, "FunctionCache", None)
    with pytest.warns(RuntimeWarning, match="other insides"):
        assert _kept(function)(1.5) == 3
    assert not _files(tmp_path, "")


def test_names_tell_functions_of_one_file_apart(function, tmp_path):
    def kept(name):
        dispatcher = numba.njit(function)
        _cache.keep_on_disk(dispatcher, name)
        dispatcher(1.5)
        return _hits(dispatcher)

    assert [kept(name) for name in ("one", "other", "one", "other")] == [0, 0, 1, 1]


def test_code_of_other_sources_is_not_taken(function, monkeypatch):
    _kept(function)(1.5)
    monkeypatch.setattr(_cache, "_SOURCES", "of another day")
    again = _kept(function)
    assert (again(1.5), _hits(again)) == (3, 0)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_the_solver_is_kept_this_way(dtype):
    from bed.engines.numba_cpu import _stages
    from bed.engines.numba_cpu.eigh import _entries

    one = np.eye(2, dtype=dtype)[None]
    bed.eigh(one)
    bed.tridiagonalize(one)
    bed.eigh_tridiagonal(np.ones((1, 2)), np.ones((1, 1)))
    dtype = np.dtype(dtype)
    for compiled in (
        _entries(dtype), _stages._tridiagonalize(dtype),
        _stages._eigh_tridiagonal(np.dtype("f8")),
    ):  # fmt: skip
        (narrow,) = (f for width, f in compiled.of_width.items() if width == NARROW)
        assert isinstance(narrow._cache, _cache._Cache)


@pytest.mark.slow
def test_processes_that_compile_at_once(tmp_path):
    """Each compiles the same signatures, in an order of its own, and all are right."""
    (tmp_path / "doubling.py").write_text(SOURCE)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import doubling, numpy as np; "
        "from numba import config; config.CACHE_DIR = sys.argv[1] + '/kept'; "
        "import numba; from bed.engines.numba_cpu._cache import keep_on_disk; "
        "f = numba.njit(doubling.double); keep_on_disk(f, 'double'); "
        "kinds = [np.dtype(k).type for k in sys.argv[2]]; "
        "assert all(f(k(3)) == 6 for k in kinds); "
        "print(sum(f.stats.cache_hits.values()))"
    )

    def start(kinds):
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path), kinds],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    for process in [start("fdFDlib"), start("bildFDf"), start("DFlibfd")]:
        assert process.wait() == 0, process.stderr.read()
        process.communicate()
    last = start("fdFDlib")
    out, log = last.communicate()
    assert last.returncode == 0, log
    assert int(out) > 0


@pytest.fixture
def shown(function, tmp_path, capsys):
    """What ``python -m bed cache`` prints, of a folder of this test's."""
    folder = Path(_cache.kept_on_disk()[0])
    assert folder.is_relative_to(tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("eigh.nbi", "eigh.1.nbc", "eigh.py", "eigh.cpython-313.pyc"):
        (folder / name).write_bytes(bytes(100_000))

    def show(*options):
        assert main(["cache", *options]) == 0
        return capsys.readouterr().out

    return folder, show


def test_the_command_shows_what_is_kept(shown):
    folder, show = shown
    assert f"2 files, 0.2 MB, in {folder}" in show()
    assert len(list(folder.iterdir())) == 4
    assert f"{folder} (2 files)" in bed._config.config_text()


def test_the_command_removes_compiled_code_alone(shown):
    folder, show = shown
    assert f"2 files, 0.2 MB, removed from {folder}" in show("--clear")
    assert {x.name for x in folder.iterdir()} == {"eigh.py", "eigh.cpython-313.pyc"}
    assert "0 files, 0.0 MB, in" in show()
    assert "compiled code: none yet" in bed._config.config_text()


def test_a_folder_that_is_not_ours_to_empty_is_told(shown, monkeypatch, capsys):
    def refused(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refused)
    assert main(["cache", "--clear"]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_the_command_where_nothing_is_kept(monkeypatch, capsys):
    monkeypatch.setattr(_cache, "FunctionCache", None)
    assert main(["cache"]) == 0
    assert "can keep no code" in capsys.readouterr().out


def test_symbols_are_not_those_of_another_process(monkeypatch):
    """From disk come functions that were each the first in a process of its own."""

    def compiled(value):
        monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(10**9))

        @kernel
        def inner(x):
            return x + value

        def build(width):
            return lambda start, stop, x: inner(start)

        entries = _entries.Entries("x", build, lambda *_: (types.intp,))
        found = [entries.compile(np.dtype("f4"), width) for width in (16, 128)]
        assert [function(value, 0, 0) for function in found] == 2 * [2 * value]
        return {
            overload.fndesc.mangled_name
            for function in (*found, inner)
            for overload in function.overloads.values()
        }

    monkeypatch.setattr(_entries, "keep_on_disk", lambda dispatcher, name: None)
    first, second = compiled(1), compiled(2)
    assert len(first) == len(second) == 3
    assert len(first & second) == 2  # the entries, which are told by name and width
