"""The stages of the Numba-CUDA engine on their own, in the simulator."""

import numpy as np
import pytest

import bed
import tridiagonals
from bed.testing.checks import assert_eigh, assert_same_bits, tolerance
from bed.testing.matrices import DTYPES, random_hermitian, tridiagonal
from simulated import launchers


def assert_reduced(a, d, e, q):
    """Assert that a = q T qᴴ, for every matrix of a batch."""
    n = a.shape[-1]
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    for a_i, d_i, e_i, q_i in zip(a.astype(wide), d, e, q.astype(wide), strict=True):
        t = tridiagonal(d_i.astype(np.longdouble), e_i.astype(np.longdouble))
        size = max(abs(a_i).max(), np.finfo(a.dtype).tiny)
        difference = abs(a_i @ q_i - q_i @ t).max()
        spacing = n * np.finfo(a.dtype).smallest_subnormal.astype(np.longdouble)
        assert difference - spacing <= tolerance(n, a.dtype) * size
        unit = abs(q_i.conj().T @ q_i - np.eye(n)).max()
        assert unit <= tolerance(n, a.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 6, 17])
def test_reduction(rng, n, dtype):
    a = random_hermitian(rng, (4, n, n), dtype)
    a[1], a[2] = 1, np.diag(np.arange(n))
    for uplo in "LU":
        d, e, q = launchers.tridiagonalize(a, uplo)
        assert (d.shape, e.shape, q.shape) == ((4, n), (4, n - 1), (4, n, n))
        assert d.dtype == e.dtype == a.real.dtype
        assert q.dtype == a.dtype
        assert_reduced(a, d, e, q)


@pytest.mark.parametrize("dtype", ["f4", "c8", "f8"])
def test_reduction_undoes_its_scaling(rng, dtype):
    limits = np.finfo(dtype)
    a = random_hermitian(rng, (3, 5, 5), dtype)
    powers = np.array([limits.maxexp - 6, 0, limits.minexp + 8])
    a = a * np.ldexp(limits.dtype.type(1), powers)[:, None, None]
    d, e, q = launchers.tridiagonalize(a)
    assert_reduced(a, d, e, q)
    once = launchers.tridiagonalize(a[1:2])
    assert_same_bits((d[1:2], e[1:2], q[1:2]), once)


def test_reduction_of_a_matrix_that_is_not_finite(rng):
    a = random_hermitian(rng, (3, 4, 4), "c16")
    expected = launchers.tridiagonalize(a)
    a[1, 3, 1] = np.nan
    result = launchers.tridiagonalize(a)
    for x, y in zip(result, expected, strict=True):
        assert np.isnan(x[1]).all()
        assert_same_bits(x[::2], y[::2])


def test_reduction_fills_what_it_is_given(rng):
    a = random_hermitian(rng, (3, 4, 4), "c8")
    out = np.full((3, 4), np.nan, "f4"), np.full((3, 3), np.nan, "f4"), a * np.nan
    result = launchers.tridiagonalize(a, out=out)
    assert all(x is y for x, y in zip(result, out, strict=True))
    assert_reduced(a, *out)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 21])
def test_hard_tridiagonals(rng, n, dtype):
    for names, d, e, a, exact in (
        tridiagonals.stacked(n, dtype, rng),
        tridiagonals.graded(n, dtype),
    ):
        w, v, status = launchers.eigh_tridiagonal(d, e)
        assert not status.any()
        assert_eigh(a, w, v, exact, names=names)
        values = launchers.eigh_tridiagonal(d, e, eigenvectors=False)
        assert values[1] is None
        assert_same_bits((values[0], values[2]), (w, status))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tridiagonals_of_any_scale(rng, dtype):
    limits = np.finfo(dtype)
    for power in (limits.maxexp - 8, limits.minexp + 60):
        scaled = tridiagonals.stacked(8, dtype, rng, 2.0 ** float(power))
        names, d, e, a, exact = scaled
        w, v, status = launchers.eigh_tridiagonal(d, e)
        assert not status.any()
        assert_eigh(a, w, v, exact, names=names)


def test_large_tridiagonal_outside_shared_memory(rng, monkeypatch):
    monkeypatch.setattr(launchers._launch, "SHARED_BYTES", 0)
    names, d, e, a, exact = tridiagonals.stacked(40, "f8", rng)
    few = slice(0, 2)
    w, v, status = launchers.eigh_tridiagonal(d[few], e[few])
    assert not status.any()
    assert_eigh(a[few], w, v, exact[few], names=names)


def test_public_functions(rng, driver):
    a = random_hermitian(rng, (2, 2, 5, 5), "c8")
    d, e, q = bed.tridiagonalize(a, "U", driver=driver)
    assert_reduced(*(x.reshape(4, *x.shape[2:]) for x in (a, d, e, q)))
    w, v, status = bed.eigh_tridiagonal(d, e, return_info=True, driver=driver)
    assert not status.any()
    assert_eigh(a, w, q @ v)
    assert_same_bits(bed.eigh_tridiagonal(d, e, True, driver=driver), w)


def test_tridiagonals_that_fail(rng, monkeypatch):
    d, e = rng.standard_normal((5, 6)), rng.standard_normal((5, 5))
    expected = launchers.eigh_tridiagonal(d, e)
    d[1, 2], e[3, 4] = np.nan, np.inf
    d[4], e[4] = np.finfo("f8").max, np.finfo("f8").max
    w, v, status = launchers.eigh_tridiagonal(d, e)
    assert status.tolist() == [0, 1, 0, 1, bed.Status.OVERFLOW]
    assert np.isnan(w[[1, 3]]).all()
    assert np.isnan(v[[1, 3]]).all()
    assert w[4, -1] == np.inf
    assert_same_bits((w[:3:2], v[:3:2]), (expected[0][:3:2], expected[1][:3:2]))
    monkeypatch.setattr(launchers.qr_iteration, "SWEEPS_PER_EIGENVALUE", 0)
    status = launchers.eigh_tridiagonal(d, e)[2]
    assert status.tolist() == [2, 1, 2, 1, 2]


def test_tridiagonals_are_not_written_and_may_be_strided(rng):
    d, e = rng.standard_normal((4, 7)), rng.standard_normal((4, 6))
    expected = launchers.eigh_tridiagonal(d, e)
    wide = np.full((4, 14), np.nan)
    wide[:, ::2] = d
    d, e = wide[:, ::2], np.asfortranarray(e)
    d.flags.writeable = e.flags.writeable = False
    out = tuple(np.full_like(x, -7) for x in expected)
    result = launchers.eigh_tridiagonal(d, e, out=out)
    assert all(x is y for x, y in zip(result, out, strict=True))
    assert_same_bits(out, expected)
