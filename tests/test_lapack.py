"""LAPACK through NumPy: what the engine does to the process, and what is done to it."""

import importlib
import os
import signal
import threading
import warnings

import numpy as np
import pytest

import bed
from bed.engines.lapack import _blas
from bed.testing.checks import assert_eigh
from bed.testing.matrices import DTYPES, random_hermitian
from interpreter import run_python

eigh = importlib.import_module("bed.engines.lapack.eigh")


def _blas_threads():
    """Of the libraries that NumPy had loaded when the engine looked for them."""
    return [library.get_num_threads() for library in _blas._of_the_process()]


@pytest.fixture
def several():
    """BLAS with three threads: more than the engine leaves it, on any machine."""
    found = _blas._limit(_blas._of_the_process())
    assert found, "no BLAS is found"
    for library in _blas._of_the_process():
        _blas._set(library, 3)
    yield _blas_threads()
    _blas._restore(found)


def test_blas_has_one_thread_inside(several):
    with _blas.one_blas_thread():
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == several


def test_the_last_of_overlapping_callers_lifts_the_limit(several):
    """Neither the first nor the last to come is the last to go."""
    first, second, third = (_blas.one_blas_thread() for _ in range(3))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    third.__enter__()
    second.__exit__(None, None, None)
    assert set(_blas_threads()) == {1}
    third.__exit__(None, None, None)
    assert _blas_threads() == several


def test_another_thread_may_be_the_last(several):
    """Of those that a library allows to change its number only one began."""
    entered, release = threading.Event(), threading.Event()

    def call():
        with _blas.one_blas_thread():
            entered.set()
            release.wait(30)

    caller = threading.Thread(target=call)
    with _blas.one_blas_thread():
        caller.start()
        entered.wait()
    assert set(_blas_threads()) == {1}
    release.set()
    caller.join()
    assert _blas_threads() == several


def test_a_number_of_each_thread_is_set_by_each(rng, monkeypatch):
    """As of a BLAS that is built with OpenMP, whose number is the thread's own."""

    class PerThread:
        own, limited = threading.local(), set()

        def get_num_threads(self):
            return getattr(self.own, "number", 5)

        def set_num_threads(self, number):
            self.own.number = number
            if number == 1:
                self.limited.add(threading.current_thread().name)

    library = PerThread()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    monkeypatch.setattr(_blas, "_of_a_thread", lambda: (library,))
    together, original = threading.Barrier(2, timeout=30), eigh.prepare

    def both(xp, a, uplo):
        seen.append(library.get_num_threads())
        together.wait()  # passes only if two threads are inside at once
        return original(xp, a, uplo)

    seen = []
    monkeypatch.setattr(eigh, "prepare", both)
    monkeypatch.setattr(eigh, "BLOCK_ENTRIES", 64)
    bed.eigh(random_hermitian(rng, (2, 8, 8), "f8"), driver="lapack")
    assert seen == [1, 1]
    assert len(library.limited) == 2
    assert library.get_num_threads() == 5


def test_an_exception_lifts_the_limit(several):
    with _blas.one_blas_thread():
        with pytest.raises(ZeroDivisionError), _blas.one_blas_thread():
            raise ZeroDivisionError
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == several


def test_calls_that_overlap(several, rng):
    a = random_hermitian(rng, (4, 120, 120), "f8")
    together = threading.Barrier(6, timeout=30)

    def solve():
        together.wait()
        for _ in range(5):
            bed.eigh(a, driver="lapack")

    callers = [threading.Thread(target=solve) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert _blas_threads() == several


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("inside", [True, False])
def test_a_child_forked_in_a_call_has_its_threads_back(several, inside):
    """By the thread that is in the call, and by another one."""
    entered, release = threading.Event(), threading.Event()

    def call():
        with _blas.one_blas_thread():
            entered.set()
            release.wait(30)

    caller = threading.Thread(target=call)
    caller.start()
    entered.wait()
    own = _blas.one_blas_thread()
    if inside:
        own.__enter__()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        right = _blas_threads() == several
        if inside:
            own.__exit__(None, None, None)
        with _blas.one_blas_thread():
            right = right and set(_blas_threads()) == {1}
        os._exit(0 if right and _blas_threads() == several else 1)
    status = os.waitpid(child, 0)[1]
    if inside:
        own.__exit__(None, None, None)
    assert set(_blas_threads()) == {1}
    release.set()
    caller.join()
    assert status == 0
    assert _blas_threads() == several


def test_bed_in_numpys_place():
    """The engine, imported after that, still calls NumPy."""
    code = """
import numpy as np, bed
from functools import partial
np.linalg.eigh = partial(bed.eigh, driver="lapack")
np.linalg.eigvalsh = partial(bed.eigvalsh, driver="lapack")
a = np.array([[2.0, 1], [1, 2]])
print(np.linalg.eigvalsh(a).round(9), np.linalg.eigh(a).eigenvalues.round(9))
"""
    assert run_python(code) == "[1. 3.] [1. 3.]\n"


@pytest.mark.parametrize("driver", ["numba_cpu", "lapack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_warns_or_raises_where_a_caller_asks_for_it(
    rng, monkeypatch, driver, dtype
):
    """Matrices that are not finite, subnormal, huge, or all three by turns."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    n, limits = 40, np.finfo(dtype)
    a = random_hermitian(rng, (90, n, n), dtype)
    a[10], a[11, 1, 1], a[12, 0, 0] = 0, np.nan, np.inf
    a[20:30] *= limits.tiny
    a[30] = limits.max
    rows, columns = np.indices((n, n))
    a[40] *= limits.eps ** abs(rows - columns)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for uplo in "LU":
            w, v, status = bed.eigh(a, uplo, driver=driver, return_info=True)
            bed.eigvalsh(a, uplo, driver=driver)
    expected = np.zeros(len(a), int)
    expected[11:13] = bed.Status.NOT_FINITE
    expected[30] = bed.Status.OVERFLOW
    assert status.tolist() == expected.tolist()
    good = expected == 0
    assert_eigh(a[good], w[good], v[good], relative_to="spectral")
