"""The contract of `bed.eigh` and `bed.eigvalsh`, whatever engine runs."""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, planted, random_hermitian
from drivers import eigh, eigvalsh, skip_unless_taken

# --- shapes -----------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_batched_equals_loop(driver, rng, leading, n):
    a = random_hermitian(rng, (*leading, n, n), "f8")
    w, v = eigh(a, driver=driver)
    assert_eigh(a, w, v)
    assert eigvalsh(a, driver=driver).shape == (*leading, n)
    for index in np.ndindex(leading):
        alone = eigh(a[index], driver=driver)
        if driver == "reference":  # its bits depend on the batch, by design
            assert_eigh(a[index], w[index], alone.eigenvectors)
        else:
            assert_same_bits(alone, (w[index], v[index]))


@pytest.mark.parametrize(
    "shape", [(0, 0), (0, 3, 3), (5, 0, 0), (2, 0, 4, 4), (0, 0, 0)]
)
@pytest.mark.parametrize("dtype", ["f4", "c16", "i4"])
def test_empty(driver, shape, dtype):
    a = np.zeros(shape, dtype)
    expected = np.linalg.eigh(a)
    w, v, status = eigh(a, driver=driver, return_info=True, check=True)
    assert w.shape == expected.eigenvalues.shape
    assert v.shape == expected.eigenvectors.shape
    assert (w.dtype, v.dtype) == (expected[0].dtype, expected[1].dtype)
    assert status.shape == shape[:-2]
    assert not status.any()
    assert eigvalsh(a, driver=driver).shape == w.shape


def test_one_by_one(driver):
    a = np.array([[[-2.5]], [[0.0]], [[1e-310]], [[1e308]]])
    w, v = eigh(a, driver=driver)
    np.testing.assert_array_equal(w, a[:, 0])
    np.testing.assert_array_equal(abs(v), np.ones_like(a))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 3, 2), (0,), (3, 0)])
def test_not_square_matrices(shape):
    with pytest.raises(np.linalg.LinAlgError, match="expected square matrices") as info:
        bed.eigh(np.zeros(shape))
    assert str(shape) in str(info.value)


# --- triangles --------------------------------------------------------------


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e30])
def test_other_triangle_and_imaginary_diagonal_are_not_read(driver, rng, dtype, junk):
    n = 7
    a = random_hermitian(rng, (4, n, n), dtype)
    diagonal = np.arange(n)
    clean = eigh(a, driver=driver)
    for uplo in ("L", "l", "U", "u"):
        dirty = a.copy()
        other = np.triu_indices(n, 1) if uplo.upper() == "L" else np.tril_indices(n, -1)
        dirty[:, other[0], other[1]] = junk
        if dirty.dtype.kind == "c":
            dirty.imag[:, diagonal, diagonal] = junk
        w, v, status = eigh(dirty, uplo, driver=driver, return_info=True)
        assert not status.any()
        assert_eigh(a, w, v)
        assert_eigh(a, eigvalsh(dirty, uplo, driver=driver))
        if uplo in "Ll":
            assert_same_bits((w, v), tuple(clean))


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_triangle_is_its_own_matrix(driver, rng, dtype):
    a = random_hermitian(rng, (6, 9, 9), dtype)
    a = np.tril(a) + 2 * np.triu(a, 1)
    for uplo in "LU":
        w, v = eigh(a, UPLO=uplo, driver=driver)
        assert_eigh(a, w, v, uplo=uplo)


@pytest.mark.parametrize("uplo", ["X", "", "lower", None, 1, b"L"])
def test_unknown_triangle(uplo):
    with pytest.raises(ValueError, match=r"UPLO must be 'L' or 'U'.*got"):
        bed.eigh(np.eye(2), uplo)


# --- memory -----------------------------------------------------------------


def _views(rng, dtype):
    """Names and arrays (4, 5, 5) of every kind of stride."""
    base = random_hermitian(rng, (4, 5, 5), dtype)
    big = np.full((8, 9, 11), np.nan, dtype)
    big[::2, 2:7, 1:11:2] = base
    yield "sliced", big[::2, 2:7, 1:11:2]
    yield "transposed", base.swapaxes(1, 2).conj()
    yield "fortran", np.asfortranarray(base)
    yield "reversed batch", base[::-1]
    yield "reversed axes", base[:, ::-1, ::-1]
    yield "broadcast", np.broadcast_to(base[:1], base.shape)
    yield (
        "batch last",
        np.moveaxis(np.ascontiguousarray(np.moveaxis(base, 0, -1)), -1, 0),
    )
    unaligned = np.empty(base.nbytes + 1, np.uint8)[1:].view(dtype).reshape(base.shape)
    unaligned[...] = base
    yield "unaligned", unaligned
    yield "swapped bytes", base.astype(base.dtype.newbyteorder())


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_strides_give_the_same_bits(driver, rng, dtype):
    for name, a in _views(rng, dtype):
        a.flags.writeable = False
        before = a.tobytes()
        packed = np.array(a, dtype, order="C")
        for uplo in "LU":
            result = eigh(a, uplo, driver=driver)
            assert_eigh(packed, *result, uplo=uplo)
            assert_same_bits(tuple(result), tuple(eigh(packed, uplo, driver=driver)))
        assert a.tobytes() == before, name


def test_leading_axes_of_any_strides(driver, rng):
    big = random_hermitian(rng, (4, 6, 3, 3), "f8")
    a = big[::2, ::-3].swapaxes(0, 1)
    w, v = eigh(a, driver=driver)
    assert_eigh(a, w, v)


def test_length_one_axes_with_odd_strides(driver):
    x = np.arange(64.0)[::3]
    a = np.lib.stride_tricks.as_strided(x, (1, 1, 1), (104, 56, 24))
    w, v = eigh(a, driver=driver)
    assert w[0, 0] == 0
    assert abs(v[0, 0, 0]) == 1


def test_outputs_own_their_memory(rng):
    a = random_hermitian(rng, (3, 4, 4), "f8")
    before = a.copy()
    w, v = bed.eigh(a)
    for x in (w, v):
        assert x.flags.writeable
        assert x.flags.c_contiguous
        assert not np.shares_memory(x, a)
        x[...] = 0
    np.testing.assert_array_equal(a, before)


# --- dtypes -----------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">f4", ">c16"]
)
def test_computed_like_numpy(driver, rng, dtype):
    a = rng.integers(0, 2, (5, 4, 4)).astype(dtype)
    a = np.maximum(a, a.swapaxes(1, 2)) if a.dtype.kind != "c" else a * a.swapaxes(1, 2)
    w, v = eigh(a, driver=driver)
    expected = np.linalg.eigh(a)
    assert (w.dtype, v.dtype) == (expected[0].dtype, expected[1].dtype)
    assert_eigh(a.astype(v.dtype), w, v)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_single(driver, rng, name):
    dtype = np.dtype(name) if name == "float16" else _bfloat16()
    a = random_hermitian(rng, (5, 6, 6), "f4").astype(dtype)
    w, v = eigh(a, driver=driver)
    assert w.dtype == v.dtype == np.float32
    assert_same_bits((w, v), tuple(eigh(a.astype("f4"), driver=driver)))


def _bfloat16():
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize("dtype", ["g", "G", "O", "U3", "M8[s]", "V8"])
def test_other_dtypes_are_refused_by_name(dtype):
    if dtype in "gG" and np.dtype("g").itemsize == 8:
        pytest.skip("long double is double on this platform")
    a = np.zeros((2, 3, 3), dtype)
    with pytest.raises(
        TypeError, match="is not supported; accepted are float32"
    ) as info:
        bed.eigh(a)
    assert str(a.dtype) in str(info.value)


def test_lists_and_scalars():
    assert_same_bits(
        bed.eigvalsh([[2, 1], [1, 2]]), bed.eigvalsh(np.array([[2, 1.0], [1, 2]]))
    )
    w, v = bed.eigh([[[1j * 0, -1j], [1j, 0]]])
    np.testing.assert_allclose(w, [[-1, 1]])
    assert v.dtype == np.complex128
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(\)"):
        bed.eigh(3.0)
    with pytest.raises(ValueError, match="inhomogeneous"):
        bed.eigh([[1, 2], [3]])


# --- results ----------------------------------------------------------------


def test_result_is_a_named_tuple_in_numpys_order(rng):
    a = random_hermitian(rng, (2, 3, 3), "f8")
    result = bed.eigh(a)
    w, v = result
    assert w is result.eigenvalues
    assert v is result.eigenvectors
    w, v, status = bed.eigh(a, return_info=True)
    assert status.dtype == np.int32
    info = bed.eigvalsh(a, return_info=True)
    assert_same_bits(info.status, status)
    assert type(bed.eigvalsh(a)) is np.ndarray


def test_ndarray_subclasses_come_back_as_from_numpy(rng):
    class Tagged(np.ndarray):
        pass

    a = random_hermitian(rng, (4, 4), "f8").view(Tagged)
    expected = np.linalg.eigh(a)
    w, v = bed.eigh(a)
    assert type(v) is type(expected.eigenvectors) is Tagged
    assert type(w) is type(expected.eigenvalues)


# --- failures ---------------------------------------------------------------

BAD = [np.nan, np.inf, -np.inf]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_bad_matrices_are_flagged_and_neighbours_untouched(driver, rng, dtype, n):
    a = random_hermitian(rng, (9, n, n), dtype)
    bad = a.copy()
    bad[2, n - 1, 0] = np.nan
    bad[5, n // 2, n // 2] = -np.inf
    bad[6, n - 1, n - 1] = np.inf
    w, v, status = eigh(bad, driver=driver, return_info=True)
    np.testing.assert_array_equal(status, np.where(np.isin(range(9), [2, 5, 6]), 1, 0))
    assert np.isnan(w[[2, 5, 6]]).all()
    assert np.isnan(v[[2, 5, 6]]).all()
    good = [0, 1, 3, 4, 7, 8]
    assert_eigh(a[good], w[good], v[good])
    w, status = eigvalsh(bad, driver=driver, return_info=True)
    assert np.isnan(w[[2, 5, 6]]).all()
    assert np.isfinite(w[good]).all()
    assert status.sum() == 3


@pytest.mark.parametrize("n", [3, 65])
def test_two_bad_matrices_among_many(steady_driver, rng, n):
    skip_unless_taken(steady_driver, n)
    batch = 10000 if n == 3 else 100
    a = random_hermitian(rng, (batch, n, n), "f4")
    nan, inf = rng.choice(batch, 2, replace=False)
    bad = a.copy()
    bad[nan, 1, 0] = np.nan
    bad[inf, 2, 2] = np.inf
    w, v, status = eigh(bad, driver=steady_driver, return_info=True)
    assert set(np.flatnonzero(status)) == {nan, inf}
    rest = np.setdiff1d(np.arange(batch), [nan, inf])
    clean = eigh(a, driver=steady_driver)
    assert_same_bits((w[rest], v[rest]), (clean[0][rest], clean[1][rest]))


def test_bits_do_not_depend_on_position_batch_or_threads(
    steady_driver, rng, monkeypatch
):
    for n, dtype in ((2, "f4"), (7, "c8"), (16, "f8"), (33, "c16")):
        a = random_hermitian(rng, (301, n, n), dtype)
        w, v = eigh(a, driver=steady_driver)
        order = rng.permutation(len(a))
        assert_same_bits(
            tuple(eigh(a[order], driver=steady_driver)), (w[order], v[order])
        )
        assert_same_bits(
            tuple(eigh(a[17:18], driver=steady_driver)), (w[17:18], v[17:18])
        )
        for threads in "1", "5":
            monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
            assert_same_bits(tuple(eigh(a, driver=steady_driver)), (w, v))
        monkeypatch.delenv("NUMBA_NUM_THREADS")


def test_check_names_the_first_ten_and_why(driver):
    a = np.tile(np.eye(3), (4, 5, 1, 1))
    assert eigh(a, check=True, driver=driver).eigenvalues.shape == (4, 5, 3)
    a[1, 2, 0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError) as info:
        eigh(a, check=True, driver=driver)
    assert str(info.value) == (
        "1 of 20 matrices failed: matrix (1, 2): "
        "the triangle that is read holds NaN or Inf"
    )
    a[...] = np.inf
    with pytest.raises(np.linalg.LinAlgError, match=r"20 of 20.*and 10 more") as info:
        eigvalsh(a, check=True, driver=driver)
    assert str(info.value).count("matrix (") == 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflowing_eigenvalues_are_flagged(driver, dtype):
    large = np.finfo(dtype).max
    a = np.stack([np.full((3, 3), large), np.eye(3) * large]).astype(dtype)
    w, v, status = eigh(a, driver=driver, return_info=True)
    np.testing.assert_array_equal(status, [bed.Status.OVERFLOW, bed.Status.OK])
    assert w[0, 2] == np.inf
    assert np.isfinite(w[0, :2]).all()
    assert np.isfinite(v).all()
    assert (w[1] == large).all()
    with pytest.raises(np.linalg.LinAlgError, match="larger than"):
        eigh(a, check=True, driver=driver)


def test_hermitian_check(rng):
    a = random_hermitian(rng, (2, 3, 5, 5), "c16")
    nearly = a * (1 + 1e-16 * rng.standard_normal(a.shape))
    bed.eigh(nearly, check="hermitian")
    a[1, 2, 0, 3] += 0.25
    bed.eigh(a, check=True)
    with pytest.raises(
        np.linalg.LinAlgError, match=r"1 of 6 .*matrix \(1, 2\): 0\.\d+"
    ):
        bed.eigh(a, check="hermitian")
    with pytest.raises(ValueError, match="check must be"):
        bed.eigh(a, check="symmetric")


# --- accuracy across sizes and scales ---------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_scale_changes_nothing_but_the_scale(driver, rng, dtype, uplo):
    a = planted(rng, np.linspace(-1, 2, 6), dtype)[None]
    w, v = eigh(a, uplo, driver=driver)
    for exponent in (-90, -40, 7, 100):
        scale = a.dtype.type(2.0**exponent).real
        scaled = eigh(a * scale, uplo, driver=driver)
        assert_same_bits(tuple(scaled), (w * scale, v))
