"""`check="hermitian"`: what counts as rounding, and silence about everything else."""

import warnings

import numpy as np
import pytest

import bed
from bed.testing.matrices import DTYPES, random_hermitian

NOT_HERMITIAN = "1 of 6 matrices are not Hermitian.*matrix 3"


def _rounded_twice(rng, convert):
    """D S D in a half type: each product is rounded, in another order for each half."""
    x = convert(rng.standard_normal((6, 16, 64)) / 8)
    s = convert((x @ np.swapaxes(x, -1, -2)).astype("f4"))
    d = convert(rng.uniform(0.5, 1, (6, 16)))
    return convert(convert(d[:, :, None] * s) * d[:, None, :])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", ["numpy", "torch", "torch followed", "jax"])
def test_half_types_are_allowed_their_own_rounding(rng, library, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a = _rounded_twice(rng, lambda x: np.asarray(x).astype(half))
    assert (a != a.swapaxes(1, 2)).any()
    if library.startswith("torch"):
        torch = pytest.importorskip("torch")

        def to(a):
            x = torch.from_numpy(a.astype("f4")).to(getattr(torch, dtype))
            return x.requires_grad_(library == "torch followed")
    elif library == "jax":
        to = pytest.importorskip("jax").numpy.asarray
    else:

        def to(a):
            return a

    for solve in (bed.eigh, bed.eigvalsh):
        solve(to(a), check="hermitian")
        wrong = a.copy()
        wrong[3, 0, 1] += 1
        with pytest.raises(np.linalg.LinAlgError, match=NOT_HERMITIAN):
            solve(to(wrong), check="hermitian")


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8"])
def test_integers_have_to_be_symmetric(dtype):
    a = np.tile(np.array([[3, 1], [1, 2]], dtype), (6, 1, 1))
    bed.eigvalsh(a, check="hermitian")
    a[3, 0, 1] += 1
    with pytest.raises(np.linalg.LinAlgError, match=NOT_HERMITIAN):
        bed.eigvalsh(a, check="hermitian")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["auto", "lapack", "reference"])
def test_the_size_of_a_matrix_is_no_reason_to_warn(rng, dtype, driver):
    a = random_hermitian(rng, (6, 4, 4), dtype)
    limits = np.finfo(dtype)
    a[1] *= limits.tiny
    a[2] *= limits.smallest_subnormal * 8
    a[4] *= limits.max / 16
    a[5] = 0
    bad = a.copy()
    bad[3, 0, 0] = np.inf
    bad[1, 1, 0] = np.nan
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for solve in (bed.eigh, bed.eigvalsh):
            solve(a, driver=driver)
            solve(bad, driver=driver)
            solve(a, check="hermitian", driver=driver)
            with pytest.raises(np.linalg.LinAlgError, match="NaN or Inf"):
                solve(bad, check="hermitian", driver=driver)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_other_triangle_has_to_hold_the_same(rng, dtype, bad):
    a = random_hermitian(rng, (6, 3, 3), dtype)
    a[3, 0, 2] = bad
    with pytest.raises(np.linalg.LinAlgError, match=NOT_HERMITIAN):
        bed.eigh(a, check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match=r"matrix 3: .*holds NaN or Inf"):
        bed.eigh(a, "U", check="hermitian")


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_differences_among_subnormal_numbers_are_seen(dtype, flushed):
    torch = pytest.importorskip("torch")
    least = np.finfo(dtype).smallest_subnormal
    pairs = [(least, 0), (least, -least), (least, 9 * least)]
    flushed = flushed and torch.set_flush_denormal(True)
    try:
        for above, below in pairs:
            a = np.array([[0, above], [below, 0]], dtype)
            with pytest.raises(np.linalg.LinAlgError, match="not Hermitian"):
                bed.eigh(a, check="hermitian")
        a = np.array([[0, least], [least, 0]], dtype)
        w = bed.eigvalsh(a, check="hermitian")
        slow = bed.eigvalsh(a, driver="reference")
    finally:
        if flushed:
            torch.set_flush_denormal(False)
    np.testing.assert_array_equal(w, [-least, least])
    np.testing.assert_array_equal(slow, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_numbers_do_not_overflow(dtype):
    huge = np.finfo(dtype).max
    unit = huge * (1 + 1j) if np.dtype(dtype).kind == "c" else huge
    a = np.array([[0, unit], [np.conj(unit), 0]], dtype)
    status = bed.eigh(a, return_info=True).status
    assert status in (bed.Status.OK, bed.Status.OVERFLOW)
    bed.eigvalsh(a * 0.5, check="hermitian")
    a[0, 1] *= -1
    with pytest.raises(np.linalg.LinAlgError, match="not Hermitian"):
        bed.eigvalsh(a, check="hermitian")
