"""The stages of the reference engine, its accounts, and what it promises on its own."""

import numpy as np
import pytest

from bed import Status
from bed.engines.reference import EighStats, eigh, qr_iteration
from bed.engines.reference.back_transform import back_transform, wy
from bed.engines.reference.eigh import scale, unscale
from bed.engines.reference.tridiagonalize import reflector, tridiagonalize
from bed.testing.checks import assert_eigh, tolerance
from bed.testing.matrices import DTYPES, random_hermitian, stack, zoo

HIGHER = {"f4": "f8", "f8": "g", "c8": "c16", "c16": "G"}
REAL = ("f4", "f8")


def inputs(rng, n, dtype, count=20):
    """Random matrices and the zoo, scaled as the stages want them ``(batch, n, n)``."""
    members, _ = stack(zoo(n, dtype, rng))
    a = np.concatenate([random_hermitian(rng, (count, n, n), dtype), members])
    return scale(a)[0]


def product_of_reflectors(u, weights, dtype):
    """H₀ H₁ …, multiplied out one by one in higher precision ``(batch, n, n)``."""
    u, weights = u.astype(HIGHER[dtype]), weights.astype(np.longdouble)
    n = u.shape[1]
    p = np.broadcast_to(np.eye(n, dtype=u.dtype), (len(u), n, n))
    for k in range(u.shape[2]):
        u_k = u[:, :, k, None]
        h = np.eye(n) - 2 * weights[:, k, None, None] * u_k @ adjoint(u_k)
        p = p @ h
    return p


def adjoint(z):
    return z.conj().swapaxes(-1, -2)


def tridiagonal(d, e):
    """Full matrices ``(batch, n, n)`` of diagonals and couplings, in longdouble."""
    n = d.shape[1]
    t = np.zeros((*d.shape, n), np.longdouble)
    i = np.arange(n)
    t[:, i, i] = d
    t[:, i[1:], i[:-1]] = t[:, i[:-1], i[1:]] = e
    return t


def assert_small(difference, n, dtype, what):
    """Assert that an error, for matrices of order one, is within the tolerance."""
    worst = abs(difference).max(initial=0) / tolerance(n, dtype)
    assert worst <= 1, f"{what}: {float(worst):.3g} of the tolerance, {n=}, {dtype}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 33])
def test_tridiagonalize_is_a_unitary_similarity(rng, n, dtype):
    a = inputs(rng, n, dtype)
    a.flags.writeable = False
    d, e, u, weights, phases = tridiagonalize(a)
    assert d.dtype == e.dtype == weights.dtype == a.real.dtype
    assert (e >= 0).all()
    p = product_of_reflectors(u, weights, dtype) * phases[:, None, :]
    assert_small(adjoint(p) @ p - np.eye(n), n, dtype, "Pᴴ P − I")
    t = tridiagonal(d, e)
    assert_small(adjoint(p) @ a @ p - t, n, dtype, "Pᴴ A P − T")


@pytest.mark.parametrize("dtype", REAL)
def test_flat_columns_do_not_pile_up_rounding(rng, dtype):
    """Many equal entries: a running sum of their squares is off by eps on average."""
    x = rng.choice([1, 0.99], (300, 63)).astype(dtype)
    u, weight, _ = reflector(x)
    one = (u.astype(np.longdouble) ** 2).sum(axis=1) * weight
    assert abs(one - 1).mean() < 0.75 * np.finfo(dtype).eps


@pytest.mark.parametrize("block", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n", [1, 2, 3, 10, 17, pytest.param(35, marks=pytest.mark.slow)]
)
def test_wy_is_the_product_of_the_reflectors(rng, n, dtype, block):
    _, _, u, weights, phases = tridiagonalize(inputs(rng, n, dtype, count=3))
    w, y = wy(u, weights, block)
    block = max(1, min(block, n - 2))
    blocks = -(-max(n - 2, 0) // block)
    assert w.shape == y.shape == (len(u), blocks, n, block)
    for i in range(blocks):
        part = slice(i * block, (i + 1) * block)
        plain = product_of_reflectors(u[:, :, part], weights[:, part], dtype)
        product = np.eye(n) - 2 * w[:, i] @ adjoint(y[:, i])
        assert_small(product - plain, n, dtype, f"block {i}")
    plain = product_of_reflectors(u, weights, dtype) * phases[:, None, :]
    assert_small(back_transform(u, weights, phases, block) - plain, n, dtype, "P")


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", [2, 3, 4, 9, 24])
def test_qr_step_is_a_shifted_qr_iteration(rng, n, dtype):
    d, e, *_ = tridiagonalize(inputs(rng, n, dtype))
    qr_iteration.drop_negligible(d, e)
    t = tridiagonal(d, e)
    shift = rng.choice([0, 1, -0.5], len(d)).astype(dtype)
    shift[::3] = d[::3, -1]
    q = np.broadcast_to(np.eye(n, dtype=dtype), t.shape).copy()
    size = max(2, n - 2)  # what is below stays out of it
    qr_iteration.qr_step(d, e, shift, size, q)
    active = np.s_[:, :size, :size]
    r = adjoint(q)[active] @ (t[active] - shift[:, None, None] * np.eye(size))
    norm = abs(t).max() + 1
    assert_small(np.tril(r, -1) / norm, n, dtype, "R below its diagonal")
    assert_small(adjoint(q) @ q - np.eye(n), n, dtype, "Qᵀ Q − I")
    new = (adjoint(q) @ t @ q)[active]
    assert_small((new - tridiagonal(d, e)[active]) / norm, n, dtype, "Qᵀ T Q − T'")
    assert (q[:, size:, size:] == np.eye(n - size)).all()


@pytest.mark.parametrize("dtype", REAL)
def test_wilkinson_shifts_are_the_eigenvalues(rng, dtype):
    values = np.concatenate([[0, 0, 1, 1, -1, 1e-8, 1e-30], rng.standard_normal(5)])
    a, b, c = (x.ravel().astype(dtype) for x in np.meshgrid(values, values, values))
    near, far = qr_iteration.wilkinson_shifts(a, b, c)
    assert (near[b == 0] == c[b == 0]).all()
    assert (far[b == 0] == a[b == 0]).all()
    g = np.longdouble
    exact = (a + g(1) * c) / 2 + np.hypot((a - g(1) * c) / 2, b) * [[-1], [1]]
    found = np.sort([near, far], axis=0)
    size = np.maximum(np.maximum(abs(a), abs(b)), abs(c))
    error = abs(found - exact) / np.where(size > 0, size, 1)
    assert_small(error, 2, dtype, "shifts")
    nearer = (abs(near - c) - abs(far - c)) / np.where(size > 0, size, 1)
    assert_small(np.maximum(nearer, 0), 1, dtype, "the nearer is not first")


@pytest.mark.parametrize("dtype", REAL)
def test_a_pair_of_shifts_that_leads_nowhere_is_left(dtype):
    """Zero diagonal, equal couplings: the double shift alone takes ten times this."""
    stats = EighStats(n=3)
    d, e = np.zeros((1, 3), dtype), np.ones((1, 2), dtype)
    w, converged = qr_iteration.qr_iteration(d, e, stats=stats)
    assert converged.all()
    assert stats.iterations <= 10
    exact = np.sqrt(np.longdouble(2)) * np.array([-1, 0, 1])
    assert_small(np.sort(w) - exact, 3, dtype, "values")


def test_nan_ends_the_iteration():
    stats = EighStats(n=4)
    qr_iteration.qr_iteration(np.full((1, 4), np.nan), np.ones((1, 3)), stats=stats)
    assert stats.iterations == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_other_triangle_is_not_read(rng, dtype):
    a = random_hermitian(rng, (30, 7, 7), dtype)
    i = np.arange(7)
    for uplo, other in ("L", np.triu_indices(7, 1)), ("U", np.tril_indices(7, -1)):
        poisoned = a.copy()
        poisoned[:, other[0], other[1]] = np.nan
        if a.dtype.kind == "c":
            poisoned.imag[:, i, i] = np.nan
        poisoned.flags.writeable = False
        w, v, status = eigh(poisoned, uplo)
        assert (status == Status.OK).all()
        assert_eigh(a, w, v, uplo=uplo)
        values, none, _ = eigh(poisoned, uplo, eigenvectors=False)
        assert none is None
        assert (values == w).all()
        w, v, _ = eigh(np.asfortranarray(poisoned)[::-1], uplo)
        assert_eigh(a[::-1], w, v, uplo=uplo)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 24])
def test_easy_matrices_are_exact(rng, n, dtype):
    a = random_hermitian(rng, (9, n, n), dtype)
    diagonals = rng.choice([0, 1, 1, -3, 1e-9, 0.1, 1e9], (3, n)).astype(a.real.dtype)
    a[::4] = diagonals[:, :, None] * np.eye(n)
    w, v, _ = eigh(a)
    assert (w[::4] == np.sort(diagonals)).all()
    assert (adjoint(v[::4]) @ v[::4] == np.eye(n)).all()
    assert_eigh(a, w, v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_keep_to_themselves(rng, dtype):
    n = 6
    limit = np.finfo(dtype).max
    a = random_hermitian(rng, (40, n, n), dtype)
    a[[3, 7, 20], [5, 2, 0], [1, 2, 0]] = [np.nan, np.inf, -np.inf]
    a[11], a[12] = limit, -limit  # eigenvalues ±n·limit and zeros
    w, v, status = eigh(a)
    expected = np.zeros(40)
    expected[[3, 7, 20]] = Status.NOT_FINITE
    expected[[11, 12]] = Status.OVERFLOW
    assert (status == expected).all()
    assert np.isnan(w[[3, 7, 20]]).all()
    assert np.isnan(v[[3, 7, 20]]).all()
    assert w[11, -1] == np.inf
    assert w[12, 0] == -np.inf
    assert_small(w[11, :-1] / limit, n, dtype, "finite values beside an infinite one")
    assert_small(adjoint(v[11:13]) @ v[11:13] - np.eye(n), n, dtype, "Vᴴ V − I")
    rest = expected == 0
    assert_eigh(a[rest], w[rest], v[rest])


def test_a_matrix_that_does_not_converge_is_left_behind(rng, monkeypatch):
    """With two passes at each size most matrices fail, and the others are right."""
    monkeypatch.setattr(qr_iteration, "MAX_PASSES", 2)
    a = random_hermitian(rng, (200, 8, 8), "f8")
    a[::10, 1:, 0] = 0
    a[::10, 2:, 1:2] = 0
    w, v, status = eigh(a)
    failed = status == Status.NO_CONVERGENCE
    assert 0 < failed.sum() < 200, failed.sum()
    assert (status[~failed] == Status.OK).all()
    assert np.isnan(w[failed]).all()
    assert np.isnan(v[failed]).all()
    assert_eigh(a[~failed], w[~failed], v[~failed])


@pytest.mark.parametrize("dtype", REAL)
def test_scaling_is_exact_over_the_whole_range(dtype):
    info = np.finfo(dtype)
    sizes = [info.smallest_subnormal, info.tiny, 1, 3e-7, info.max, info.max / 3]
    a = np.array(sizes, dtype).reshape(-1, 1, 1) * np.array([[[1]], [[-1]]], dtype)[0]
    scaled, exponent = scale(a)
    assert ((abs(scaled) >= 0.5) & (abs(scaled) <= 2)).all()
    assert (unscale(scaled[:, 0], exponent) == a[:, 0]).all()
    assert (unscale(np.full((6, 1), -4, dtype), exponent)[4] == -np.inf).all()


def test_empty_batch():
    w, v, status = eigh(np.zeros((0, 3, 3), "c8"))
    assert (w.shape, v.shape, status.shape) == ((0, 3), (0, 3, 3), (0,))
    assert (w.dtype, v.dtype, status.dtype) == ("f4", "c8", "i4")


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 12, 24])
def test_torch_tensors_stay_torch_tensors(rng, n, dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    members, exact = stack(zoo(n, dtype, rng))
    a = torch.from_numpy(members)
    for uplo in "LU":
        w, v, status = eigh(a, uplo)
        assert all(isinstance(x, torch.Tensor) for x in (w, v, status))
        assert status.dtype == torch.int32
        assert not status.any()
        assert_eigh(members, w.numpy(), v.numpy(), exact, uplo)
        out = torch.empty_like(w), torch.empty_like(v), torch.empty_like(status)
        assert eigh(a, uplo, out=out)[1] is out[1]
        assert_eigh(members, out[0].numpy(), out[1].numpy(), exact, uplo)


@pytest.mark.parametrize("block", [3, 4, 8, 16])
@pytest.mark.parametrize("n", [4, 5, 17, 32, 64])
def test_operations_against_the_table(rng, n, block):
    """Counts of section 3.3; what each row means for this code is told in `stats`."""
    a = random_hermitian(rng, (4, n, n), "f8")
    stats = EighStats()
    eigh(a, stats=stats)
    assert (stats.n, stats.batch, stats.block) == (n, 4, min(8, n - 2))
    stats.back_transform = 0
    back_transform(*tridiagonalize(a)[2:], block, stats)
    assert stats.tridiagonalize == n**3 - n - 6
    assert stats.tridiagonalize < stats.table_tridiagonalize()
    assert stats.block == min(block, n - 2)
    assert 0 < stats.back_transform < stats.table_back_transform()
    share = stats.iterations / (2 * n)  # the table is for 2n iterations
    assert stats.rotations == sum(size - 1 for size in stats.active_sizes)
    # Of the last rows several may part at once.
    assert min(stats.active_sizes) >= 3, "two rows need no iteration"
    assert 0 <= stats.closed_forms <= n  # none, if the last rows part all at once
    assert stats.qr_values == pytest.approx(stats.table_qr_values() * share)
    assert stats.qr_vectors == 4 * n * stats.rotations
    assert stats.qr_vectors < stats.table_qr_vectors() * share
    assert stats.table_qr_vectors() < stats.table_qr_vectors_by_size()

    values_only = EighStats()
    eigh(a, eigenvectors=False, stats=values_only)
    assert values_only.active_sizes == stats.active_sizes
    assert values_only.back_transform == values_only.qr_vectors == 0


def test_the_vectors_row_at_the_average_size_is_half_of_its_sum():
    """With as many iterations at each size, and without the products of matrices."""
    n = 32
    stats = EighStats(n=n, active_sizes=list(range(n, 0, -1)))
    products = (2 * n - 1) * n**3
    average = stats.table_qr_vectors() - products
    by_size = stats.table_qr_vectors_by_size() - products
    assert by_size / average == pytest.approx(2, rel=0.15)


class Counted(np.ndarray):
    """An array that counts multiplications and divisions of single numbers."""

    count = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        prices = {np.multiply: 1, np.divide: 1, np.hypot: 2}
        Counted.count += prices.get(ufunc, 0)
        plain = [np.asarray(x) for x in inputs]
        return np.asarray(getattr(ufunc, method)(*plain, **options)).view(Counted)

    def __array_function__(self, *arguments):
        return super().__array_function__(*arguments).view(Counted)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_multiplications_of_a_rotation(rng, n):
    stats = EighStats(n=n)
    d, e, shift = (rng.standard_normal((1, k)).view(Counted) for k in (n, n - 1, 1))
    Counted.count = 0
    qr_iteration.qr_step(d, e, shift[:, 0], n, stats=stats)
    assert stats.rotations == n - 1
    assert stats.qr_multiplications == Counted.count


def test_what_the_paper_misprints():
    """As printed the formulas do not do what they are for; as meant they do.

    Numbers are fixed: of some, as with a last entry near zero, both are nearly right.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal(6)
    sigma = np.sign(x[-1]) * np.linalg.norm(x)
    printed = np.append(x[:-1], np.sign(x[-1]) * np.linalg.norm(x[:-1]))
    for u, error in (printed, 0.1), (np.append(x[:-1], x[-1] + sigma), 1e-14):
        cleared = x - 2 * u * (u @ x) / (u @ u)
        assert (abs(cleared[:-1]).max() > error) == (u is printed)

    a = random_hermitian(rng, (6, 6), "f8")
    p = 2 * a @ u / (u @ u)
    q = p - u * (u @ p) / (u @ u)
    h = np.eye(6) - 2 * np.outer(u, u) / (u @ u)
    assert abs(h @ a @ h - (a - np.outer(q, u) - np.outer(u, q))).max() < 1e-13
    assert abs(h @ a @ h - (a - np.outer(p, u) - np.outer(u, q))).max() > 0.1

    m = (1.3 + 0.4) / (2 * 0.7)
    tangent = m - np.sign(m) * np.hypot(1, m)
    near, far = qr_iteration.wilkinson_shifts(*np.array([[1.3], [0.7], [-0.4]]))
    for cosine, right in (1 / np.hypot(1, m), False), (1 / np.hypot(1, tangent), True):
        turn = cosine * np.array([[1, -tangent], [tangent, 1]])
        assert (abs(turn @ turn.T - np.eye(2)).max() < 1e-14) == right
        turned = np.diag(turn @ [[1.3, 0.7], [0.7, -0.4]] @ turn.T)
        assert np.allclose(np.sort(turned), np.sort([near[0], far[0]])) == right


# Bounds of r/n, four standard deviations of what one batch has from its mean. The
# supplement's n/3 holds on average for X Xᵀ from n = 24 on, for the others from n = 16;
# why r is smaller below is explained in `bed.engines.reference.stats`.
AVERAGE_R = {4: (1 / 40, 1 / 4), 8: (1 / 7, 1 / 3)}
AVERAGE_R |= {16: (1 / 4, 1 / 2), 24: (3 / 10, 1 / 2), 32: (1 / 3, 1 / 2)}


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", AVERAGE_R)
def test_average_reduction_of_the_papers_shapes(rng, n, dtype, product):
    """Of Gaussian symmetric matrices, and of X Xᵀ, as the published code has them."""
    stats = EighStats()
    a = random_hermitian(rng, (512, n, n), dtype)
    if product:
        x = rng.standard_normal(a.shape).astype(dtype)
        a = x @ adjoint(x)
    _, _, status = eigh(a, eigenvectors=False, stats=stats)
    assert not status.any()
    print(f"{n = }: {stats.iterations} iterations, r = {stats.reductions / n:.3f} n")
    low, high = AVERAGE_R[n]
    assert low <= stats.reductions / n <= high, stats.active_sizes
    assert stats.active_sizes == sorted(stats.active_sizes, reverse=True)
