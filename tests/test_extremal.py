"""A few pairs from an end of the spectrum: every engine, every kind of array."""

import importlib

import numpy as np
import pytest

import bed
from bed import engines
from bed.engines import ends_at
from bed.testing.accuracy import PROMISE, hermitian, measure
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian, stack, zoo
from drivers import eigh, eigh_extremal, fetch, put, skip_unless_taken

ENDS = ("largest", "smallest")


def _assert_extremal(a, w, v, exact, uplo="L", names=None):
    """Dtypes, shapes and order of pairs, and their errors within the promise."""
    assert (w.dtype, v.dtype) == (a.dtype.type(0).real.dtype, a.dtype)
    assert (w.shape, v.shape) == (exact.shape, (*a.shape[:-1], exact.shape[-1]))
    assert (np.diff(w) >= 0).all()
    errors = measure(a, w, v, exact, uplo)
    for kind, error in zip(errors._fields, errors, strict=True):
        bad = np.flatnonzero(~(error <= PROMISE))
        assert not bad.size, (kind, [names[i] if names else i for i in bad], error[bad])


def _counts(n):
    """One, two, the largest for which it pays in some engine, and all."""
    return sorted({k for k in (1, 2, (n - 2) // 4, n) if 1 <= k <= n})


# --- results ------------------------------------------------------------------


@pytest.mark.share(2)
@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 16, 24, 33, 64])
def test_zoo(driver, rng, n, dtype):
    skip_unless_taken(driver, n)
    members = zoo(n, dtype, rng)
    a, exact = stack(members)
    names = [member.name for member in members]
    for which, uplo in zip(ENDS, "LU", strict=True):
        for k in _counts(n):
            w, v, status = eigh_extremal(
                a, k, which, uplo, driver=driver, return_info=True
            )
            assert not status.any()
            part = ends_at(n, k, which)
            _assert_extremal(a, w, v, exact[:, part], uplo, names)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_clusters_at_every_scale(driver, rng, dtype, scale):
    """Repeated and nearly repeated eigenvalues inside, across and outside of k = 3."""
    n = 20
    eps = float(np.finfo(dtype).eps)
    spectra = np.sort(rng.standard_normal((8, n)))
    spectra[1, -3:] = spectra[1, -1]
    spectra[2, -5:] = spectra[2, -1]
    spectra[3, :-3] = spectra[3, 0]
    for row, gap in zip((4, 5, 6, 7), (1, 10, 1e3, eps**-0.5), strict=True):
        spectra[row, -2:] = spectra[row, -3] + np.array([1, 2]) * gap * eps
    exact = np.sort(spectra.astype(np.longdouble)) * scale
    a = planted(rng, exact, dtype)
    w, v = eigh_extremal(a, 3, driver=driver)
    _assert_extremal(a, w, v, exact[:, -3:])
    w, v = eigh_extremal(-a, 3, "smallest", driver=driver)
    _assert_extremal(-a, w, v, -exact[:, :-4:-1])


@pytest.mark.parametrize("n", [2, 3, 8, 12, 32])
def test_simple_matrices_are_exact(driver, n):
    """Diagonal matrices, zero, and multiples of the identity have no rounding."""
    diagonal = (np.arange(n) * 5 % 7 - 2.0) * (1 + np.arange(n) // 7)
    a = np.stack([np.zeros((n, n)), np.eye(n) * -2.5, np.diag(diagonal)])
    for which in ENDS:
        for k in _counts(n):
            w, v = eigh_extremal(a, k, which, driver=driver)
            part = ends_at(n, k, which)
            np.testing.assert_array_equal(w[0], np.zeros(k))
            np.testing.assert_array_equal(w[1], np.full(k, -2.5))
            np.testing.assert_array_equal(w[2], np.sort(diagonal)[part])
            np.testing.assert_array_equal(np.sort(abs(v), axis=1)[:, -1], 1)


def test_pairs_of_opposite_signs(driver):
    """Bisection comes to zero, and then to a pivot of zero, in its first step."""
    a = np.zeros((3, 12, 12))
    for i in range(11):
        a[0, i + 1, i] = 1
        a[1, i + 1, i] = (i + 1) * (i % 2 == 0)
        a[2, i + 1, i] = i == 5
    exact = np.sort(np.linalg.eigvalsh(a).astype(np.longdouble))
    for which in ENDS:
        w, v = eigh_extremal(a, 1, which, driver=driver)
        _assert_extremal(a, w, v, exact[:, ends_at(12, 1, which)])


def test_order_and_bounds_of_eigenvalues(driver, rng):
    """Ascending at both ends; all of k = n is the whole decomposition."""
    a = random_hermitian(rng, (2, 3, 16, 16), "f8")
    w, _ = eigh(a, driver=driver)
    for k in (1, 2, 3, 16):
        for which in ENDS:
            found = eigh_extremal(a, k, which, driver=driver)
            assert found.eigenvalues.shape == (2, 3, k)
            assert found.eigenvectors.shape == (2, 3, 16, k)
            expected = w[..., ends_at(16, k, which)]
            np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-13)
    largest = eigh_extremal(a[0, 0], driver=driver).eigenvalues
    np.testing.assert_allclose(largest, w[0, 0, -1:], atol=1e-13)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_position_batch_or_threads(
    steady_driver, rng, monkeypatch, dtype
):
    """Neither where all are solved by bisection nor where some are left to `eigh`."""
    for n, k in ((5, 1), (16, 1), (16, 2), (33, 3)):
        a = random_hermitian(rng, (133, n, n), dtype)
        a[5], a[77] = np.eye(n), np.nan
        a[9, :, :] = np.ones(n)
        whole = eigh_extremal(a, k, driver=steady_driver, return_info=True)
        assert set(np.flatnonzero(whole.status)) == {77}
        order = rng.permutation(len(a))
        permuted = eigh_extremal(a[order], k, driver=steady_driver, return_info=True)
        assert_same_bits(permuted, tuple(x[order] for x in whole))
        for i in (5, 9, 17, 132):
            alone = eigh_extremal(
                a[i : i + 1], k, driver=steady_driver, return_info=True
            )
            assert_same_bits(alone, tuple(x[i : i + 1] for x in whole))
        for threads in "1", "5":
            monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
            again = eigh_extremal(a, k, driver=steady_driver, return_info=True)
            assert_same_bits(again, whole)
        monkeypatch.delenv("NUMBA_NUM_THREADS")


@pytest.mark.parametrize("k", [1, 2])
def test_bad_matrices_are_flagged_and_neighbours_untouched(driver, rng, k):
    for n, dtype in ((3, "f4"), (16, "c16")):
        a = random_hermitian(rng, (9, n, n), dtype)
        bad = a.copy()
        bad[2, n - 1, 0] = np.nan
        bad[5, 1, 1] = -np.inf
        w, v, status = eigh_extremal(bad, k, driver=driver, return_info=True)
        np.testing.assert_array_equal(status, np.isin(range(9), [2, 5]))
        assert np.isnan(w[[2, 5]]).all()
        assert np.isnan(v[[2, 5]]).all()
        good = [0, 1, 3, 4, 6, 7, 8]
        exact = np.linalg.eigvalsh(a[good].astype("c16"))[:, -k:]
        _assert_extremal(a[good], w[good], v[good], exact)
        with pytest.raises(np.linalg.LinAlgError, match=r"2 of 9.*matrix 2: .* NaN"):
            eigh_extremal(bad, k, driver=driver, check=True)


@pytest.mark.parametrize("n", [3, 12])
def test_an_overflow_counts_where_it_is_returned(driver, n):
    a = np.full((2, n, n), np.finfo("f4").max, "f4")
    a[1] *= -1
    for which, overflows in (("largest", [3, 0]), ("smallest", [0, 3])):
        w, v, status = eigh_extremal(
            a, 1, which, driver=driver, return_info=True, check=False
        )
        np.testing.assert_array_equal(status, overflows)
        np.testing.assert_array_equal(np.isinf(w[:, 0]), np.array(overflows) > 0)
        assert np.isfinite(v).all()
    eigh_extremal(a[1], 1, driver=driver, check=True)
    with pytest.raises(np.linalg.LinAlgError, match="larger than"):
        eigh_extremal(a[0], 1, driver=driver, check=True)


def test_any_strides_and_junk_in_the_other_triangle(driver, rng):
    for n, k in ((5, 2), (18, 2)):
        a = random_hermitian(rng, (4, n, n), "c16")
        expected = tuple(eigh_extremal(a, k, driver=driver))
        junk = a + np.triu(np.full((n, n), np.nan), 1) + 1j * np.diag(np.ones(n))
        wide = np.zeros((8, n, n + 2), "c16")
        wide[::2, :, 1:-1] = junk
        for view in (junk, wide[::2, :, 1:-1], np.asfortranarray(junk)):
            view.flags.writeable = False
            assert_same_bits(tuple(eigh_extremal(view, k, driver=driver)), expected)
        upper = hermitian(junk, "L")
        upper = np.where(np.tri(n, k=-1), np.nan, upper)
        w, v = eigh_extremal(upper, k, UPLO="U", driver=driver)
        exact = np.linalg.eigvalsh(a).astype(np.longdouble)
        _assert_extremal(a, w, v, exact[:, -k:])


def test_empty_batches(driver):
    for n, k in ((3, 2), (20, 2)):
        w, v, status = eigh_extremal(
            np.empty((2, 0, n, n), "c8"), k, driver=driver, return_info=True
        )
        assert (w.shape, w.dtype) == ((2, 0, k), np.float32)
        assert (v.shape, v.dtype) == ((2, 0, n, k), np.complex64)
        assert status.shape == (2, 0)


@pytest.mark.parametrize("n", [5, 20])
def test_engine_fills_what_it_is_given(driver, rng, n, k=2):
    """Outputs start as NaN: nothing is left out, in engines that have this."""
    if not engines.get(driver).extremal:
        pytest.skip(f"{driver} solves all")
    a = random_hermitian(rng, (37, n, n), "f4")
    out = np.full((37, k), np.nan, "f4"), np.full((37, n, k), np.nan, "f4")
    out = tuple(put(x, driver) for x in (*out, np.full(37, -1, "i4")))
    solve = engines.get(driver).load("eigh_extremal")
    for which in ENDS:
        results = solve(put(a, driver), "L", k, which, out=out)
        assert all(x is y for x, y in zip(results, out, strict=True))
        w, v, status = map(fetch, out)
        assert not status.any()
        exact = np.linalg.eigvalsh(a.astype("f8"))[:, ends_at(n, k, which)]
        _assert_extremal(a, w, v, exact)
        assert_same_bits((w, v), fetch(solve(put(a, driver), "L", k, which))[:2])


def test_a_matrix_that_is_left_gets_the_bits_of_eigh(rng):
    n, k = 32, 2
    a = random_hermitian(rng, (40, n, n), "f8")
    a[3], a[17] = np.eye(n), np.diag(np.repeat([1.0, 2.0], n // 2))
    results = bed.eigh_extremal(a, k, driver="numba_cpu")
    whole = bed.eigh(a, driver="numba_cpu")
    for i in (3, 17):
        expected = whole.eigenvalues[i, -k:], whole.eigenvectors[i, :, -k:]
        assert_same_bits(tuple(x[i] for x in results), expected)


def test_the_whole_is_computed_where_that_takes_less_time(rng, monkeypatch):
    kernel = importlib.import_module("bed.engines.numba_cpu.extremal")
    monkeypatch.setattr(kernel, "_entries", None)  # fails where it is asked
    for n, k in ((3, 1), (8, 2), (32, 8)):
        a = random_hermitian(rng, (4, n, n), "f8")
        expected = bed.eigh(a, driver="numba_cpu").eigenvectors[..., -k:]
        found = bed.eigh_extremal(a, k, driver="numba_cpu").eigenvectors
        assert_same_bits(found, expected)
    with pytest.raises(TypeError):
        bed.eigh_extremal(random_hermitian(rng, (4, 32, 32), "f8"), driver="numba_cpu")


# --- arguments ----------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 5, 1.0, "1", None, True, np.float64(2)])
def test_a_wrong_k(k):
    with pytest.raises(ValueError, match=r"k must be .* from 1 to n = 4, got"):
        bed.eigh_extremal(np.eye(4), k)


def test_other_wrong_arguments():
    a = np.eye(4)
    assert bed.eigh_extremal(a, np.int8(2)).eigenvalues.shape == (2,)
    with pytest.raises(ValueError, match="which must be 'largest' or 'smallest'"):
        bed.eigh_extremal(a, 1, "LM")
    with pytest.raises(ValueError, match="UPLO must be"):
        bed.eigh_extremal(a, 1, "largest", "X")
    with pytest.raises(ValueError, match="check must be"):
        bed.eigh_extremal(a, check="yes")
    with pytest.raises(ValueError, match="'nothing' is unknown"):
        bed.eigh_extremal(a, driver="nothing")
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        bed.eigh_extremal(np.ones((3, 4)))
    with pytest.raises(ValueError, match="n = 0"):
        bed.eigh_extremal(np.empty((2, 0, 0)))
    with pytest.raises(np.linalg.LinAlgError, match="not Hermitian"):
        bed.eigh_extremal(np.arange(16.0).reshape(4, 4), check="hermitian")


def test_lists_and_half_precision(rng):
    assert bed.eigh_extremal([[2, 1], [1, 2]]).eigenvalues.tolist() == [3.0]
    a = random_hermitian(rng, (3, 20, 20), "f2")
    w, v = bed.eigh_extremal(a)
    assert (w.dtype, v.dtype) == (np.float32, np.float32)
    assert_same_bits((w, v), tuple(bed.eigh_extremal(a.astype("f4"))))
