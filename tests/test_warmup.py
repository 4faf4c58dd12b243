"""Other processes compile some of the dtypes, where there are cores for it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bed
from bed import _warmup

FOUR = ("float32", "float64", "complex64", "complex128")


class Process:
    """Stands in for one that was started."""

    def __init__(self, code, hangs=False):
        self.code, self._hangs = code, hangs
        self.told = []

    def wait(self, timeout=None):
        self.told.append(("wait", timeout))
        if self._hangs and timeout is not None:
            raise subprocess.TimeoutExpired("python", timeout)

    def kill(self):
        self.told.append(("kill", None))


@pytest.mark.parametrize("dtype", ["foo", {"f4"}, ["f4", "foo"], "longdouble", object])
def test_a_dtype_that_nothing_computes_in(dtype):
    with pytest.raises(TypeError, match="not supported; accepted are float32, float64"):
        bed.warmup(3, dtype)


@pytest.fixture
def started(monkeypatch):
    """Processes that were asked for, on three cores, where all has to be compiled."""
    found = []
    monkeypatch.setattr(
        _warmup, "_started", lambda code: found.append(Process(code)) or found[-1]
    )
    monkeypatch.setattr(_warmup, "thread_count", lambda: 3)
    monkeypatch.setattr(_warmup, "COMPILED_SECONDS", -1)
    monkeypatch.setattr(_warmup, "compiled_code", lambda: (Path(), [Path("of.nbi")]))
    return found


@pytest.fixture
def compiled(monkeypatch):
    """Dtypes, in the order in which they are compiled here."""
    names = []
    monkeypatch.setattr(
        _warmup, "_compile", lambda dtype, device, **options: names.append(dtype.name)
    )
    return names


def test_dtypes_are_shared(started, compiled):
    bed.warmup(5, functions=True)
    options = "**{'n': 5, 'driver': 'auto', 'functions': True}"
    assert [process.code for process in started] == [
        f"import bed; bed.warmup(dtype=['{name}'], {options})"
        for name in ("complex64", "complex128")
    ]
    assert compiled[:2] == ["float32", "float64"]
    # What others were to compile is read, or compiled here if they could not.
    assert sorted(compiled[2:]) == sorted(FOUR[1:])
    for process in started:
        assert process.told[0] == ("wait", _warmup.HELP_SECONDS)
        assert ("kill", None) in process.told


@pytest.mark.parametrize(
    "dtype, expected",
    [
        ("f4", {"float32"}),
        (("f4", "f2"), {"float32"}),
        (("f4", "f8"), {"float32", "float64"}),
        ((), set()),
    ],
)
def test_what_cannot_be_shared_is_not(started, compiled, dtype, expected):
    bed.warmup(dtype=dtype)
    assert started == []
    assert set(compiled) == expected


def test_nobody_helps_where_nothing_was_compiled(started, compiled, monkeypatch):
    monkeypatch.setattr(_warmup, "COMPILED_SECONDS", 60)
    bed.warmup()
    assert started == [] and set(compiled) == set(FOUR)


def test_all_are_shared_where_nothing_has_been_compiled(started, compiled, monkeypatch):
    """Nothing has to be compiled first, to see whether it is."""
    monkeypatch.setattr(_warmup, "compiled_code", lambda: (Path(), []))
    monkeypatch.setattr(_warmup, "thread_count", lambda: 2)
    bed.warmup()
    (process,) = started
    assert "dtype=['float64', 'complex128']" in process.code
    assert compiled == ["float32", "complex64", *FOUR]


def test_nobody_helps_an_engine_that_does_not_compile(started, compiled, monkeypatch):
    monkeypatch.setattr(_warmup, "compiled_code", lambda: (Path(), []))
    monkeypatch.setattr(_warmup, "COMPILED_SECONDS", 60)
    bed.warmup(driver="lapack")
    assert started == [] and set(compiled) == set(FOUR)


def test_nobody_helps_where_no_code_is_kept(started, compiled, monkeypatch):
    """All would be compiled twice, and the second time after a wait."""
    monkeypatch.setattr(_warmup, "compiled_code", lambda: (None, []))
    bed.warmup()
    assert started == [] and set(compiled) == set(FOUR)


def test_options_are_handed_on_as_plain_numbers(started, compiled):
    bed.warmup(np.int64(5), functions=np.True_)
    options = "**{'n': 5, 'driver': 'auto', 'functions': True}"
    assert len(started) == 2
    assert all(process.code.endswith(f"], {options})") for process in started)
    with pytest.raises(TypeError):
        bed.warmup(5.5)


def test_nobody_helps_on_one_core(started, compiled, monkeypatch):
    monkeypatch.setattr(_warmup, "thread_count", lambda: 1)
    bed.warmup()
    assert started == [] and set(compiled) == set(FOUR)


PROGRAMS = ("", None, "/usr/bin/blender", "C:/pythonservice.exe", "python3")


@pytest.mark.parametrize("executable", PROGRAMS)
def test_a_program_with_python_inside_does_not_start_itself(
    started, compiled, monkeypatch, executable
):
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "frozen", executable == "python3", raising=False)
    bed.warmup()
    assert started == [] and set(compiled) == set(FOUR)


def test_without_processes_all_is_compiled_here(started, compiled, monkeypatch):
    def refused(code):
        raise PermissionError("no more processes")

    monkeypatch.setattr(_warmup, "_started", refused)
    bed.warmup()
    assert set(compiled) == set(FOUR)


def test_one_that_hangs_is_ended(compiled, started, monkeypatch):
    hanging = []
    monkeypatch.setattr(
        _warmup,
        "_started",
        lambda code: hanging.append(Process(code, True)) or hanging[-1],
    )
    bed.warmup()
    assert len(hanging) == 2
    assert all(("kill", None) in process.told for process in hanging)
    assert set(compiled) == set(FOUR)


def test_an_interrupt_ends_them(started, monkeypatch):
    def interrupted(dtype, device, **options):
        if dtype == "f8":
            raise KeyboardInterrupt

    monkeypatch.setattr(_warmup, "_compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bed.warmup()
    assert len(started) == 2
    assert all(process.told == [("kill", None), ("wait", None)] for process in started)


def test_a_helper_finds_this_package_and_is_silent(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    code = f"import bed; print(bed); assert bed.__file__ == {bed.__file__!r}"
    assert _warmup._started(code).wait(60) == 0
    assert _warmup._started("import bed; raise ValueError").wait(60) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "usual"),
    [("python", True), ("python3.13t", True), ("pythonw.exe", True), ("pypy3", True),
     ("Python", True), ("python-editor", False), ("pythonservice.exe", False)],
)  # fmt: skip
def test_names_of_python(name, usual):
    assert _warmup._is_python(f"/opt/bin/{name}") == usual


def test_a_helper_runs_no_file_of_the_folder_it_is_started_in(tmp_path, monkeypatch):
    """As a script that lies elsewhere does not."""
    (tmp_path / "numpy.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [x for x in sys.path if x])
    assert _warmup._started("import bed").wait(60) == 0
    assert not (tmp_path / "ran").exists()


def test_a_helper_finds_what_was_found_here(tmp_path, monkeypatch):
    (tmp_path / "found_here.py").touch()
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path, str(tmp_path)])
    assert _warmup._started("import found_here").wait(60) == 0


@pytest.mark.slow
def test_what_a_helper_compiles_is_found_here(tmp_path):
    """With an empty cache: nothing is compiled twice."""
    code = """
import bed, bed._warmup as w
from numba.core import event
class Count(event.Listener):
    def __init__(self): self.names = []
    def on_start(self, e): self.names.append(str(e.data["dispatcher"].py_func.__name__))
    def on_end(self, e): pass
w.thread_count = lambda: 2
count = Count()
with event.install_listener("numba:compile", count):
    with w._help([w._computed(x) for x in ("f8", "c8")], 1, {"n": 4}) as mine:
        assert [x.name for x in mine] == ["float64"]
    assert not count.names
    bed.warmup(4, "c8")
    assert not count.names, count.names
    bed.warmup(4, "f8")
    assert count.names
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = str(Path(bed.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=600
    )
