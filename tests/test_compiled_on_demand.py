"""Code is compiled for what a call takes, once, and nothing that only it calls."""

import importlib
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from numba import njit
from numba.core import codegen
from numba.core.errors import TypingError
from numba.core.typing.context import BaseContext

import bed
from bed import _console
from bed.engines import numba_cpu
from bed.engines.numba_cpu import _as_ir, _entries
from bed.engines.numba_cpu._compile import NARROW, WIDE, kernel
from bed.testing.checks import assert_eigh

LANES = WIDE // 8  # of double precision


class Recorder:
    """Stands for `Entries`, and notes what is compiled and run."""

    alone_from = None

    def __init__(self):
        self.compiled, self.run = [], []

    def compile(self, dtype, width):
        self.compiled.append((str(dtype), width))

        def run(start, stop, *arguments):
            self.run.append((width, start, stop))

        return run


@pytest.fixture
def recorder():
    return Recorder()


@pytest.mark.parametrize(
    "batch, parts",
    [
        (0, []),
        (1, [(NARROW, 0, 1)]),
        (LANES // 4, [(NARROW, 0, LANES // 4)]),
        (LANES // 4 + 1, [(WIDE, 0, LANES // 4 + 1)]),
        (LANES, [(WIDE, 0, LANES)]),
        (LANES + 1, [(WIDE, 0, LANES), (NARROW, LANES, LANES + 1)]),
        (2 * LANES - 1, [(WIDE, 0, 2 * LANES - 1)]),
        (LANES * _entries.MANY + 1, [(WIDE, 0, LANES * _entries.MANY + 1)]),
    ],
)
def test_a_call_compiles_the_widths_it_takes(recorder, batch, parts):
    solve = _entries._OfDtype(recorder, np.dtype("f8"))
    solve(0, batch, 3, ())
    assert recorder.run == parts
    assert recorder.compiled == [("float64", width) for width, _, _ in parts]
    solve(5 * LANES, 5 * LANES + batch, 3, ())
    assert len(recorder.compiled) == len(parts)


def test_warmup_compiles_both_widths_for_each_dtype(recorder, monkeypatch):
    entries = _entries.Entries("eigh", None, None)
    monkeypatch.setattr(entries, "compile", recorder.compile)
    monkeypatch.setitem(numba_cpu.eigh.__globals__, "_entries", entries)
    bed.warmup(4, ("float16", "i4", "c8"))
    assert sorted(recorder.compiled) == [
        (dtype, width)
        for dtype in ("complex64", "float32", "float64")
        for width in (NARROW, WIDE)
    ]


def test_warmup_compiles_functions_of_matrices_if_asked(monkeypatch):
    of = {}
    for name in ("eigh", "spectral", "spectral_vjp", "eigh_vjp"):
        module = importlib.import_module(f"bed.engines.numba_cpu.{name}")
        of[name] = Recorder()
        entries = _entries.Entries(name, None, None)
        monkeypatch.setattr(entries, "compile", of[name].compile)
        monkeypatch.setattr(module, "_entries", entries)
    both = [("complex64", NARROW), ("complex64", WIDE)]
    bed.warmup(4, "c8")
    assert [sorted(each.compiled) for each in of.values()] == [both, [], [], []]
    bed.warmup(4, "c8", functions=True)
    assert [sorted(each.compiled) for each in of.values()] == [both] * 4


@pytest.mark.parametrize("dtype, size", [("f4", 4), ("c8", 4), ("f8", 8), ("c16", 8)])
def test_lanes_are_of_the_real_dtype(recorder, dtype, size):
    assert _entries._OfDtype(recorder, np.dtype(dtype)).lanes == WIDE // size


def test_threads_that_come_at_once_wait_for_one(recorder, monkeypatch):
    compile_ = recorder.compile

    def slow(dtype, width):
        time.sleep(0.1)
        return compile_(dtype, width)

    monkeypatch.setattr(recorder, "compile", slow)
    solve = _entries._OfDtype(recorder, np.dtype("f8"))
    threads = [threading.Thread(target=solve, args=(i, i + 1, 3, ())) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.compiled) == 1
    assert len(recorder.run) == 4


FORK = """
import os, sys, threading, time
from numba.core.compiler_lock import global_compiler_lock
from bed.engines.numba_cpu import _entries
began = threading.Event()
def compile_long():
    with global_compiler_lock:
        began.set()
        time.sleep(0.3)
threading.Thread(target=compile_long).start()
began.wait()
child = os.fork()
if child == 0:
    with global_compiler_lock:
        os._exit(7)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        assert os.waitstatus_to_exitcode(status) == 7
        with global_compiler_lock:
            sys.exit(0)
    time.sleep(0.01)
os.kill(child, 9)
sys.exit("the child waits for a thread that it has not")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_until_nothing_is_compiled():
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("_nothing_on_disk")
def test_a_compilation_inside_of_another_is_refused(monkeypatch):
    """As from the handler of a signal."""
    inner, one = _entry(), (np.ones(1),)

    @contextmanager
    def interrupted(what):
        inner(np.dtype("f8"))(0, 1, 3, one)
        yield

    outer = _entry()
    with monkeypatch.context() as patch:
        patch.setattr(_entries, "_told", interrupted)
        with pytest.raises(
            RuntimeError, match="while doubling for float64 is compiled"
        ):
            outer(np.dtype("f8"))(0, 1, 3, one)
    for entries in (inner, outer):  # and nothing is left of it
        entries(np.dtype("f8"))(0, 1, 3, one)
        assert entries(np.dtype("f8")).of_width[NARROW](0, 1, *one) == 1


def test_inner_functions_have_no_machine_code():
    @kernel
    def double(x):
        return 2 * x

    @njit
    def quadruple(x):
        return double(double(x))

    assert quadruple(1.5) == 6
    (inner,), (outer,) = double.overloads.values(), quadruple.overloads.values()
    address = [
        result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        for result in (inner, outer)
    ]
    assert address[0] == 0 != address[1]


def test_what_the_first_caller_does_without_is_linked():
    """Before it is linked, the call of one that comes later has to be there."""

    @kernel
    def leaf(x):
        return 2 * x

    @kernel
    def never(x):
        return leaf(x) if x < x else x

    @kernel
    def further(x):
        return leaf(x) + 1

    @njit
    def whole(x):
        return never(x) + further(x)

    assert whole(3) == 10


def test_inner_functions_make_no_arrays():
    """Nothing there would free them."""

    @kernel
    def first(n):
        return np.empty(n)[0]

    @njit
    def whole(n):
        return first(n)

    with pytest.raises(Exception, match="an array is made inside of compiled code"):
        whole(3)


def test_what_an_operator_is_for_types_is_found_once(monkeypatch):
    asked = []
    resolve = BaseContext.resolve_function_type

    def counted(self, func, args, kws):
        asked.append(str(func))
        return resolve(self, func, args, kws)

    monkeypatch.setattr(BaseContext, "resolve_function_type", counted)

    @kernel
    def total(x, y):
        return x + y + x + y + x + y

    @njit
    def whole(x, y):
        return total(x, y)

    assert whole(np.uint8(1), np.uint16(2)) == 9  # which nothing else adds up
    assert 1 <= sum("add" in func for func in asked) <= 4


def test_what_is_refused_is_refused_again():
    @kernel
    def total(x):
        return x + "y"

    @njit
    def whole(x):
        return total(x)

    for _ in range(2):
        with pytest.raises(TypingError, match="unicode_type"):
            whole(3)


def test_a_call_keeps_no_references():
    a = np.eye(4)[np.newaxis].repeat(40, axis=0)
    w, v, status = numba_cpu.eigh(a)
    before = [sys.getrefcount(x) for x in (a, w, v, status)]
    for _ in range(9):
        numba_cpu.eigh(a, out=(w, v, status))
    assert [sys.getrefcount(x) for x in (a, w, v, status)] == before


def test_a_numba_with_other_insides_compiles_as_it_does(monkeypatch):
    assert _as_ir.PIPELINE
    library = type("JITCodeLibrary", (), {"_optimize_final_module": None})
    try:
        with monkeypatch.context() as patch:
            patch.setattr(codegen, "JITCodeLibrary", library)
            assert importlib.reload(_as_ir).PIPELINE == {}
    finally:
        assert importlib.reload(_as_ir).PIPELINE


WITHOUT = """
import sys
from numba.core import codegen
if sys.argv[1] == "without":
    del codegen.JITCodeLibrary
import numpy as np, bed
from bed.engines.numba_cpu import _as_ir
assert bool(_as_ir.PIPELINE) == (sys.argv[1] == "with")
a = np.random.default_rng(0).standard_normal((40, 9, 9)).astype("f4")
w, v = bed.eigh(a)
np.savez(sys.argv[2], a=np.tril(a) + np.tril(a, -1).swapaxes(1, 2), w=w, v=v)
"""


@pytest.mark.slow
def test_bits_do_not_depend_on_how_it_is_compiled(tmp_path):
    """From two empty caches."""
    found = []
    for how in ("with", "without"):
        path = str(tmp_path / f"{how}.npz")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", WITHOUT, how, path],
            env={
                **os.environ,
                "NUMBA_CACHE_DIR": str(tmp_path / how),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found.append(np.load(path))
    one, other = found
    assert_eigh(one["a"], one["w"], one["v"])
    for name in "wv":
        assert one[name].tobytes() == other[name].tobytes()


class Terminal:
    """A stream that may be a terminal."""

    def __init__(self, error=None):
        self.text, self._error = "", error

    def isatty(self):
        return True

    def write(self, text):
        if self._error:
            raise self._error
        self.text += text

    def flush(self):
        assert self.text


def _entry():
    @kernel
    def first(x):
        return x[0]

    return _entries.Entries(
        "doubling",
        lambda width: lambda start, stop, x: first(x),
        lambda dtype, real: (_entries.inputs(dtype, 1),),
    )


@pytest.fixture
def _nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(_entries, "keep_on_disk", lambda dispatcher, name: None)


@pytest.mark.usefixtures("_nothing_on_disk")
def test_a_terminal_is_told_what_is_compiled(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(_console.sys, "stderr", terminal)
    solve = _entry()(np.dtype("f4"))
    solve(0, 1, 3, (np.ones(1, "f4"),))
    text = terminal.text
    assert text.count("compiling doubling for float32, once per machine") == 1
    assert text.endswith("\r\x1b[K")  # and nothing is left of it
    solve(0, 1, 3, (np.ones(1, "f4"),))
    assert terminal.text == text


def test_of_what_is_read_from_disk_nothing_is_told(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(_console.sys, "stderr", terminal)
    with _entries._told("what was compiled before"):
        terminal.text += "of the caller"
    assert terminal.text == "of the caller"


@pytest.mark.usefixtures("_nothing_on_disk")
@pytest.mark.parametrize(
    "stream",
    [None, Terminal(OSError("gone")), object()],
    ids=["none", "gone", "no stream"],
)
def test_a_line_that_cannot_be_shown_stops_nothing(monkeypatch, stream):
    monkeypatch.setattr(_console.sys, "stderr", stream)
    solve = _entry()(np.dtype("f4"))
    solve(0, 1, 3, (np.ones(1, "f4"),))
    assert solve.of_width[NARROW](0, 1, np.full(1, 5, "f4")) == 5
