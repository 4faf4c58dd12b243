"""Blocks of a batch on several threads."""

import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import bed
from bed.engines import _threads
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import random_hermitian
from interpreter import run_python


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


@pytest.fixture
def fresh(monkeypatch):
    """No helpers before and after, and four threads wanted."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    monkeypatch.setattr(_threads, "_pool", None)
    monkeypatch.setattr(_threads, "_pool_threads", 0)
    return monkeypatch


def _helping():
    return threading.current_thread().name.startswith("bed")


def test_an_exception_of_a_helper_is_raised(fresh):
    met = threading.Event()

    def work(start, stop):
        if _helping():
            met.set()
            raise ZeroDivisionError(start)
        met.wait(30)

    with pytest.raises(ZeroDivisionError):
        _threads.for_blocks(work, 8, 1)


def test_nothing_is_at_work_after_an_exception(fresh):
    begun, inside = threading.Barrier(2, timeout=30), []

    def work(start, stop):
        if not _helping():
            begun.wait()
            raise ZeroDivisionError
        if not inside:
            inside.append(start)
            begun.wait()
            time.sleep(0.2)
            inside.append("ended")
        else:
            time.sleep(0.01)

    with pytest.raises(ZeroDivisionError):
        _threads.for_blocks(work, 100, 1)
    assert inside[-1] == "ended"


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_threads_that_cannot_start_are_done_without(fresh, allowed):
    """Those that did start are waited for, and later calls get what there is."""
    start, started = threading.Thread.start, []

    def limited(thread):
        if thread.name.startswith("bed"):
            if len(started) >= allowed:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    fresh.setattr(threading.Thread, "start", limited)
    for _ in range(3):
        done = np.zeros(8, bool)

        def work(first, stop, done=done):
            time.sleep(0.1 if _helping() else 0.005)
            done[first:stop] = True

        _threads.for_blocks(work, 8, 1)
        assert done.all()
    assert len(started) == allowed
    assert not _threads._calls
    assert len(_threads._serving) <= allowed


def test_a_short_call_does_not_wait_for_a_long_one(fresh):
    release, short_ended = threading.Event(), threading.Event()
    entered = threading.Barrier(5, timeout=30)  # all helpers, the caller and this test

    def long(start, stop):
        entered.wait()
        release.wait(30)

    caller = threading.Thread(target=_threads.for_blocks, args=(long, 4, 1))
    caller.start()
    entered.wait()
    seen = []
    short = threading.Thread(
        target=lambda: (
            _threads.for_blocks(lambda *part: seen.append(part), 4, 1),
            short_ended.set(),
        )
    )
    short.start()
    in_time = short_ended.wait(10)
    release.set()
    caller.join()
    short.join()
    assert in_time
    assert len(seen) == 4


def test_helpers_come_to_a_call_when_they_are_free(fresh):
    """A call that began while all were busy is helped once the other one has ended."""
    release, helped = threading.Event(), threading.Event()
    entered = threading.Barrier(5, timeout=30)

    def busy(start, stop):
        entered.wait()
        release.wait(30)

    caller = threading.Thread(target=_threads.for_blocks, args=(busy, 4, 1))
    caller.start()
    entered.wait()

    def work(start, stop):
        if _helping():
            helped.set()
        else:
            release.set()
            assert helped.wait(10)

    _threads.for_blocks(work, 50, 1)
    caller.join()
    assert helped.is_set()


def test_a_call_within_a_call(fresh):
    count, lock = [0], threading.Lock()

    def inner(start, stop):
        with lock:
            count[0] += 1

    def outer(start, stop):
        _threads.for_blocks(inner, 5, 1)

    _threads.for_blocks(outer, 20, 1)
    assert count[0] == 100


def test_many_callers_while_the_pool_grows(fresh):
    sums = np.zeros((16, 40), int)

    def call(i):
        fresh.setenv("NUMBA_NUM_THREADS", str(2 + i % 5))

        def work(start, stop):
            sums[i, start:stop] += 1

        for _ in range(20):
            _threads.for_blocks(work, 40, 3)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert (sums == 20).all()
    assert not _threads._calls


def test_no_helper_keeps_what_a_call_has_used(fresh):
    class Array:
        """Something that can be referred to weakly."""

    def call():
        array = Array()

        def work(start, stop, array=array):
            time.sleep(0.01)

        _threads.for_blocks(work, 12, 1)
        return weakref.ref(array)

    reference = call()
    deadline = time.monotonic() + 10
    while _threads._serving and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reference() is None


@pytest.fixture
def _interrupted():
    """Control-C is an exception, also where a shell starts tests that ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupted")
def test_an_interrupt_does_not_leave_helpers_at_work(fresh):
    """Control-C while the caller waits for the last block of a helper."""
    begun, ended = threading.Event(), threading.Event()

    def work(start, stop):
        if _helping():
            begun.set()
            time.sleep(0.1)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.3)
            ended.set()
        else:
            assert begun.wait(30)

    with pytest.raises(KeyboardInterrupt):
        _threads.for_blocks(work, 2, 1)
    assert ended.is_set()


def test_a_limit_holds_inside_and_for_this_thread_alone(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    seen = []
    other = threading.Thread(target=lambda: seen.append(_threads.thread_count()))
    with _threads.limited_to(2):
        assert _threads.thread_count() == 2
        with _threads.limited_to(1):
            assert _threads.thread_count() == 1
        other.start()
        other.join()
    assert seen == [4]
    assert _threads.thread_count() == 4
    with _threads.limited_to(9):
        assert _threads.thread_count() == 4


def test_the_interpreter_ends_while_calls_are_made():
    """Threads cannot be started any more then; what is solved is right."""
    code = """
import atexit, os
os.environ["NUMBA_NUM_THREADS"] = "3"
from bed.engines import _threads
def solve():
    seen = []
    _threads.for_blocks(lambda *part: seen.append(part), 10, 1)
    print(len(seen))
atexit.register(solve)
"""
    assert run_python(code) == "10\n"
    assert run_python(code + "solve()") == "10\n10\n"


@pytest.mark.parametrize("text", ["", "0", "-2", "many"])
def test_thread_count_ignores_what_is_no_number(monkeypatch, text):
    monkeypatch.setenv("NUMBA_NUM_THREADS", text)
    assert _threads.thread_count() >= 1


def test_calls_from_many_threads(steady_host_driver, rng):
    a = random_hermitian(rng, (50, 12, 12), "f8")
    expected = tuple(bed.eigh(a, driver=steady_host_driver))
    results = [None] * 8

    def call(i):
        results[i] = tuple(bed.eigh(a, driver=steady_host_driver))

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, if it is loaded
def test_a_child_is_not_stopped_by_what_other_threads_held(fresh):
    """Forked while another thread has the lock, and while helpers are at work."""
    release, inside = threading.Event(), threading.Barrier(5, timeout=30)

    def busy(start, stop):
        inside.wait()
        release.wait(30)

    def hold():
        with _threads._lock:
            inside.wait()
            release.wait(30)

    caller = threading.Thread(target=_threads.for_blocks, args=(busy, 3, 1))
    caller.start()
    while inside.n_waiting < 3:
        time.sleep(0.01)
    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        seen = []
        _threads.for_blocks(lambda *part: seen.append(part), 8, 1)
        os._exit(0 if len(seen) == 8 else 1)
    status = os.waitpid(child, 0)[1]
    release.set()
    caller.join()
    holder.join()
    assert status == 0
