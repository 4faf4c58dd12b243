"""`bed.tridiagonalize` and `bed.eigh_tridiagonal`, on host arrays."""

import numpy as np
import pytest
import scipy.linalg

import bed
import tridiagonals
from bed.testing.accuracy import PROMISE, hermitian
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, SIZES, random_hermitian, stack, zoo

torch = pytest.importorskip("torch")
REAL = ("f4", "f8")


def _full(d, e):
    """(..., n, n) from the diagonals."""
    n = d.shape[-1]
    t = np.zeros((*d.shape, n), d.dtype)
    i = np.arange(n)
    t[..., i, i] = d
    t[..., i[1:], i[:-1]] = t[..., i[:-1], i[1:]] = e
    return t


def _assert_reduced(a, d, e, q, uplo):
    """A = Q T Qᴴ with orthogonal Q, in n·eps of the largest entry of each matrix."""
    n = a.shape[-1]
    real = a.real.dtype
    assert (d.dtype, e.dtype, q.dtype) == (real, real, a.dtype)
    assert d.shape == a.shape[:-1]
    assert e.shape == (*a.shape[:-2], n - 1)
    higher = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    a, q, t = hermitian(a, uplo).astype(higher), q.astype(higher), _full(d, e)
    qh = q.conj().swapaxes(-1, -2)
    size = abs(a).max(axis=(-2, -1), keepdims=True)
    residual = abs(a @ q - q @ t.astype(higher)) / np.where(size > 0, size, 1)
    assert residual.max() <= PROMISE * n * np.finfo(real).eps
    assert abs(qh @ q - np.eye(n)).max() <= PROMISE * n * np.finfo(real).eps


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_reduction_of_the_zoo(rng, n, dtype):
    a, _ = stack([m for m in zoo(n, dtype, rng) if m.name != "subnormal"])
    for uplo in "LU":
        _assert_reduced(a, *bed.tridiagonalize(a, uplo), uplo)


@pytest.mark.share(2)
@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize(
    "n", [pytest.param(n, marks=[pytest.mark.slow] if n > 33 else []) for n in SIZES]
)
def test_hard_tridiagonals(rng, n, dtype):
    for names, d, e, a, exact in (
        tridiagonals.stacked(n, dtype, rng),
        tridiagonals.stacked(n, dtype, rng, 2.0**-100),
        tridiagonals.stacked(n, dtype, rng, 2.0**100),
        tridiagonals.graded(n, dtype),
    ):
        w, v, status = bed.eigh_tridiagonal(d, e, return_info=True)
        assert not status.any()
        assert_eigh(a, w, v, exact, names=names)
        w = bed.eigh_tridiagonal(d, e, eigvals_only=True)
        assert_eigh(a, w, None, exact, names=names)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_stages_are_the_decomposition(rng, dtype):
    a = random_hermitian(rng, (2, 3, 9, 9), dtype)
    d, e, q = bed.tridiagonalize(a)
    w, v = bed.eigh_tridiagonal(d, e)
    exact = np.linalg.eigvalsh(a.astype(np.result_type(dtype, "f8")))
    assert_eigh(a, w, (q @ v).astype(dtype), exact.astype(np.longdouble))


def test_one_matrix_is_that_of_scipy(rng):
    d, e = rng.standard_normal(20), rng.standard_normal(19)
    w, v = bed.eigh_tridiagonal(d, e)
    expected, _ = scipy.linalg.eigh_tridiagonal(d, e)
    np.testing.assert_allclose(w, expected, rtol=0, atol=1e-13)
    assert_eigh(_full(d, e), w, v)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4), (2, 0, 3, 3), (1, 1)])
def test_no_matrices_of_size_zero_or_one(shape):
    a = np.ones(shape, "f4")
    d, e, q = bed.tridiagonalize(a)
    n = shape[-1]
    assert d.shape == shape[:-1]
    assert e.shape == (*shape[:-2], max(n - 1, 0))
    assert q.shape == shape
    w, v, status = bed.eigh_tridiagonal(d, e, return_info=True)
    assert w.shape == d.shape
    assert v.shape == shape
    assert not status.any()
    if shape == (1, 1):
        assert [x.item() for x in (d, q, w, v)] == [1, 1, 1, 1]


def test_same_bits_alone_and_in_a_batch(rng):
    a = random_hermitian(rng, (37, 6, 6), "f4")
    a[5] = np.nan
    reduced = bed.tridiagonalize(a)
    solved = bed.eigh_tridiagonal(*reduced[:2])
    for i in (0, 4, 5, 6, 36):
        assert_same_bits(tuple(bed.tridiagonalize(a[i])), tuple(x[i] for x in reduced))
        alone = bed.eigh_tridiagonal(reduced.d[i], reduced.e[i])
        assert_same_bits(tuple(alone), tuple(x[i] for x in solved))


def test_matrices_that_fail(rng):
    a = random_hermitian(rng, (4, 5, 5), "f8")
    a[2, 4, 0] = np.inf
    d, e, q = bed.tridiagonalize(a)
    for x in (d, e, q):
        bad = np.isnan(x).reshape(4, -1)
        assert bad.all(axis=1).tolist() == bad.any(axis=1).tolist()
        assert bad.all(axis=1).tolist() == [False, False, True, False]
    w, v, status = bed.eigh_tridiagonal(d, e, return_info=True)
    assert status.tolist() == [0, 0, bed.Status.NOT_FINITE, 0]
    assert np.isnan(w[2]).all()
    assert np.isnan(v[2]).all()
    values, again = bed.eigh_tridiagonal(d, e, True, return_info=True)
    assert_same_bits(again, status)
    assert np.isnan(values[2]).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"1 of 4 .* matrix 2: "):
        bed.eigh_tridiagonal(d, e, check=True)
    largest = np.finfo("f4").max
    d, e = np.full((2, 2), largest), np.array([[0], [largest]], "f4")
    w, _, status = bed.eigh_tridiagonal(d.astype("f4"), e, return_info=True)
    assert status.tolist() == [0, bed.Status.OVERFLOW]
    assert w[1, 1] == np.inf


def test_dtypes_and_broadcasting(rng):
    d = rng.integers(-5, 5, (3, 1, 6))
    e = rng.integers(-5, 5, (4, 5)).astype("f4")
    w, v = bed.eigh_tridiagonal(d, e)
    assert w.shape == (3, 4, 6)
    assert w.dtype == v.dtype == np.float64
    d, e = np.broadcast_to(d, w.shape), np.broadcast_to(e, (3, 4, 5))
    assert_eigh(_full(d.astype("f8"), e.astype("f8")), w, v)
    half = d.astype("f2")
    assert bed.eigh_tridiagonal(half, e, True).dtype == np.float32
    assert bed.tridiagonalize(np.eye(3, dtype="f2")).q.dtype == np.float32


def test_inputs_are_read_in_any_strides_and_not_written(rng):
    whole = rng.standard_normal((9, 14, 5))
    d, e = whole[::-2, 1:7, 2], whole[::2, 8:13, 3]
    before = whole.copy()
    whole.flags.writeable = False
    expected = bed.eigh_tridiagonal(d.copy(), e.copy())
    assert_same_bits(tuple(bed.eigh_tridiagonal(d, e)), tuple(expected))
    assert_same_bits(whole, before)
    shifted = np.zeros(whole.nbytes + 1, np.uint8)[1:].view("f8").reshape(whole.shape)
    shifted[...] = whole
    assert not shifted.flags.aligned
    d, e = shifted[::-2, 1:7, 2], shifted[::2, 8:13, 3]
    assert_same_bits(tuple(bed.eigh_tridiagonal(d, e)), tuple(expected))
    a = random_hermitian(rng, (8, 5, 5), "c8")
    expected = bed.tridiagonalize(a[::-2].copy())
    a.flags.writeable = False
    found = bed.tridiagonalize(a.swapaxes(-1, -2)[::-2], "U")
    _assert_reduced(a.swapaxes(-1, -2)[::-2], *found, "U")
    assert_same_bits(tuple(bed.tridiagonalize(a[::-2])), tuple(expected))


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(rng, library):
    jax = pytest.importorskip("jax")
    to = {"torch": torch.from_numpy, "jax": jax.numpy.asarray}[library]
    a = random_hermitian(rng, (2, 3, 5, 5), "f4")
    there = to(a)
    reduced = bed.tridiagonalize(there)
    solved = bed.eigh_tridiagonal(*reduced[:2], return_info=True)
    for x in (*reduced, *solved):
        assert type(x) is type(there)
    expected = bed.tridiagonalize(a)
    assert_same_bits(tuple(map(np.asarray, reduced)), tuple(expected))
    expected = bed.eigh_tridiagonal(*expected[:2], return_info=True)
    assert_same_bits(tuple(map(np.asarray, solved)), tuple(expected))


def test_arguments_that_are_refused():
    one, d, e = np.eye(3), np.ones(3), np.ones(2)
    with pytest.raises(np.linalg.LinAlgError, match=r"\(3, 2\)"):
        bed.tridiagonalize(one[:, :2])
    with pytest.raises(ValueError, match="UPLO must be"):
        bed.tridiagonalize(one, "X")
    with pytest.raises(ValueError, match=r"got \(3,\) and \(3,\)"):
        bed.eigh_tridiagonal(d, d)
    with pytest.raises(ValueError, match=r"got \(\) and \(2,\)"):
        bed.eigh_tridiagonal(1.0, e)
    with pytest.raises(ValueError, match=r"\(2, 3\) and e \(3, 2\) do not broadcast"):
        bed.eigh_tridiagonal(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(TypeError, match="must be real, got complex128 and float64"):
        bed.eigh_tridiagonal(d + 0j, e)
    with pytest.raises(ValueError, match="'lapack' has no tridiagonalize"):
        bed.tridiagonalize(one, driver="lapack")
    with pytest.raises(ValueError, match="driver='none' is unknown"):
        bed.eigh_tridiagonal(d, e, driver="none")


def test_nothing_is_differentiated_in_silence():
    jax = pytest.importorskip("jax")
    a = torch.eye(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"no derivative .* torch follows this array"):
        bed.tridiagonalize(a)
    with pytest.raises(TypeError, match="torch follows this array"):
        bed.eigh_tridiagonal(torch.ones(3), a[0, :2])
    with torch.no_grad():
        assert not bed.tridiagonalize(a).q.requires_grad
    with pytest.raises(TypeError, match="jax follows this array"):
        jax.jit(bed.tridiagonalize)(np.eye(3))
