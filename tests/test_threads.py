"""Blocks of a batch on several threads."""

import os
import threading

import numpy as np
import pytest

import bed
from bed.engines import _threads
from checks import assert_same_bits
from matrices import random_hermitian


@pytest.mark.parametrize("threads", ["1", "2", "7"])
@pytest.mark.parametrize("batch, block", [(0, 4), (1, 4), (8, 4), (9, 4), (100, 1)])
def test_every_index_once(monkeypatch, threads, batch, block):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    seen = np.zeros(batch, int)

    def work(start, stop):
        assert stop - start <= block
        seen[start:stop] += 1

    _threads.for_blocks(work, batch, block)
    assert (seen == 1).all()


def test_work_is_shared(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    together = threading.Barrier(3, timeout=30)
    names = set()

    def work(start, stop):
        names.add(threading.current_thread().name)
        together.wait()  # passes only if three threads are inside at once

    _threads.for_blocks(work, 3, 1)
    assert len(names) == 3


def test_first_exception_is_raised(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")

    def work(start, stop):
        if start >= 5:
            raise ZeroDivisionError(start)

    with pytest.raises(ZeroDivisionError):
        _threads.for_blocks(work, 10, 1)


@pytest.mark.parametrize("text", ["", "0", "-2", "many"])
def test_thread_count_ignores_what_is_no_number(monkeypatch, text):
    monkeypatch.setenv("NUMBA_NUM_THREADS", text)
    assert _threads.thread_count() >= 1


def test_calls_from_many_threads(steady_driver, rng):
    a = random_hermitian(rng, (50, 12, 12), "f8")
    expected = tuple(bed.eigh(a, driver=steady_driver))
    results = [None] * 8

    def call(i):
        results[i] = tuple(bed.eigh(a, driver=steady_driver))

    callers = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for result in results:
        assert_same_bits(result, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
def test_a_forked_child_has_its_own_threads(rng, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    a = random_hermitian(rng, (2000, 8, 8), "f4")
    expected = bed.eigvalsh(a)
    child = os.fork()
    if child == 0:
        same = np.array_equal(bed.eigvalsh(a), expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
