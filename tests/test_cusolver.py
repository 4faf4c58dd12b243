"""The cuSOLVER engine's own code, with NumPy standing in for CuPy."""

import importlib
import sys
import types
from enum import Enum

import numpy as np
import pytest

from bed import Status
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian, stack, zoo


class StandIn(types.ModuleType):
    """NumPy where it takes what CuPy takes: no enumeration members as scalars."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def where(condition, *choices):
        assert not any(isinstance(x, Enum) for x in choices)
        return np.where(condition, *choices)


@pytest.fixture
def solve(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", StandIn("cupy"))
    for name in ("bed.engines.cusolver", "bed.engines.cusolver.eigh"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("bed.engines.cusolver").eigh
    for name in ("bed.engines.cusolver", "bed.engines.cusolver.eigh"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zoo(solve, rng, dtype):
    members = zoo(9, dtype, rng)
    a, exact = stack(members)
    for uplo in "LU":
        w, v, status = solve(a, uplo)
        assert not status.any()
        assert_eigh(a, w, v, exact, uplo, [m.name for m in members], "spectral")
        assert_eigh(a, solve(a, uplo, eigenvectors=False)[0], None, exact, uplo)


def test_failures(solve, monkeypatch):
    a = np.tile(np.eye(3), (4, 1, 1))
    a[1, 2, 2] = np.nan
    original = np.linalg.eigh

    def unconverged(x, UPLO):
        w, v = original(x, UPLO=UPLO)
        w[3] = np.nan
        return w, v

    monkeypatch.setattr(np.linalg, "eigh", unconverged)
    w, v, status = solve(a)
    expected = [Status.OK, Status.NOT_FINITE, Status.OK, Status.NO_CONVERGENCE]
    assert status.tolist() == expected
    assert np.isnan(w[[1, 3]]).all()
    assert np.isnan(v[[1, 3]]).all()
    assert_eigh(a[[0, 2]], w[[0, 2]], v[[0, 2]])


@pytest.fixture
def limited(solve, monkeypatch):
    """The engine, and the batches its library was called with; three are too many."""
    module = sys.modules["bed.engines.cusolver.eigh"]
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 2 * (module.WORKSPACE + 6**2))
    batches = []

    def wrapped(original):
        def call(x, UPLO):
            assert len(x) <= 2, "CUSOLVER_STATUS_INVALID_VALUE"
            batches.append(len(x))
            return original(x, UPLO=UPLO)

        return call

    monkeypatch.setattr(np.linalg, "eigh", wrapped(np.linalg.eigh))
    monkeypatch.setattr(np.linalg, "eigvalsh", wrapped(np.linalg.eigvalsh))
    return solve, batches


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_batches_are_solved_in_chunks(limited, rng, batch, dtype):
    solve, batches = limited
    a = random_hermitian(rng, (batch, 5, 5), dtype)
    if batch == 7:
        a[3, 4, 1] = np.nan
        a[6] = np.finfo(dtype).max
    w, v, status = solve(a)
    assert batches == [2] * (batch // 2) + [1] * (batch % 2)
    alone = [solve(a[i : i + 1]) for i in range(batch)]
    for x, parts in zip((w, v, status), zip(*alone, strict=True), strict=True):
        assert_same_bits(x, np.concatenate(parts))
    if batch == 7:
        assert status.tolist() == [0, 0, 0, Status.NOT_FINITE, 0, 0, Status.OVERFLOW]
    batches.clear()
    out = np.full_like(w, -7), None, np.full_like(status, -7)
    result = solve(a, eigenvectors=False, out=out)
    assert result[0] is out[0]
    assert result[1] is None
    assert sum(batches) == batch
    assert_same_bits(result[2], status)
    good = status == 0
    assert_eigh(a[good], result[0][good], v[good])


def test_chunks_stay_far_below_what_cusolver_counts(solve):
    module = sys.modules["bed.engines.cusolver.eigh"]
    # The largest batches that CuPy's users saw taken.
    for n, taken in {2: 2_078_879, 4: 2_047_171}.items():
        assert 2**31 // taken == module.WORKSPACE + (n + 1) ** 2
        assert module.chunk(n) * 15 <= taken
    for n in (1, 33, 65, 128, 1000, 5000):
        assert 1 <= module.chunk(n) * n * n < 2**31
    assert module.chunk(20_000) == 1
