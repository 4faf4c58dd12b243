"""The floating-point mode of a caller: no bit depends on it, and it is restored."""

import ctypes
import platform
import re
from contextlib import contextmanager

import numpy as np
import pytest
from numba import njit
from numba.extending import overload

import bed
from bed.engines import _float_mode, _threads
from bed.engines._constants import constants
from bed.engines.numba_cpu import _compile
from bed.engines.numba_cpu._blocks import in_blocks
from bed.engines.numba_cpu._float_mode import (
    enter_default_mode,
    never_inlined,
    restore_mode,
)
from bed.engines.numba_cpu._memory import allocate, free
from bed.engines.numba_cpu._workspace import workspace
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import random_hermitian

MACHINE = platform.machine()
# Where the control register is in C's fenv_t, and its bits.
WORD = {"x86_64": 7, "aarch64": 0}.get(MACHINE)
MODES = {
    "x86_64": {"flush": 0x8040, "toward zero": 0x6000},
    "aarch64": {"flush": 1 << 24, "toward zero": 3 << 22},
}.get(MACHINE, {})

pytestmark = pytest.mark.skipif(
    WORD is None or platform.libc_ver()[0] != "glibc",
    reason="knows the environment of glibc on x86-64 and ARM",
)


def _control():
    """The control register of this thread, with the flags of exceptions left out."""
    words = (ctypes.c_uint32 * 64)()
    _float_mode._environment()[0](words)
    return words[WORD] & ~0x3F if MACHINE == "x86_64" else words[WORD]


@contextmanager
def _mode(name):
    """Run this thread in another mode."""
    read, write, _ = _float_mode._environment()
    before, words = (ctypes.c_uint32 * 64)(), (ctypes.c_uint32 * 64)()
    read(before)
    read(words)
    words[WORD] |= MODES[name]
    write(words)
    try:
        yield
    finally:
        write(before)


def _small(rng, dtype, batch, n=5):
    """Matrices in the range of subnormal numbers."""
    return random_hermitian(rng, (batch, n, n), dtype) * np.finfo(dtype).tiny


def test_the_mode_is_what_it_is_taken_for():
    tiny = np.finfo("f8").tiny
    with _mode("flush"):
        flushed = np.full(1, tiny) / 2
    with _mode("toward zero"):
        tenth = np.ones(1) / 10
    assert flushed[0] == 0 < tiny / 2
    assert tenth[0] < 0.1  # to nearest is upwards


@pytest.mark.parametrize("driver", ["numba_cpu", "lapack"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_no_bit_depends_on_the_mode(rng, monkeypatch, driver, mode, dtype):
    """Of a call in this thread alone, and with helpers that begin in its mode."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    a = _small(rng, dtype, 8000)
    expected = bed.eigh(a, driver=driver, return_info=True)
    assert not expected.status.any()
    monkeypatch.setattr(_threads, "_pool", None)
    with _mode(mode):
        before = _control()
        found = bed.eigh(a, driver=driver, return_info=True)
        alone = bed.eigh(a[:3], driver=driver, return_info=True)
        after = _control()
    assert_same_bits(tuple(found), tuple(expected))
    assert_same_bits(tuple(alone), tuple(x[:3] for x in expected))
    assert before == after
    monkeypatch.setattr(_threads, "_pool", None)  # its threads keep the mode


@pytest.mark.parametrize("mode", MODES)
def test_no_bit_of_a_stage_depends_on_the_mode(rng, mode):
    a = _small(rng, "f4", 9)
    d, e, _ = expected = bed.tridiagonalize(a)
    solved = bed.eigh_tridiagonal(d, e, return_info=True)
    with _mode(mode):
        before = _control()
        found = bed.tridiagonalize(a)
        found_solved = bed.eigh_tridiagonal(d, e, return_info=True)
        assert _control() == before
    assert_same_bits(tuple(found), tuple(expected))
    assert_same_bits(tuple(found_solved), tuple(solved))


def test_constants_are_not_those_of_the_first_caller():
    expected = constants("f8")
    constants.cache_clear()
    with _mode("toward zero"):
        assert constants("f8") == expected


@pytest.fixture(scope="module")
def failing():
    """A compiled function that doubles, and runs out of memory where it shall."""

    @_compile.kernel
    def double(x, fail):
        never_inlined()
        if fail:
            raise MemoryError
        x[0] *= 2

    @njit
    def run(x, fail):
        mode, failed = enter_default_mode(), False
        try:
            double(x, fail)
        except Exception:
            failed = True
        restore_mode(mode)
        if failed:
            raise MemoryError

    run(np.ones(1), False)
    return run


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_is_restored_after_an_exception(failing, mode):
    run = failing
    with _mode(mode):
        before = _control()
        with pytest.raises(MemoryError):
            run(np.ones(1), True)
        with pytest.raises(ZeroDivisionError), _float_mode.default_float_mode():
            raise ZeroDivisionError
        assert _control() == before


def _without_memory(n, a, w, width):
    """As `workspace`, where there is none left."""
    raise NotImplementedError


@overload(_without_memory, prefer_literal=True)
def _none_left(n, a, w, width):
    def build(n, a, w, width):
        work, memory = workspace(n, a, w, width)
        free(memory)
        return work, allocate(1 << 60)

    return build


def test_without_memory_nothing_is_solved_and_the_mode_is_restored():
    @_compile.kernel
    def write(start, count, arrays, work, const):
        arrays[0] = 1.0

    solve = in_blocks(write, 16, _without_memory)

    @njit
    def run(a, out):
        solve(0, len(a), a.shape[1], a, out, out)

    out = np.zeros(1)
    with _mode("flush"):
        before = _control()
        with pytest.raises(MemoryError, match="no memory for the blocks"):
            run(np.ones((1, 1, 1)), out)
        assert _control() == before
    assert out[0] == 0


def test_no_arithmetic_is_moved_to_where_the_mode_is_changed(failing):
    run = failing
    for signature in run.signatures:
        functions = run.inspect_llvm(signature).split("define ")
        (changing,) = [f for f in functions if re.search(r"\.ldmxcsr\(|set\.fpcr\(", f)]
        assert not re.search(r"= f(add|mul) ", changing)
