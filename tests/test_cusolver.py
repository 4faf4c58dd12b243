"""The cuSOLVER engine's own code, with NumPy standing in for CuPy."""

import importlib
import sys
import types
from enum import Enum

import numpy as np
import pytest

from bed import Status
from checks import assert_eigh
from matrices import DTYPES, stack, zoo


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
