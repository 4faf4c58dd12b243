"""Matrices that cannot be solved, in every kernel: reported, and nothing else."""

import numpy as np
import pytest

from bed import Status
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import random_hermitian
from drivers import eigh
from kernels import FUSED, batch_for, kernels, solve


@pytest.mark.parametrize("n, dtype, block, vectors", kernels())
def test_nan_and_inf_beside_good_matrices(rng, n, dtype, block, vectors):
    a = batch_for(rng, block, n, dtype)
    broken, bad = a.copy(), np.zeros(len(a), bool)
    for k in (0, block, len(a) - 1):
        i, j = sorted(rng.integers(0, n, 2).tolist(), reverse=True)
        broken[k, i, j] = rng.choice([np.nan, np.inf, -np.inf])
        bad[k] = True
    clean, (w, v, status) = solve(a), solve(broken)
    np.testing.assert_array_equal(status, np.where(bad, Status.NOT_FINITE, 0))
    assert np.isnan(w[bad]).all()
    assert np.isnan(v[bad]).all()
    others = tuple(x[~bad] for x in (w, v, status))
    assert_same_bits(others, tuple(x[~bad] for x in clean))


@pytest.mark.parametrize("n, dtype, block, vectors", kernels())
def test_eigenvalues_that_overflow(rng, n, dtype, block, vectors):
    """With the largest number in every entry one eigenvalue is n times that."""
    if n == 1:
        pytest.skip("the eigenvalue of 1 × 1 is its entry")
    a = batch_for(rng, block, n, dtype)
    a[1] = np.finfo(dtype).max
    w, v, status = solve(a)
    expected = np.where(np.arange(len(a)) == 1, Status.OVERFLOW, 0)
    np.testing.assert_array_equal(status, expected)
    assert w[1, -1] == np.inf
    assert np.isfinite(w[1, :-1]).all()
    assert np.isfinite(v[1]).all()


@pytest.mark.parametrize("uplo, place", [("L", (2, 1)), ("U", (1, 2))])
def test_two_among_a_million(rng, uplo, place):
    """One NaN and one Inf: two statuses, the message names them, others the same."""
    batch = 1_000_000
    a = np.resize(random_hermitian(rng, (4099, 4, 4), "f4"), (batch, 4, 4))
    bad, broken = [batch // 3, batch - 77], a.copy()
    broken[:, place[1], place[0]] = np.nan  # of the triangle that is not read
    broken[(bad, *place)] = np.nan, np.inf
    clean, (w, v, status) = solve(a, uplo), solve(broken, uplo)
    assert_eigh(a[:64], clean[0][:64], clean[1][:64], uplo=uplo)
    assert np.flatnonzero(status).tolist() == bad
    assert np.isnan(w[bad]).all() and np.isnan(v[bad]).all()
    good = status == Status.OK
    found = tuple(x[good] for x in (w, v, status))
    assert_same_bits(found, tuple(x[good] for x in clean))
    with pytest.raises(np.linalg.LinAlgError, match=f"2 of {batch}") as info:
        eigh(broken, uplo, driver=FUSED, check=True)
    assert all(f"matrix {k}:" in str(info.value) for k in bad)
    eigh(a, uplo, driver=FUSED, check=True)
