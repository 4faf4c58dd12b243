"""The stages of the compiled CPU engine by themselves, on batches."""

import numpy as np
import pytest

import bed
from bed.engines.numba_cpu import eigh_tridiagonal, tridiagonalize
from bed.engines.numba_cpu._compile import WIDE
from bed.testing.checks import assert_eigh, assert_same_bits, tolerance
from bed.testing.matrices import (
    DTYPES,
    PI,
    random_hermitian,
    tridiagonal,
    tridiagonal_eigenvalues,
    wilkinson,
    zoo,
)

# --- bits ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_stages_have_the_same_bits_in_any_batch(rng, dtype):
    n, lanes = 6, WIDE // np.dtype(dtype).type(0).real.itemsize
    a = random_hermitian(rng, (lanes + 3, n, n), dtype)
    a[1] = np.inf
    whole = tridiagonalize(a)
    for i in (0, 1, 2, lanes - 1, lanes + 2):
        assert_same_bits(
            tridiagonalize(a[i : i + 1]), tuple(x[i : i + 1] for x in whole)
        )
    d, e, _ = whole
    whole = eigh_tridiagonal(d, e)
    for i in (0, 1, 2, lanes - 1, lanes + 2):
        alone = eigh_tridiagonal(d[i : i + 1], e[i : i + 1])
        assert_same_bits(alone, tuple(x[i : i + 1] for x in whole))


def test_strides_and_protection_do_not_matter(rng):
    a = random_hermitian(rng, (12, 5, 5), "c8")
    d, e = rng.standard_normal((2, 12, 5))[..., ::-1]
    e = e[:, 1:]
    expected = tridiagonalize(a), eigh_tridiagonal(d, e)
    wide = np.zeros((24, 5, 7), "c8")
    wide[::2, :, 1:6] = a
    for view in (wide[::2, :, 1:6], np.asfortranarray(a)):
        view.flags.writeable = False
        assert_same_bits(tridiagonalize(view), expected[0])
    d, e = np.asfortranarray(d), np.ascontiguousarray(e)
    d.flags.writeable = e.flags.writeable = False
    assert_same_bits(eigh_tridiagonal(d, e), expected[1])


# --- tridiagonalize -----------------------------------------------------------


def _batch(rng, n, dtype):
    members = [m.a for m in zoo(n, dtype, rng) if m.name not in ("huge", "subnormal")]
    return np.concatenate([random_hermitian(rng, (9, n, n), dtype), members])


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 33])
def test_reduction_is_a_similarity(rng, n, dtype, uplo):
    a = _batch(rng, n, dtype)
    other = np.triu_indices(n, 1) if uplo == "L" else np.tril_indices(n, -1)
    half = a.copy()
    half[:, other[0], other[1]] = np.nan
    d, e, q = tridiagonalize(half, uplo)
    assert (d.dtype, e.dtype, q.dtype) == (a.real.dtype, a.real.dtype, a.dtype)
    assert (d.shape, e.shape, q.shape) == (a.shape[:2], (len(a), n - 1), a.shape)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    q = q.astype(wide)
    for i in range(len(a)):
        t = tridiagonal(d[i].astype("f8"), e[i].astype("f8"))
        size = max(abs(a[i]).max(), 1e-300)
        assert (
            abs(a[i].astype(wide) @ q[i] - q[i] @ t).max() <= tolerance(n, dtype) * size
        )
        assert abs(q[i].conj().T @ q[i] - np.eye(n)).max() <= tolerance(n, dtype)


@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1e30, 1e37])
def test_reduction_of_any_scale(rng, scale):
    a = random_hermitian(rng, (4, 9, 9), "f4")
    a *= np.float32(scale / abs(a).max())
    d, e, q = tridiagonalize(a)
    t = np.stack([tridiagonal(*pair) for pair in zip(d, e, strict=True)]).astype("f8")
    error = abs(a.astype("f8") @ q - q @ t).max()
    assert error <= tolerance(9, "f4") * scale


def test_reduction_fills_what_it_is_given_and_marks_what_is_not_finite(rng):
    a = random_hermitian(rng, (5, 4, 4), "f8")
    a[2, 3, 1] = np.nan
    a[4, 0, 0] = -np.inf
    out = np.zeros((5, 4)), np.zeros((5, 3)), np.zeros((5, 4, 4))
    result = tridiagonalize(a, out=out)
    for given, found in zip(out, result, strict=True):
        assert given is found
        assert np.isnan(found[[2, 4]]).all()
        assert np.isfinite(found[[0, 1, 3]]).all()


# --- eigh_tridiagonal ---------------------------------------------------------


def _hard(n):
    """Diagonals and couplings that were hard for some solver, with names."""
    i, k = np.arange(n), np.arange(1, n)
    ones, zeros = np.ones(n - 1), np.zeros(n)
    w_d, w_e = wilkinson(n)
    glue_e = np.where(k % 7 == 0, 1e-8, 1.0)
    yield "wilkinson", w_d, w_e
    yield "glued wilkinson", np.abs(i % 7 - 3.0), glue_e
    yield "clement", zeros, np.sqrt(k * (n - k))
    yield "kac", zeros, (k * (n - k)) ** 0.5 * (-1.0) ** k
    yield "toeplitz", zeros + 2, -ones
    yield "legendre", zeros, k / np.sqrt(4.0 * k * k - 1)
    yield "zero couplings", (-1.0) ** i * i, 0 * ones
    yield "some zero couplings", np.cos(i), np.where(k % 3 == 0, 0, 1.0)
    yield "equal diagonal", zeros + 1, 1e-3 * ones
    yield "graded down", 10.0 ** (-60 * i / n + 30), 10.0 ** (-60 * k / n + 29)
    yield "graded up", 10.0 ** (60 * i / n - 30), 10.0 ** (60 * k / n - 31)
    yield "tiny", 1e-30 * np.cos(i), 1e-30 * ones
    yield "huge", 1e30 * np.sin(i), 1e30 * ones
    yield "zero", zeros, 0 * ones


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 21, 64])
def test_hard_tridiagonal_matrices(n, dtype):
    names, d, e = zip(*_hard(n), strict=True)
    d, e = (
        np.array(d).astype(dtype),
        np.array(e).reshape(len(names), n - 1).astype(dtype),
    )
    w, v, status = eigh_tridiagonal(d, e)
    assert not status.any()
    pairs = list(zip(d, e, strict=True))
    a = np.stack([tridiagonal(*pair) for pair in pairs])
    exact = np.stack([tridiagonal_eigenvalues(*pair) for pair in pairs])
    assert_eigh(a, w, v, exact, names=names)
    values, none, _ = eigh_tridiagonal(d, e, eigenvectors=False)
    assert none is None
    assert_same_bits(values, w)


@pytest.mark.parametrize(
    "dtype, digits", [("f4", 20), ("f4", 37), ("f8", 150), ("f8", 300)]
)
def test_rotations_do_not_stretch_where_squares_vanish(rng, dtype, digits):
    """A sine may be large where the squares of both entries are no numbers any more."""
    batch, n = 500, 50
    d, e = rng.choice([-1, 1], (2, batch, n)) * 10.0 ** -rng.uniform(
        0, digits, (2, batch, n)
    )
    d, e = d.astype(dtype), e[:, 1:].astype(dtype)
    w, v, status = eigh_tridiagonal(d, e)
    assert not status.any()
    a = np.stack([tridiagonal(*pair) for pair in zip(d, e, strict=True)])
    assert_eigh(a, w, v)


# Found by climbing: their eigenvectors lost half of what is promised, and more, while a
# rotation's shears did not belong to one angle.
STRETCHED = [
    (
        "f4",
        [
            0.001315456465817988,
            0.0021465958561748266,
            -0.006296789273619652,
            -0.004020334221422672,
        ],
        [3.751659096451476e-05, 0.7805799841880798, 0.026125773787498474],
    ),
    (
        "f4",
        [0.01728297770023346, -0.016323868185281754, -0.0025504427030682564],
        [0.9847856163978577, 0.026178890839219093],
    ),
    (
        "f8",
        [0.00821431071401729, -0.00038489120482114995, -6.6947771835551155e-06],
        [-0.23077550654245707, -0.01607925675508769],
    ),
]


@pytest.mark.parametrize("dtype, d, e", STRETCHED)
def test_rotations_are_of_one_angle(rng, dtype, d, e):
    n, factors = len(d), 1 + 1e-6 * rng.random((20_000, 1))
    d, e = (factors * d).astype(dtype), (factors * e).astype(dtype)
    w, v, _ = eigh_tridiagonal(d, e)
    a = np.stack([tridiagonal(*pair) for pair in zip(d, e, strict=True)]).astype("f8")
    size, v = np.linalg.norm(a, 2, axis=(1, 2)), v.astype("f8")
    residual = np.linalg.norm(a @ v - v * w[:, None], 2, axis=(1, 2)) / size
    assert residual.max() <= 5 * n * np.finfo(dtype).eps


def test_toeplitz_eigenvalues_in_closed_form():
    n = 50
    w, _, _ = eigh_tridiagonal(np.full((1, n), 2.0), np.full((1, n - 1), -1.0))
    exact = 4 * np.sin(PI * np.arange(1, n + 1) / (2 * (n + 1))) ** 2
    assert abs(w[0] - exact).max() <= tolerance(n, "f8")


def test_small_couplings_are_not_lost_to_an_absolute_threshold():
    """Couplings of 1e-40 beside an entry of one still decide their own block."""
    w, _, _ = eigh_tridiagonal(np.array([[1.0, 0, 0]]), np.array([[0, 1e-40]]))
    np.testing.assert_allclose(w[0], [-1e-40, 1e-40, 1], rtol=1e-14)


def test_tridiagonal_matrices_that_fail_say_so_and_fill_what_is_given(rng):
    d, e = rng.standard_normal((6, 5)), rng.standard_normal((6, 4))
    good = eigh_tridiagonal(d, e)
    d[1, 2], e[3, 3] = np.nan, np.inf
    d[4], e[4] = np.finfo("f8").max, np.finfo("f8").max
    out = np.zeros((6, 5)), np.zeros((6, 5, 5)), np.zeros(6, "i4")
    w, v, status = eigh_tridiagonal(d, e, out=out)
    assert w is out[0] and v is out[1] and status is out[2]
    codes = bed.Status.OK, bed.Status.NOT_FINITE, bed.Status.OVERFLOW
    assert [codes.index(s) for s in status] == [0, 1, 0, 1, 2, 0]
    assert np.isnan(w[[1, 3]]).all() and np.isnan(v[[1, 3]]).all()
    assert np.isinf(w[4]).any() and np.isfinite(v[4]).all()
    for i in (0, 2, 5):
        assert_same_bits((w[i], v[i]), (good[0][i], good[1][i]))


def test_two_stages_and_their_product_are_the_whole(rng):
    a = random_hermitian(rng, (20, 11, 11), "c16")
    d, e, q = tridiagonalize(a)
    w, v, _ = eigh_tridiagonal(d, e)
    assert_eigh(a, w, q @ v)
    assert_same_bits(w, bed.eigvalsh(a, driver="numba_cpu"))
