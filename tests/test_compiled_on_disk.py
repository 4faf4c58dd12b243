"""Compiled code on disk: read back where it is sound, and missed by no call."""

import errno
import importlib.util
import os
import pickle
import subprocess
import sys

import numba
import pytest
from numba import config

from bed.engines.numba_cpu import _cache, _compile

SOURCE = "def double(x):\n    return x + x\n"
ADVICE = "NUMBA_CACHE_DIR"


@pytest.fixture
def function(tmp_path, monkeypatch):
    """A function of a file of its own, whose code is kept in ``tmp_path / "kept"``."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("doubling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(_cache, "_warned", [])
    return module.double


def _files(tmp_path, suffix):
    return sorted((tmp_path / "kept").rglob(f"*{suffix}"))


def _hits(compiled):
    return sum(compiled.stats.cache_hits.values())


def test_code_is_read_back(function):
    assert _compile.entry(function)(1.5) == 3
    again = _compile.entry(function)  # as another process does
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
    _compile.entry(function)(1.5)
    (index,), (data,) = _files(tmp_path, ".nbi"), _files(tmp_path, ".nbc")
    spoil(index, data)
    compiled = _compile.entry(function)
    assert compiled(1.5) == 3
    assert _hits(compiled) == 0
    healed = _compile.entry(function)
    assert healed(1.5) == 3
    assert _hits(healed) == 1


def test_data_of_another_signature_is_not_taken(function, tmp_path):
    """As two processes that write at once may leave it: an index, and others' data."""
    compiled = _compile.entry(function)
    assert (compiled(1.5), compiled(1)) == (3, 2)
    first, second = _files(tmp_path, ".nbc")
    texts = first.read_bytes(), second.read_bytes()
    first.write_bytes(texts[1])
    second.write_bytes(texts[0])
    compiled = _compile.entry(function)
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
    compiled = _compile.entry(function)
    with pytest.warns(RuntimeWarning, match=ADVICE) as told:
        assert compiled(1.5) == 3
        assert compiled(1) == 2
        assert _compile.entry(function)(1.5) == 3
    assert len(told) == 1
    assert str(tmp_path / "kept") in str(told[0].message)


def test_no_folder_to_write_to_is_told_of_once(function, tmp_path, monkeypatch):
    monkeypatch.setattr(_cache.FunctionCache._impl_class, "_locator_classes", [])
    with pytest.warns(RuntimeWarning, match=ADVICE) as told:
        assert _compile.entry(function)(1.5) == 3
        assert _compile.entry(function)(1.5) == 3
    assert len(told) == 1
    assert str(tmp_path) in str(told[0].message)


def test_a_numba_with_other_insides_caches_as_it_does(function, monkeypatch):
    monkeypatch.setattr(_cache, "FunctionCache", None)
    assert _compile.entry(function)(1.5) == 3
    again = _compile.entry(function)
    assert again(1.5) == 3
    assert _hits(again) == 1


def test_the_solver_is_kept_this_way():
    from bed.engines.numba_cpu import _stages
    from bed.engines.numba_cpu.eigh import _entry

    for entry in (_entry, _stages._tridiagonalize, _stages._eigh_tridiagonal):
        assert isinstance(entry._cache, _cache._Cache)


@pytest.mark.slow
def test_processes_that_compile_at_once(tmp_path):
    """Each compiles the same signatures, in an order of its own, and all are right."""
    (tmp_path / "doubling.py").write_text(SOURCE)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import doubling, numpy as np; "
        "from numba import config; config.CACHE_DIR = sys.argv[1] + '/kept'; "
        "from bed.engines.numba_cpu._compile import entry; f = entry(doubling.double); "
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
