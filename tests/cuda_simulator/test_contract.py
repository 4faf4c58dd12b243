"""The contract of engines, on the Numba-CUDA engine in the simulator."""

import numpy as np
import pytest

import bed
import test_engines as contract
import test_two_by_two as blocks
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from simulated import launchers


# In shared memory up to n = 41 in complex128, 69 in the next two and 104 in float32.
@pytest.mark.parametrize(
    "n, dtype",
    [
        (33, "f8"),
        (33, "c8"),
        (48, "c16"),
        (64, "f4"),
        (64, "c8"),
        (72, "f8"),
        (128, "f4"),
    ],
)
def test_larger_sizes(driver, rng, n, dtype):
    a = random_hermitian(rng, (1, n, n), dtype)
    w, v, status = bed.eigh(a, driver=driver, return_info=True)
    assert not status.any()
    assert_eigh(a, w, v)


def test_both_places_for_a_matrix_give_the_same_bits(rng, monkeypatch):
    a = random_hermitian(rng, (3, 9, 9), "c8")
    expected = launchers.eigh(a)
    monkeypatch.setattr(launchers._launch, "SHARED_BYTES", 0)
    assert_same_bits(launchers.eigh(a), expected)
    values = launchers.eigh(a, eigenvectors=False)
    assert_same_bits(values[0], expected[0])


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("eigenvectors", [True, False])
def test_engine_fills_what_it_is_given(driver, rng, dtype, eigenvectors):
    contract.test_engine_fills_what_it_is_given(
        driver, rng, dtype, eigenvectors, batch=5
    )


def test_engine_allocates_outputs_itself(driver, rng):
    contract.test_engine_allocates_outputs_itself(driver, rng)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_rows_in_closed_form(driver, rng, dtype):
    blocks.test_halves(driver, dtype)
    blocks.test_many_blocks(driver, rng, dtype, n=7, batch=4)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_only_one_triangle_is_read(rng, uplo, dtype):
    n = 6
    a = random_hermitian(rng, (2, n, n), dtype)
    i, j = np.indices((n, n))
    hidden = a.copy()
    hidden[:, i < j if uplo == "L" else i > j] = np.nan
    if hidden.dtype.kind == "c":
        hidden.imag[:, np.arange(n), np.arange(n)] = np.nan
    assert_same_bits(launchers.eigh(hidden, uplo), launchers.eigh(a, uplo))


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_any_strides_and_read_only(rng, dtype):
    a = random_hermitian(rng, (4, 5, 5), dtype)
    expected = launchers.eigh(a)
    wide = np.full((4, 10, 15), np.nan, dtype)
    wide[:, ::2, ::3] = a
    views = {
        "gaps": wide[:, ::2, ::3],
        "columns": np.asfortranarray(a),
        "backwards": a[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "batch last": np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
    }
    for name, view in views.items():
        view = view.view()
        view.flags.writeable = False  # a write raises
        before = view.copy()
        assert_same_bits(launchers.eigh(view), expected)
        assert_same_bits(view, before), name
    repeated = np.broadcast_to(a[2], (3, 5, 5))
    for x, y in zip(launchers.eigh(repeated), expected, strict=True):
        assert_same_bits(x, np.stack([y[2]] * 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_anywhere_in_a_batch(rng, dtype):
    a = random_hermitian(rng, (6, 7, 7), dtype)
    a[3] = np.eye(7)
    expected = launchers.eigh(a)
    order = rng.permutation(6)
    result = launchers.eigh(np.ascontiguousarray(a[order]))
    assert_same_bits(result, tuple(x[order] for x in expected))
    alone = launchers.eigh(a[4:5])
    assert_same_bits(alone, tuple(x[4:5] for x in expected))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_leaves_the_others_alone(rng, dtype, bad):
    a = random_hermitian(rng, (5, 4, 4), dtype)
    expected = launchers.eigh(a)
    broken = a.copy()
    broken[1, 2, 2], broken[4, 3, 0] = bad, bad
    w, v, status = launchers.eigh(broken)
    values = launchers.eigh(broken, eigenvectors=False)
    assert status.tolist() == [0, 1, 0, 0, 1]
    assert_same_bits(values[0], w)
    assert_same_bits(values[2], status)
    good = status == 0
    assert np.isnan(w[~good]).all()
    assert np.isnan(v[~good]).all()
    assert_same_bits((w[good], v[good]), (expected[0][good], expected[1][good]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_that_overflow(rng, dtype):
    a = random_hermitian(rng, (3, 4, 4), dtype)
    expected = launchers.eigh(a)
    a[1] = np.finfo(dtype).max
    w, v, status = launchers.eigh(a)
    assert status.tolist() == [0, bed.Status.OVERFLOW, 0]
    assert w[1, -1] == np.inf
    assert np.isfinite(w[1, :-1]).all()
    assert np.isfinite(v).all()
    assert_same_bits((w[2], v[2]), (expected[0][2], expected[1][2]))


@pytest.mark.parametrize("eigenvectors", [True, False])
def test_no_convergence_is_flagged(rng, monkeypatch, eigenvectors):
    """Without a sweep only diagonal matrices are solved."""
    a = random_hermitian(rng, (5, 6, 6), "f8")
    a[2] = np.diag(np.arange(6.0))
    monkeypatch.setattr(launchers.qr_iteration, "SWEEPS_PER_EIGENVALUE", 0)
    w, v, status = launchers.eigh(a, eigenvectors=eigenvectors)
    expected = [bed.Status.NO_CONVERGENCE] * 5
    expected[2] = bed.Status.OK
    assert status.tolist() == expected
    failed = status != 0
    assert np.isnan(w[failed]).all()
    assert_eigh(a[2], w[2], v[2] if eigenvectors else None)
    if eigenvectors:
        assert np.isnan(v[failed]).all()
