"""Blocks of two rows, which every engine solves in closed form."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian

REAL = ("f4", "f8")
# Error of 1/√x that a device only approximates, and of two roundings.
ROOT_EPS = 2.5

LAPACK = "LAPACK's routine has its own rounding"


def symmetric(a, b, c, dtype):
    """Matrices [[a, b], [b, c]] ``(batch, 2, 2)``."""
    a, b, c = np.broadcast_arrays(a, b, c)
    return np.stack([np.stack([a, b], -1), np.stack([b, c], -1)], -2).astype(dtype)


def rank_one(u):
    """u uᴴ for vectors ``(batch, n)``."""
    return u[:, :, None] * u[:, None, :].conj()


def exact_eigenvalues(matrix):
    """Of one real symmetric 2 × 2 matrix, and its entries a, b, c.

    The eigenvalue of smaller magnitude comes first.
    """
    a, b, c = (Decimal(float(x)) for x in (matrix[0, 0], matrix[1, 0], matrix[1, 1]))
    root = ((a - c) ** 2 + 4 * b**2).sqrt()
    large = (a + c + root) / 2 if a + c >= 0 else (a + c - root) / 2
    small = (a * c - b * b) / large if large else Decimal(0)
    return small, large, (a, b, c)


def integers(rng, batch, dtype):
    """Vectors ``(batch, 2)`` of small integers, Gaussian ones in a complex dtype."""
    u = rng.integers(-9, 10, (batch, 2))
    if np.dtype(dtype).kind == "c":
        u = u + 1j * rng.integers(-9, 10, u.shape)
    return u.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves(driver, dtype):
    a = np.full((2, 2), 0.5, dtype)
    assert bed.eigvalsh(a, driver=driver).tolist() == [0, 1]
    w, v = bed.eigh(a, driver=driver)
    assert w.tolist() == [0, 1]
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(abs(v), np.sqrt(0.5), rtol=ROOT_EPS * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, -0.25, 2.0**90, 2.0**-110])
def test_singular_matrices_of_integers(driver, rng, dtype, scale):
    """Exactly, where all that is added and divided is an integer times a power of 2."""
    if driver == "lapack":
        pytest.skip(LAPACK)
    u = integers(rng, 1000, dtype).real
    a = (rank_one(u) * scale).astype(dtype)
    exact = np.zeros((len(u), 2))
    exact[:, 1 if scale > 0 else 0] = (u**2).sum(1) * scale
    for uplo in "LU":
        w = bed.eigvalsh(a, uplo, driver=driver)
        assert (w == exact).all()
        assert_same_bits(bed.eigh(a, uplo, driver=driver)[0], w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_as_often_as_lapack(driver, rng, dtype):
    a = rank_one(integers(rng, 1000, dtype))
    ours, theirs = bed.eigvalsh(a, driver=driver), np.linalg.eigvalsh(a)
    share = [(abs(w).min(1) == 0).mean() for w in (ours, theirs)]
    assert share[0] >= share[1] - 0.03


@pytest.mark.parametrize("dtype", REAL)
def test_against_exact_arithmetic(driver, rng, dtype):
    """The larger eigenvalue to a few ulp of it, the other one as dlae2 promises.

    That is to a few ulp of what is subtracted in the determinant, over the larger one.
    """
    eps = Decimal(float(np.finfo(dtype).eps))
    x = rng.standard_normal((3, 100))
    graded = 10.0 ** rng.uniform(-3, 0, 100)
    a = np.concatenate([
        symmetric(*x, dtype),
        symmetric(*rng.integers(-3, 4, (3, 100)), dtype),
        symmetric(x[0], graded, x[0], dtype),
        symmetric(1, graded, graded**2 * rng.uniform(-3, 3, 100), dtype),
        symmetric(-(graded**2) * rng.uniform(-3, 3, 100), graded, -1, dtype),
        symmetric(x[0] * graded, x[1], x[2] * graded, dtype),
        symmetric(1, 2**-9 * x[0], 1 + 2**-9 * x[1], dtype),
    ])  # fmt: skip
    w, v = bed.eigh(a, driver=driver)
    assert_eigh(a, w, v)
    with localcontext(prec=60):
        for matrix, found in zip(a, w.tolist(), strict=True):
            small, large, (a_, b, c) = exact_eigenvalues(matrix)
            found = sorted(map(Decimal, found), key=abs)
            if abs(abs(small) - abs(large)) < 8 * eps * abs(large):
                found.sort(key=lambda x: abs(x - large), reverse=True)
            assert abs(found[1] - large) <= 4 * eps * abs(large), matrix
            if large:
                allowed = 4 * eps * (abs(a_ * c) + b * b) / abs(large)
                assert abs(found[0] - small) <= allowed, matrix


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_ratios(driver, dtype):
    """Entries from zero over subnormal to huge beside each other, in every place."""
    limits = np.finfo(dtype)
    tiny, huge = float(limits.tiny), float(limits.max) / 4
    sizes = [0, float(limits.smallest_subnormal), tiny, 1e-30, 0.1, 1, 1e30, huge]
    sizes += [tiny / float(limits.eps), 1e-9]
    if limits.bits == 64:
        sizes += [1e-300, 1e-150, 1e150, 1e300]
    values = np.array([s * x for x in sizes for s in (1, -1)])
    a = symmetric(*(x.ravel() for x in np.meshgrid(values, values, values)), dtype)
    w, v = bed.eigh(a, driver=driver, check=True)
    assert_eigh(a, w, v)
    if np.dtype(dtype).kind == "c":
        turned = a.copy()
        turned[:, 0, 1] *= -1j
        turned[:, 1, 0] *= 1j
        assert_eigh(turned, *bed.eigh(turned, driver=driver, check=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_easy_matrices_are_exact(driver, dtype):
    """A diagonal one keeps its entries; equal entries give equal weights."""
    a = symmetric([0.1, 3, 0, -7], 0, [0.3, 3, 0, 1e-3], dtype)
    w, v = bed.eigh(a, driver=driver)
    assert (w == np.sort(a[:, [0, 1], [0, 1]].real, axis=1)).all()
    assert (np.sort(abs(v), axis=1) == [[0], [1]]).all()
    if driver != "lapack":
        a = symmetric(0.1, [1e-3, 0.1, 4, -0.3], 0.1, dtype)
        v = abs(bed.eigh(a, driver=driver)[1])
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(v, np.sqrt(0.5), rtol=ROOT_EPS * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("i", [0, 1])
def test_block_beside_a_third_row(driver, rng, dtype, i):
    if driver == "lapack":
        pytest.skip(LAPACK)
    u = integers(rng, 200, dtype).real.astype(dtype)
    a = np.zeros((len(u), 3, 3), dtype)
    a[:, i : i + 2, i : i + 2] = rank_one(u)
    other = 0 if i == 1 else 2
    a[:, other, other] = rng.integers(-50, 50, len(u))
    w, v = bed.eigh(a, driver=driver)
    exact = [0 * u[:, 0].real, (abs(u) ** 2).sum(1), a[:, other, other].real]
    assert (w == np.sort(exact, axis=0).T).all()
    assert_eigh(a, w, v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4, 7, 16, 20, 33])
def test_many_blocks(driver, rng, dtype, n, batch=40):
    """Blocks of two anywhere, some of them with a single row between."""
    if driver == "lapack":
        pytest.skip(LAPACK)
    a = np.zeros((batch, n, n), dtype)
    exact = np.zeros((batch, n), a.real.dtype)
    for matrix, w in zip(a, exact, strict=True):
        i = rng.integers(0, 2)
        while i + 1 < n:
            u = rng.integers(-9, 10, 2)
            matrix[i : i + 2, i : i + 2] = np.outer(u, u)
            w[i] = u @ u
            i += rng.integers(2, 4)
    w, v = bed.eigh(a, driver=driver)
    assert (w == np.sort(exact, axis=1)).all()
    assert_eigh(a, w, v)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 8])
def test_neighbours_change_no_bit(steady_driver, rng, dtype, n):
    """Blocks at other rows, more sweeps, failures: a matrix does not see them."""
    a = random_hermitian(rng, (67, n, n), dtype)
    for k, matrix in enumerate(a[:40]):
        i = k % n  # a cut: blocks of i and n − i rows
        matrix[i:, :i] = matrix[:i, i:] = 0
    a[5::9] = np.nan
    found = bed.eigh(a, driver=steady_driver, return_info=True)
    order = rng.permutation(len(a))
    among = bed.eigh(a[order], driver=steady_driver, return_info=True)
    assert_same_bits(tuple(among), tuple(x[order] for x in found))
    for k in range(0, len(a), 11):
        alone = bed.eigh(a[k : k + 1], driver=steady_driver, return_info=True)
        assert_same_bits(tuple(alone), tuple(x[k : k + 1] for x in found))
