"""`bed.eigh(a, b=b)`: pairs of matrices, A x = λ B x."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import bed
import drivers
from bed.testing.accuracy import PROMISE, hermitian
from bed.testing.matrices import DTYPES, planted, random_hermitian

EXTENDED = {"f4": "f8", "c8": "c16", "f8": "g", "c16": "G"}


def definite(rng, shape, dtype, condition=10.0):
    """Positive definite matrices of a condition, and largest eigenvalue one."""
    w = condition ** -np.linspace(0, 1, shape[-1])
    return planted(rng, np.broadcast_to(w, shape[:-1]), dtype)


def solve(a, b, *arguments, driver, **options):
    """`bed.eigh` of host arrays, where the driver has its memory."""
    return drivers.eigh(
        a, *arguments, driver=driver, b=drivers.put(b, driver), **options
    )


class Errors(NamedTuple):
    """The largest of a batch, in n·eps."""

    residual: float
    orthogonality: float


def errors(a, b, w, v, uplo="L"):
    """Of |A V − B V diag(w)| over (|A| + |λ||B|)|x|, and of VᴴBV − I."""
    n, unit = a.shape[-1], a.shape[-1] * np.finfo(a.dtype).eps
    higher = EXTENDED[a.dtype.str[1:]]
    a, b = (hermitian(x, uplo).astype(higher) for x in (a, b))
    v, w = v.astype(higher), w.astype(a.real.dtype)[..., None, :]
    size_a, size_b = (abs(x).max(axis=(-2, -1), keepdims=True) for x in (a, b))
    length = np.sqrt((abs(v) ** 2).sum(axis=-2, keepdims=True))
    residual = abs(a @ v - b @ v * w) / ((size_a + abs(w) * size_b) * length)
    gram = abs(v.conj().swapaxes(-1, -2) @ b @ v - np.eye(n))
    return Errors(float(residual.max()) / unit, float(gram.max()) / unit)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 16, 33, 64])
def test_residual_and_orthogonality(rng, driver, dtype, n):
    drivers.skip_unless_taken(driver, n)
    a = random_hermitian(rng, (3, n, n), dtype)
    b = definite(rng, (3, n, n), dtype)
    for uplo in "LU":
        other = np.triu if uplo == "L" else np.tril
        poisoned = [np.where(other(np.ones((n, n)), 1 - 2 * (uplo == "U")), np.nan, x)
                    for x in (a, b)]  # fmt: skip
        w, v, status = solve(*poisoned, uplo, driver=driver, return_info=True)
        assert not status.any() and w.dtype == a.real.dtype and v.dtype == dtype
        assert (np.diff(w) >= 0).all()
        assert max(errors(a, b, w, v, uplo)) <= PROMISE
        values = drivers.eigvalsh(
            poisoned[0], uplo, driver=driver, b=drivers.put(poisoned[1], driver)
        )
        scale = abs(np.linalg.inv(b.astype("c16"))).max() * abs(a).max()
        assert abs(values - w).max() <= PROMISE * n * np.finfo(dtype).eps * n * scale


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize(
    ("of_a", "of_b"), [*itertools.product([1e-30, 1e-15, 1.0, 1e15, 1e30], repeat=2)]
)
def test_units_do_not_matter(rng, host_driver, dtype, of_a, of_b):
    """Powers of two near these: eigenvalues are the same, but for their own unit."""
    a, b = random_hermitian(rng, (4, 5, 5), dtype), definite(rng, (4, 5, 5), dtype)
    w, v = solve(a, b, driver=host_driver)
    of_a, half_b = (int(np.log2(x)) for x in (of_a, of_b**0.5))
    scaled = [np.ldexp(a.view("f4"), of_a), np.ldexp(b.view("f4"), 2 * half_b)]
    scaled_w, scaled_v = solve(*(x.view(dtype) for x in scaled), driver=host_driver)
    unit = of_a - 2 * half_b
    with np.errstate(over="ignore", under="ignore"):
        expected_w = np.ldexp(w, unit)
        expected_v = np.ldexp(v.view("f4"), -half_b).view(dtype)
    assert np.isinf(expected_w).any() == (unit > 130)
    if host_driver == "reference":  # whose scale need not be a power of four
        np.testing.assert_allclose(scaled_w, expected_w, 1e-4, atol=1e-44)
    else:
        np.testing.assert_array_equal(scaled_w, expected_w)
        np.testing.assert_array_equal(scaled_v, expected_v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_units_of_rows_do_not_matter(rng, host_driver, dtype):
    """D A D and D B D, with powers of two over 30 decades: the same eigenvalues."""
    a, b = random_hermitian(rng, (4, 5, 5), dtype), definite(rng, (4, 5, 5), dtype)
    d = np.exp2(rng.integers(-25, 25, (4, 5))).astype(a.real.dtype)
    both = d[:, :, None] * d[:, None, :]
    w, v = solve(a, b, driver=host_driver)
    scaled_w, scaled_v = solve(both * a, both * b, driver=host_driver)
    if host_driver == "reference":
        np.testing.assert_allclose(scaled_w, w, rtol=1e-4)
    else:
        np.testing.assert_array_equal(scaled_w, w)
        np.testing.assert_array_equal(scaled_v, v / d[:, :, None])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("condition", [1e2, 1e4])
def test_ill_conditioned_b_costs_its_condition(rng, host_driver, dtype, condition):
    n = 8
    a = random_hermitian(rng, (10, n, n), dtype)
    b = definite(rng, (10, n, n), dtype, condition)
    w, v, status = solve(a, b, driver=host_driver, return_info=True)
    assert not status.any()
    assert max(errors(a, b, w, v)) <= PROMISE * condition


def test_against_scipy(rng):
    linalg = pytest.importorskip("scipy.linalg")
    a, b = random_hermitian(rng, (6, 6), "c16"), definite(rng, (6, 6), "c16")
    for lower in (True, False):
        w, v = bed.eigh(a, "L" if lower else "U", b=b, signs="max")
        expected, vectors = linalg.eigh(a, b, lower=lower)
        np.testing.assert_allclose(w, expected, rtol=1e-12)
        np.testing.assert_allclose(abs(v), abs(vectors), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_are_told_and_leave_their_neighbours(rng, steady_driver, dtype):
    n = 4
    drivers.skip_unless_taken(steady_driver, n)
    a, b = random_hermitian(rng, (40, n, n), dtype), definite(rng, (40, n, n), dtype)
    good = solve(a, b, driver=steady_driver)
    b[1] = -b[1]
    b[5] -= np.eye(n, dtype=dtype) / 2  # the smallest eigenvalues are negative
    b[7] = 0
    b[9, 3, 3] = 0
    b[13], b[14] = np.eye(n), np.eye(n)  # the last pivot is zero, or negative
    b[13, 2:, 2:], b[14, 3, 2] = 1, 2
    b[11, 2, 1] = 2  # more than the product of the diagonal allows
    b[17, 3, 1], b[18, 0, 0], a[19, 2, 2], a[33, 2, 0] = np.nan, np.inf, np.nan, -np.inf
    b[20], a[20, 1, 1] = -b[20], np.nan
    w, v, status = solve(a, b, driver=steady_driver, return_info=True)
    expected = np.zeros(40, int)
    expected[[1, 5, 7, 9, 11, 13, 14]] = bed.Status.NOT_DEFINITE
    expected[[17, 18, 19, 20, 33]] = bed.Status.NOT_FINITE
    np.testing.assert_array_equal(status, expected)
    failed = expected != 0
    assert np.isnan(w[failed]).all() and np.isnan(v[failed]).all()
    np.testing.assert_array_equal(w[~failed], good.eigenvalues[~failed])
    np.testing.assert_array_equal(v[~failed], good.eigenvectors[~failed])


def test_check_names_what_failed():
    b = np.stack([np.eye(2), np.diag([1.0, -1]), np.full((2, 2), np.nan)])
    with pytest.raises(
        np.linalg.LinAlgError,
        match="2 of 3 matrices failed: matrix 1: the matrix b is not positive "
        "definite; matrix 2: the triangle that is read holds NaN or Inf",
    ):
        bed.eigh(np.eye(2), b=b, check=True)
    a = np.array([[1.0, 2], [3, 4]])
    with pytest.raises(np.linalg.LinAlgError, match="1 of 1 matrices a are not Herm"):
        bed.eigh(a, b=np.eye(2), check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match="1 of 1 matrices b are not Herm"):
        bed.eigvalsh(np.eye(2), b=a + 4 * np.eye(2), check="hermitian")


def test_an_eigenvalue_that_overflows_is_infinite(host_driver):
    a, b = np.diag([1.0, 0, -1]), np.diag([1e-42, 1, 1])  # C overflows, if unscaled
    w, _, status = solve(
        a.astype("f4"), b.astype("f4"), driver=host_driver, return_info=True
    )
    assert status == bed.Status.OVERFLOW
    assert w[2] == np.inf and abs(w[:2]).max() < 1e36


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_depend_on_nothing_but_the_pair(
    rng, steady_host_driver, dtype, monkeypatch
):
    n = 7
    a, b = random_hermitian(rng, (70, n, n), dtype), definite(rng, (70, n, n), dtype)
    whole = solve(a, b, driver=steady_host_driver)

    def assert_same(found, name):
        for x, expected in zip(found, whole, strict=True):
            np.testing.assert_array_equal(x, expected, name)

    alone = [solve(a[i], b[i], driver=steady_host_driver) for i in range(70)]
    assert_same(map(np.stack, zip(*alone, strict=True)), "one by one")
    backwards = solve(a[::-1], b[::-1], driver=steady_host_driver)
    assert_same((x[::-1] for x in backwards), "backwards")
    fortran = np.asfortranarray(a), np.asfortranarray(b)
    assert_same(solve(*fortran, driver=steady_host_driver), "Fortran")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    many = (np.concatenate([x] * 40) for x in (a, b))
    threads = solve(*many, driver=steady_host_driver)
    assert_same((x[70 * 23 : 70 * 24] for x in threads), "in threads")


def test_inputs_are_not_written(rng, host_driver):
    a, b = random_hermitian(rng, (3, 3), "f8"), definite(rng, (3, 3), "f8")
    a.flags.writeable = b.flags.writeable = False
    before = a.copy(), b.copy()
    solve(a, b, driver=host_driver)
    np.testing.assert_array_equal((a, b), before)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [((), (3,)), ((3,), ()), ((2, 1), (1, 3)), ((0,), ()), ((2, 3), (3,))],
)
def test_leading_axes_are_broadcast(rng, of_a, of_b):
    a, b = (
        random_hermitian(rng, (*of_a, 3, 3), "f8"),
        definite(rng, (*of_b, 3, 3), "f8"),
    )
    w, v, status = bed.eigh(a, b=b, return_info=True)
    leading = np.broadcast_shapes(of_a, of_b)
    assert w.shape == (*leading, 3) and v.shape == (*leading, 3, 3)
    assert status.shape == leading and not np.any(status)
    a, b = (np.broadcast_to(x, v.shape) for x in (a, b))
    for index in np.ndindex(leading):
        np.testing.assert_array_equal(bed.eigh(a[index], b=b[index])[0], w[index])
    assert bed.eigvalsh(a, b=b).shape == w.shape


@pytest.mark.parametrize(
    ("a", "b", "computed"),
    [("f4", "f8", "f8"), ("c8", "f4", "c8"), ("f4", "c16", "c16"), ("f2", "f2", "f4"),
     ("i8", "f4", "f8"), ("f2", "c8", "c8"), (">f8", "?", "f8")],
)  # fmt: skip
def test_dtypes_are_promoted(a, b, computed):
    w, v = bed.eigh(np.array([[1, 2], [2, 1]]).astype(a), b=np.eye(2).astype(b))
    assert v.dtype == computed
    np.testing.assert_allclose(w, [-1, 3], rtol=1e-6)


def test_results_are_of_the_library_of_a():
    torch = pytest.importorskip("torch")
    a, b = [[2, 1], [1, 2]], np.diag([1.0, 4])
    assert isinstance(bed.eigh(a, b=torch.tensor(b)).eigenvectors, np.ndarray)
    w, v = bed.eigh(torch.tensor(a), b=b.tolist(), order="descending")
    assert isinstance(v, torch.Tensor)
    np.testing.assert_allclose(w, bed.eigvalsh(a, b=b)[::-1])


def test_empty_matrices():
    w, v = bed.eigh(
        np.empty((2, 0, 0)), b=np.empty((0, 0)), order="magnitude", signs="max"
    )
    assert w.shape == (2, 0) and v.shape == (2, 0, 0)


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((2, 3), np.linalg.LinAlgError, r"got an array of shape \(2, 3\)"),
        ((3, 3), ValueError, "matrices of one size, got .*2, 2.* and .*3, 3"),
        ((3, 2, 2), ValueError, "leading axes of a .* and b .* do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit(shape, error, message):
    for function in (bed.eigh, bed.eigvalsh):
        with pytest.raises(error, match=message):
            function(np.zeros((4, 2, 2)), b=np.ones(shape))


def test_options_of_pairs_are_checked():
    with pytest.raises(ValueError, match="UPLO"):
        bed.eigh(np.eye(2), "X", b=np.eye(2))
    with pytest.raises(ValueError, match="order"):
        bed.eigvalsh(np.eye(2), b=np.eye(2), order="up")
    with pytest.raises(ValueError, match="check"):
        bed.eigvalsh(np.eye(2), b=np.eye(2), check="b")
    with pytest.raises(ValueError, match="is unknown"):
        bed.eigh(np.eye(2), b=np.eye(2), driver="none")
