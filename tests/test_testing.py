"""The measuring room sees what it is for, and needs NumPy alone."""

import contextlib
import itertools
import time

import numpy as np
import pytest

from bed.testing import clock
from bed.testing.accuracy import PROMISE
from bed.testing.checks import assert_eigh, assert_same_bits, examine, tolerance
from bed.testing.matrices import DTYPES, planted, random_hermitian
from interpreter import run_python


def test_it_loads_numpy_alone_and_only_when_asked():
    code = """
import sys, numpy, bed
assert not [name for name in sys.modules if name.startswith("bed.testing")]
before = set(sys.modules)
import bed.testing.accuracy, bed.testing.checks, bed.testing.clock, bed.testing.matrices
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names)))
"""
    assert run_python(code).strip() == "['bed']"


@pytest.fixture
def solved(rng):
    a = random_hermitian(rng, (5, 7, 7), "f8")
    return a, *np.linalg.eigh(a)


def test_what_is_right_passes(solved):
    a, w, v = solved
    assert_eigh(a, w, v, w.astype(np.longdouble), "U")
    wrong, errors = examine(a, w, v)
    assert wrong == []
    assert max(errors.residual) < PROMISE
    assert errors.values is None


def _shifted(a, w, v):
    w[3] += 2 * tolerance(7, "f8") * abs(a[3]).max()
    return a, w, v


def _not_a_number(a, w, v):
    v[3, 0, 0] = np.nan
    return a, w, v


def _descending(a, w, v):
    w[3], v[3] = w[3, ::-1].copy(), v[3, :, ::-1].copy()
    return a, w, v


def _scaled(a, w, v):
    v[3] *= 1 + 2 * tolerance(7, "f8")
    return a, w, v


FAULTS = {
    "residual": _shifted,
    "orthogonality": _scaled,
    "residual above 8": _not_a_number,
    "eigenvalues are not ascending": _descending,
    r"eigenvalues are float32 \(5, 7\)": lambda a, w, v: (a, w.astype("f4"), v),
    r"eigenvectors are float64 \(5, 7, 6\)": lambda a, w, v: (a, w, v[..., :6]),
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_is_wrong_is_named(solved, text):
    names = ["a", "b", "c", "the bad one", "e"]
    with pytest.raises(AssertionError, match=text) as info:
        assert_eigh(*FAULTS[text](*solved), names=names)
    assert ("the bad one" in str(info.value)) == ("above" in str(info.value))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_alone_are_compared_with_those_of_lapack(rng, dtype):
    a = planted(rng, np.arange(1.0, 7), dtype)
    w = np.arange(1, 7).astype(a.real.dtype)
    assert_eigh(a, w)
    with pytest.raises(AssertionError, match="values above"):
        assert_eigh(a, w * (1 + 99 * np.finfo(a.dtype).eps))


@pytest.mark.parametrize("dtype", DTYPES)
def test_planted_eigenvalues_are_those_of_the_matrix(rng, dtype):
    w = np.sort(rng.standard_normal((3, 9)).astype(np.longdouble))
    a = planted(rng, w, dtype)
    found = np.linalg.eigvalsh(a.astype("c16" if a.dtype.kind == "c" else "f8"))
    assert abs(found - w).max() < tolerance(9, dtype) * abs(a).max()


def test_bits_are_compared():
    x = np.array([0.0, np.nan])
    assert_same_bits((x, np.float32(1)), (x.copy(), np.float32(1)))
    for other in (np.array([-0.0, np.nan]), x.astype("f4"), x[:1]):
        with pytest.raises(AssertionError):
            assert_same_bits(x, other)


def test_calls_take_turns_and_medians_count():
    order = []
    sleeps = {"a": iter([0, 0.001, 0.05, 0.001]), "b": iter([0, 0.02, 0.02, 0.02])}

    def sleep(name):
        order.append(name)
        time.sleep(next(sleeps[name]))

    @contextlib.contextmanager
    def slow():
        time.sleep(0.03)
        order.append("in")
        yield

    found = clock.in_turns(
        {name: lambda name=name: sleep(name) for name in "ab"},
        within={"a": slow},
        rounds=3,
        wait=lambda: order.append("wait"),
    )
    assert order == ["in", "a", "wait", "b", "wait"] * 4
    assert 0.001 <= found["a"] < 0.02 <= found["b"]


def test_rounds_end_when_there_was_enough():
    calls = []
    clock.in_turns({"a": lambda: calls.append(1)}, rounds=50, enough=0)
    assert len(calls) == 2


def test_a_clock_of_ones_own_is_read_and_no_other():
    ticks = itertools.count()
    calls = {"a": lambda: time.sleep(0.01), "b": lambda: next(ticks)}
    found = clock.all_turns(calls, rounds=2, clock=lambda: float(next(ticks)))
    assert found == {"a": [1, 1], "b": [2, 2]}


def test_short_calls_are_repeated_in_their_turn():
    slept, counts = {"short": 0.002, "long": 0.05}, {"short": 0, "long": 0}

    def sleep(name):
        counts[name] += 1
        time.sleep(slept[name])

    found = clock.in_turns(
        {name: lambda name=name: sleep(name) for name in slept}, rounds=2, turn=0.02
    )
    assert counts["long"] == 3 < counts["short"] <= 21
    assert slept["short"] <= found["short"] < slept["long"] <= found["long"]


def test_short_calls_are_repeated_and_long_ones_timed_once():
    counts = []

    def ticks(several, count):
        several(count)
        return counts[-1] * second

    for second, rounds in ((1e-4, [1] + [20] * 5), (1.0, [1])):
        counts.clear()
        assert clock.back_to_back(counts.append, ticks) == pytest.approx(second)
        assert counts == rounds
    assert clock.on_the_host(lambda count: time.sleep(0.001), 1) >= 0.001
