"""`order=` and `signs=`: where eigenvalues stand, and which way eigenvectors point."""

import warnings

import numpy as np
import pytest

import bed
import drivers
from bed._dispatch import arrange
from bed.testing.accuracy import PROMISE, measure
from bed.testing.matrices import random_hermitian

ORDERS, SIGNS = arrange.ORDERS, arrange.SIGNS
DTYPES = ("f4", "f8", "c8", "c16")


def expected(w, order):
    """Where each eigenvalue of an ascending list goes."""
    if order == "descending":
        return np.arange(len(w))[::-1]
    if order == "magnitude":
        return np.array(sorted(range(len(w)), key=lambda i: -abs(w[i])), int)
    return np.arange(len(w))


def largest_entries(v):
    """Of each column, by its definition: the first of those that count as largest."""
    n = v.shape[-1]
    columns = v.swapaxes(-1, -2).reshape(-1, n)
    close = 1 - 8 * n * np.finfo(v.dtype).eps
    first = [np.flatnonzero(abs(c) >= close * abs(c).max())[0] for c in columns]
    return np.array([c[i] for c, i in zip(columns, first, strict=True)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("signs", SIGNS)
def test_results_are_those_without_options_arranged(rng, driver, dtype, order, signs):
    drivers.skip_unless_taken(driver, 5)
    a = random_hermitian(rng, (2, 3, 5, 5), dtype)
    w, v, status = drivers.eigh(
        a, driver=driver, order=order, signs=signs, return_info=True
    )
    raw_w, raw_v = drivers.eigh(a, driver=driver)
    assert not status.any() and v.dtype == dtype and w.dtype == raw_w.dtype
    for index in np.ndindex(2, 3):
        places = expected(raw_w[index], order)
        np.testing.assert_array_equal(w[index], raw_w[index][places])
        if signs == "raw":
            np.testing.assert_array_equal(v[index], raw_v[index][:, places])
        else:
            np.testing.assert_allclose(
                abs(v[index]), abs(raw_v[index][:, places]), 1e-5
            )
    residual, orthogonality, _ = measure(
        a.reshape(6, 5, 5), w.reshape(6, 5), v.reshape(6, 5, 5)
    ).worst()
    assert residual <= PROMISE and orthogonality <= PROMISE
    if signs == "max":
        x = largest_entries(v)
        assert (x.real > 0).all() and (x.imag == 0).all()
    values = drivers.eigvalsh(a, driver=driver, order=order)
    spread = 8 * 5 * np.finfo(dtype).eps * abs(a).max()
    assert np.shape(values) == w.shape and abs(values - w).max() <= spread


def test_order_of_equal_magnitudes_is_stable():
    w, v = bed.eigh(np.diag([2.0, -2, 1, -1, 2, -3]), order="magnitude")
    assert w.tolist() == [-3, -2, 2, 2, -1, 1]
    assert [abs(column).argmax() for column in v.T] == [5, 1, 0, 4, 3, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_entries_that_are_equal_the_first_is_positive(rng, dtype):
    # Hadamard: every entry of every vector has the same magnitude, up to rounding.
    h = np.array([[1.0]])
    for _ in range(3):
        h = np.block([[h, h], [h, -h]])
    phases = np.exp(2j * np.pi * rng.random(8)) if dtype[0] == "c" else np.ones(8)
    h = phases[:, None] * h / 8**0.5
    a = (h * np.arange(8.0) @ h.conj().T).astype(dtype)
    _, v = bed.eigh(a, signs="max")
    assert (v[0].real > 0).all() and (v[0].imag == 0).all()
    assert abs(abs(v) - 8**-0.5).max() < 1e-5


@pytest.mark.parametrize("order", ORDERS)
def test_signs_do_not_depend_on_what_the_solver_found(rng, order):
    a = random_hermitian(rng, (20, 6, 6), "c16")
    one, other = (
        bed.eigh(a, driver=driver, order=order, signs="max")
        for driver in ("numba_cpu", "lapack")
    )
    np.testing.assert_allclose(one.eigenvectors, other.eigenvectors, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_failed_matrices_stay_nan_and_leave_their_neighbours(rng, order, dtype):
    a = random_hermitian(rng, (5, 4, 4), dtype)
    options = {"order": order, "signs": "max"}
    whole = bed.eigh(a, **options)
    a[2, 1, 0] = np.nan
    w, v, status = bed.eigh(a, return_info=True, **options)
    assert status.tolist() == [0, 0, 1, 0, 0]
    assert np.isnan(w[2]).all() and np.isnan(v[2]).all()
    rest = [0, 1, 3, 4]
    np.testing.assert_array_equal(w[rest], whole.eigenvalues[rest])
    np.testing.assert_array_equal(v[rest], whole.eigenvectors[rest])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (1, 1)])
def test_empty_and_tiny(shape):
    a = np.ones(shape)
    w, v = bed.eigh(a, order="magnitude", signs="max")
    assert w.shape == shape[:-1] and v.shape == shape
    assert (w == 1).all() and (v == 1).all()
    assert bed.eigvalsh(a, order="descending").shape == shape[:-1]


@pytest.mark.parametrize("kind", ["subclass", "list", "half", "integer"])
def test_kinds_of_input(kind):
    a = np.array([[1, 2], [2, -5]])
    made = {
        "subclass": lambda: a.view(type("Subclass", (np.ndarray,), {})),
        "list": a.tolist,
        "half": lambda: a.astype("f2"),
        "integer": lambda: a,
    }[kind]()
    w, v = bed.eigh(made, order="magnitude", signs="max")
    plain = bed.eigh(made)
    assert type(v) is type(plain.eigenvectors) and v.dtype == plain.eigenvectors.dtype
    assert np.asarray(w).tolist() == plain.eigenvalues.tolist()  # −5.6 comes first
    assert largest_entries(np.asarray(v)).min() > 0


@pytest.mark.parametrize(
    "wrong", ["Ascending", "", None, 1, np.eye(2), ["max"]], ids=str
)
def test_wrong_options(wrong):
    with pytest.raises(ValueError, match="order must be one of 'ascending', "):
        bed.eigh(np.eye(2), order=wrong)
    with pytest.raises(ValueError, match="order must be one of 'ascending', "):
        bed.eigvalsh(np.eye(2), order=wrong)
    with pytest.raises(ValueError, match="signs must be one of 'raw', 'max', got "):
        bed.eigh(np.eye(2), signs=wrong)


def test_options_are_by_keyword_alone():
    with pytest.raises(TypeError, match="positional"):
        bed.eigh(np.eye(2), "L", "descending")
    with pytest.raises(TypeError, match="signs"):
        bed.eigvalsh(np.eye(2), signs="max")


def test_options_as_found_are_not_looked_at_twice(monkeypatch):
    """The usual call does not come near them."""

    def refused(*arguments):
        raise AssertionError("options that are as they are by default were handled")

    monkeypatch.setattr("bed._eigh.normalize_arrangement", refused)
    assert bed.eigh(np.eye(2)).eigenvalues.tolist() == [1, 1]
    assert bed.eigvalsh(np.eye(2)).tolist() == [1, 1]


def leaning(rng, dtype):
    """Matrices whose order and largest entries a step of a difference cannot change.

    What is added has norm 0.3, so magnitudes stay 0.4 apart (Weyl), and of each
    eigenvector no more than 0.3 / 0.7 leaves its largest entry (Davis and Kahan).
    """
    added = random_hermitian(rng, (2, 4, 4), dtype)
    added *= 0.3 / np.linalg.norm(added, 2, axis=(1, 2), keepdims=True)
    return np.diag([-3.0, -1, 0, 2]) + added


def phase_dependent(x, **options):
    """Of any square matrix; a function of it with signs that are said."""
    w, v = bed.eigh((x + x.mH) / 2, signs="max", **options)
    return w, v


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("order", ORDERS)
def test_torch_differentiates_what_is_returned(rng, dtype, order):
    """Phases too, which a loss of raw eigenvectors must not depend on."""
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(leaning(rng, dtype)).requires_grad_()

    def solve(x):
        return phase_dependent(x, order=order)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own, about its vmap and scripts
        check = {"check_forward_ad": True, "check_batched_grad": True}
        assert torch.autograd.gradcheck(solve, x, **check)
        assert torch.autograd.gradgradcheck(solve, x, check_fwd_over_rev=True)
    _, v = phase_dependent(x, check_phase=True)  # which finds nothing
    v.real.sum().backward()


@pytest.mark.parametrize("order", ORDERS)
def test_programs_of_torch(rng, order):
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx

    def solve(x):
        return tuple(phase_dependent(x, order=order))

    x, other = torch.from_numpy(random_hermitian(rng, (2, 3, 4, 4), "c16"))
    expected = solve(other)
    torch._dynamo.reset()
    programs = [torch.compile(solve, fullgraph=True, backend="aot_eager")]
    programs += [
        make_fx(solve, tracing_mode=m)(x) for m in ("real", "fake", "symbolic")
    ]
    programs.append(torch.func.vmap(solve))
    for program in programs:
        for got, wanted in zip(program(other), expected, strict=True):
            torch.testing.assert_close(got, wanted)
    torch._dynamo.reset()
    shapes = [tuple(z.shape) for z in solve(x.to("meta"))]
    assert shapes == [(3, 4), (3, 4, 4)]


def test_a_failed_matrix_has_gradient_zero_under_torch(rng):
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(random_hermitian(rng, (3, 4, 4), "c16"))
    a[1] = torch.nan
    a.requires_grad_()
    w, v = phase_dependent(a, order="magnitude")
    (g,) = torch.autograd.grad(w[[0, 2]].sum() + v[[0, 2]].real.sum(), a)
    assert (g[1] == 0).all() and torch.isfinite(torch.view_as_real(g)).all()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("order", ORDERS)
def test_jax_differentiates_what_is_returned(rng, dtype, order):
    jax = pytest.importorskip("jax")
    from jax.test_util import check_grads

    a = leaning(rng, dtype).astype(dtype)
    options = {"order": order, "signs": "max", "check_phase": True}

    @jax.jit
    def solve(x):
        return tuple(bed.eigh((x + x.conj().mT) / 2, **options))

    expected = bed.eigh(a, order=order, signs="max")
    for function in (solve, jax.vmap(solve)):
        for got, wanted in zip(function(a), expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-5)
    check_grads(solve, (jax.numpy.asarray(a),), 1, atol=0.02, rtol=0.02, eps=1e-2)
