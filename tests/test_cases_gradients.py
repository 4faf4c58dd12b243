"""Faults that users reported of gradients in other libraries, as tests of bed.

Above each test are the number of the case, the threads, and what went wrong there. Each
test runs through torch and through JAX. Truths are closed forms, or divided differences
in extended precision; `bed._derivative.eigh` says what is exact and what is not.
"""

import numpy as np
import pytest

import bed
from bed import engines
from bed.testing.matrices import DTYPES, EXTENDED, planted, random_hermitian
from gradient_errors import orthogonal, root_truth

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

DOUBLE = ("f8", "c16")
LIBRARIES = ("torch", "jax")


@pytest.fixture(params=LIBRARIES)
def gradient(request):
    """``gradient(loss, a)``: that of a real loss ``loss(eigh, xp, x)``, as NumPy array.

    Real and imaginary parts are derivatives with respect to those of the matrix, as
    torch has it; JAX's is the conjugate.
    """
    if request.param == "torch":

        def by_torch(loss, a):
            x = torch.tensor(a, requires_grad=True)
            return torch.autograd.grad(loss(torch, x), x)[0].resolve_conj().numpy()

        yield by_torch
        return

    def by_jax(loss, a):
        g = jax.grad(lambda x: loss(jax.numpy, x))(jax.numpy.asarray(a))
        return np.asarray(g).conj()

    with jax.enable_x64(True):
        yield by_jax


def _constant(xp, x):
    """A NumPy array for use with a namespace's arrays."""
    return torch.from_numpy(np.array(x)) if xp is torch else xp.asarray(x)


def _conjugate_transpose(x):
    return x.conj().mT


def _of_projector(c, columns):
    """Loss Re⟨C, P⟩ of the projector on some columns."""

    def loss(xp, x):
        v = bed.eigh(x).eigenvectors[..., columns]
        return (_constant(xp, c.conj()) * (v @ _conjugate_transpose(v))).sum().real

    return loss


def _of_root(c):
    """Loss Re⟨C, √A⟩, through eigenvalues and eigenvectors."""

    def loss(xp, x):
        w, v = bed.eigh(x)
        root = (v * xp.sqrt(w)[..., None, :]) @ _conjugate_transpose(v)
        return (_constant(xp, c.conj()) * root).sum().real

    return loss


def _projector_truth(w, v, c, inside):
    """Gradient of Re⟨C, P⟩: 1/(wᵢ − wⱼ) between the inside and the rest, else zero."""
    pairs = np.not_equal.outer(inside, inside)
    gaps = np.where(pairs, w[:, None] - w, 1)
    signs = np.where(inside[:, None], 1, -1)
    divided = np.where(pairs, signs / gaps, 0)
    return v @ (divided * (v.conj().T @ c @ v)) @ v.conj().T


def _matrix(rng, w, dtype):
    """A matrix with eigenvalues `w`; its vectors, right to extended precision."""
    v = orthogonal(rng, len(w), np.dtype(dtype).kind == "c")
    a = (v * np.asarray(w, EXTENDED)) @ v.conj().T
    return ((a + a.conj().T) / 2).astype(dtype), v


def _hermitian(rng, n, dtype="f8"):
    return random_hermitian(rng, (n, n), dtype)


def _assert_close(x, y, tolerance):
    assert x.shape == y.shape
    difference = np.abs(x - y).max()
    assert difference <= tolerance, f"{difference:.3g} is more than {tolerance:.3g}"


# C36: jax-ml/jax#12795, pytorch/pytorch#22807, pytorch/pytorch#30578. Some gradients
# were those of one triangle; off the diagonal they differed by a factor of two. C34:
# pytorch/pytorch#45526. What the gradient of an imaginary diagonal is was unclear.
@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("uplo", "LU")
def test_the_gradient_is_hermitian_and_counts_both_triangles(
    gradient, rng, dtype, uplo
):
    a, _ = _matrix(rng, [1, 2, 4, 7], dtype)
    weights = rng.standard_normal(4)

    def loss(xp, x):
        return (_constant(xp, weights) * bed.eigvalsh(x, uplo)).sum()

    junk = a + 1j * np.eye(4) if dtype == "c16" else a
    g = gradient(loss, junk)
    np.testing.assert_array_equal(g, g.conj().T)  # so its diagonal is real

    def slope(direction, h=1e-5):
        ends = [bed.eigvalsh(a + s * h * direction, uplo) for s in (1, -1)]
        return (weights * (ends[0] - ends[1])).sum() / (2 * h)

    d = _hermitian(rng, 4, dtype)
    _assert_close((g.conj() * d).sum().real, slope(d), 1e-8)
    # An entry that is read moves its mirror image with it; one that is not, nothing.
    read, other = ((2, 1), (1, 2)) if uplo == "L" else ((1, 2), (2, 1))
    for place, factor in ((read, 2), (other, 0), ((3, 3), 1)):
        for unit in (1, 1j) if dtype == "c16" and place != (3, 3) else (1,):
            entry = np.zeros((4, 4), dtype)
            entry[place] = unit
            expected = factor * (g[place].conj() * unit).real
            _assert_close(slope(entry), expected, 1e-8)


# C38: pytorch/pytorch#47599, pytorch/pytorch#50942, jax-ml/jax#669. 1/(wⱼ − wᵢ) of
# repeated eigenvalues made the gradient NaN, whatever the loss.
@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_eigenvalues_have_finite_gradients(gradient, rng, dtype):
    eps = np.finfo(dtype).eps
    spectra = ([1] * 4, [0] * 4, [-2.5] * 4, [1, 1, 2, 3], [1, 1 + eps, 2, 3])
    matrices = [np.eye(4), np.zeros((4, 4))]
    matrices += [planted(rng, w, dtype) for w in spectra]
    c = rng.standard_normal((4, 4)).astype(dtype)

    def loss(xp, x):
        w, v = bed.eigh(x)
        return (_constant(xp, c) * v).sum().real + (w * w).sum()

    for a in matrices:
        g = gradient(loss, a.astype(dtype))
        assert np.isfinite(g).all()
        assert abs(g).max() <= 10 * abs(c).max() / eps  # nothing is divided by noise


# C38, as above: with pairs that nearly coincide, the error of a loss that mixes values
# and vectors is rounding over the gap, and outside of the pair there is none.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0])
def test_gradients_of_a_nearly_repeated_pair(gradient, rng, dtype, gap):
    eps = np.finfo(dtype).eps
    w = np.array([1, 1 + EXTENDED(gap), 2, 3])
    a, v = _matrix(rng, w, dtype)
    c = _hermitian(rng, 4, "c16" if np.dtype(dtype).kind == "c" else "f8")
    rounded = c.astype(dtype)
    g = gradient(_of_root(rounded), a)
    error = g - _root_truth(w, v, rounded)
    size = np.linalg.norm(c)
    if gap > 100 * eps:
        assert _size(error) <= 10 * eps / gap * size
    # Closer than that, what the pair owes to √ between its own two is unknown, and no
    # more than the largest divided difference in the pair, 1/2, is lost or made up.
    assert _size(error) <= size
    pair = v[:, :2] @ v[:, :2].conj().T
    assert _size(error - pair @ error @ pair) <= 20 * eps * size


def _root_truth(w, v, c):
    if v.dtype.kind != "c":
        return root_truth(w, v, c)
    root = np.sqrt(w)
    inner = v.conj().T @ c @ v / (root[:, None] + root)
    return v @ inner @ v.conj().T


def _size(x):
    return float(np.linalg.norm(x.astype("c16")))


# C39: jax-ml/jax#4646. A loss of one separated vector had NaN as gradient, because
# other eigenvalues coincide.
@pytest.mark.parametrize("dtype", DOUBLE)
def test_a_separated_vector_beside_repeated_ones_is_exact(gradient, rng, dtype):
    a = np.diag([2, 2, 5]).astype(dtype)

    def entry(xp, x):
        v = bed.eigh(x).eigenvectors
        return (v[1, 2] / v[2, 2]).real  # of the vector scaled to one at its end

    g = gradient(entry, a)
    expected = np.zeros((3, 3))
    expected[1, 2] = expected[2, 1] = 1 / 6
    _assert_close(g, expected, 1e-15)
    a, v = _matrix(rng, w := np.array([-1, -1, -1, 3]) / EXTENDED(3), dtype)
    c = _hermitian(rng, 4, dtype)
    g = gradient(_of_projector(c, slice(3, 4)), a)
    truth = _projector_truth(w, v, c, np.arange(4) == 3)
    _assert_close(g, truth, 1e-14 * _size(c))


# C40: HIPS/autograd#527, casadi/casadi#2815. A loss of the eigenvalues alone, such as
# their sum or a log-determinant, had NaN as gradient where they coincide.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [bed.eigvalsh, lambda x: bed.eigh(x).eigenvalues])
def test_eigenvalues_alone_are_exact_where_they_coincide(gradient, dtype, values):
    a = np.tile(np.array(4 * np.eye(5), dtype), (2, 1, 1))
    identity = np.tile(np.eye(5, dtype=dtype), (2, 1, 1))
    np.testing.assert_array_equal(gradient(lambda xp, x: values(x).sum(), a), identity)
    g = gradient(lambda xp, x: xp.log(values(x)).sum(), a)
    np.testing.assert_array_equal(g, identity / 4)


# C42: tensorflow/tensorflow#17476, jax-ml/jax#8732, jax-ml/jax#2311. The projection of
# rotations, R(RᵀR)^(−1/2), had NaN as gradient at every rotation, since all eigenvalues
# of RᵀR are one. Here it is finite. Through values and vectors it cannot be all of the
# right one: see `bed._derivative.eigh`.
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_inverse_root_at_the_identity(gradient, rng, dtype):
    c = _hermitian(rng, 3).astype(dtype)

    def loss(xp, x):
        w, v = bed.eigh(x)
        root = (v * (w**-0.5)[..., None, :]) @ _conjugate_transpose(v)
        return (_constant(xp, c) * root).sum()

    # The diagonal in the basis that was found, here the axes, is right.
    g = gradient(loss, np.eye(3, dtype=dtype))
    eps = np.finfo(dtype).eps
    _assert_close(np.diagonal(g), -np.diagonal(c) / 2, 4 * eps)
    _assert_close(g, np.diag(np.diagonal(c)) / -2, 4 * eps)
    rotations = np.linalg.qr(rng.standard_normal((8, 3, 3)))[0].astype(dtype)
    g = gradient(loss, rotations.mT @ rotations)
    assert np.isfinite(g).all()
    assert abs(g).max() <= 3 * np.linalg.norm(c)
    # tr A^(−1/2), in contrast, does not ask for the basis, and is all right.
    g = gradient(
        lambda xp, x: (bed.eigvalsh(x) ** -0.5).sum(), rotations.mT @ rotations
    )
    _assert_close(g, np.tile(np.eye(3) / -2, (8, 1, 1)), 20 * eps)


# C43: pytorch/pytorch#23133, Michaelvll/DeepCCA#4, Michaelvll/DeepCCA#10. Blocks that
# are there twice, at a scale of 1e8 in float32, had NaN: thresholds were absolute.
@pytest.mark.parametrize("exponent", [-90, 0, 26, 90])
def test_repeated_blocks_at_any_scale(gradient, rng, exponent):
    w, columns = np.array([1, 3, 9, 20, 50], EXTENDED), [2, 3]
    one, v = _matrix(rng, w / 50, "f4")
    a = np.kron(np.eye(2, dtype="f4"), one)
    c = _hermitian(rng, 10, "f4")
    g = gradient(_of_projector(c, columns), np.ldexp(a, exponent))
    assert np.isfinite(g).all()
    w, v = (
        np.repeat(w / 50, 2),
        np.kron(np.eye(2), v)[:, [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]],
    )
    truth = _projector_truth(w, v, c, np.isin(np.arange(10), columns))
    # eps over the gaps, of which the smallest is 1/25.
    _assert_close(np.ldexp(g, exponent), truth, 25**2 * 10 * np.finfo("f4").eps)


# C45: tensorflow/tensorflow#11821, tensorflow/tensorflow#1915. Eigenvalues alone had no
# derivative, or always paid for vectors.
@pytest.mark.parametrize("library", LIBRARIES)
def test_vectors_are_computed_for_a_derivative_alone(rng, library, monkeypatch):
    calls = []

    class Recorder(engines.Engine):
        def load(self):
            def eigh(a, uplo="L", *, eigenvectors=True, out=None):
                calls.append(eigenvectors)
                inner = engines.get("reference").load()
                return inner(a, uplo, eigenvectors=eigenvectors, out=out)

            return eigh

    monkeypatch.setitem(
        engines._REGISTRY, "recorder", Recorder("recorder", ("cpu",), "")
    )
    a, v = _matrix(rng, [1, 2, 5], "f8")
    weights = rng.standard_normal(3)

    def loss(x):
        return (_constant(xp, weights) * bed.eigvalsh(x, driver="recorder")).sum()

    with jax.enable_x64(True):
        if library == "torch":
            xp, x = torch, torch.from_numpy(a)
        else:
            xp, x = jax.numpy, jax.numpy.asarray(a)
        loss(x)
        assert calls == [False]
        g = torch.func.grad(loss)(x) if library == "torch" else jax.grad(loss)(x)
    assert calls == [False, True]
    _assert_close(np.asarray(g), (v * weights) @ v.T, 1e-14)


# C46: tensorflow/tensorflow#25645, jax-ml/jax#10527. Gradients at rank-one matrices,
# whose zeros repeat, and of float32 matrices with small gaps, were far off.
def test_rank_one_matrices(gradient, rng):
    x = np.array([1, 2, 3], EXTENDED)
    c = _hermitian(rng, 3)
    p, q = np.outer(x, x) / 14, np.eye(3) - np.outer(x, x) / 14
    truth = (p @ c @ q + q @ c @ p) / 14  # one gap, to both zeros
    for dtype in ("f4", "f8"):
        a = np.outer(x, x).astype(dtype)
        assert np.diff(bed.eigvalsh(a))[0] <= 100 * np.finfo(dtype).eps
        g = gradient(_of_projector(c.astype(dtype), slice(2, 3)), a)
        _assert_close(g, truth, 10 * np.finfo(dtype).eps * _size(c))
        g = gradient(lambda xp, x: (bed.eigvalsh(x) ** 2).sum(), a)
        _assert_close(g, 2 * a, 14 * 20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("gap", [0.3, 0.03, 3e-3, 3e-4])
def test_single_precision_at_small_gaps(gradient, rng, gap):
    """C46: vectors are off by eps/gap, and the gradient divides by the gap again."""
    w = np.array([0.5, 1, 1 + gap, 2], EXTENDED)
    a, _ = _matrix(rng, w, "f4")
    c = _hermitian(rng, 4)
    loss = _of_projector(c.astype("f4"), slice(2, 3))
    wide = _of_projector(c.astype("f4").astype("f8"), slice(2, 3))
    error = _size(gradient(loss, a) - gradient(wide, a.astype("f8")))
    assert error <= 10 * np.finfo("f4").eps / gap**2 * _size(c)


# C48: banctilrobitaille/torch-vectorized#5. Results that were changed after the call,
# or an input that was, changed the gradient or broke it.
def test_changes_after_the_call_do_not_change_a_gradient(rng):
    a, v = _matrix(rng, [1, 2, 3], "f8")
    x = torch.from_numpy(a).requires_grad_()
    w = bed.eigvalsh(x)
    loss = w.sum()
    with torch.no_grad():
        w *= 0
        x *= 0  # the input is not needed any more
    (g,) = torch.autograd.grad(loss, x)
    _assert_close(g.numpy(), np.eye(3), 1e-14)
    # Values that were changed are noticed where they are needed.
    x = torch.from_numpy(planted(rng, [1, 2, 3], "f8")).requires_grad_()
    w, v = bed.eigh(x)
    loss = (v * v.detach() ** 2).sum()
    with torch.no_grad():
        w *= 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
