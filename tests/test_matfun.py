"""Functions of matrices as users call them: accuracy, domain, floors, options."""

import numpy as np
import pytest
import scipy.linalg

import bed
from bed import Status
from bed._data import real_matrices
from bed.testing.checks import assert_same_bits, tolerance
from bed.testing.matrices import planted, random_hermitian, zoo

DTYPES = ["f4", "f8", "c8", "c16"]
NAMED = {
    "sqrtm": bed.sqrtm,
    "invsqrtm": bed.invsqrtm,
    "logm": bed.logm,
    "expm": bed.expm,
    "powm": lambda a, **options: bed.powm(a, 0.3, **options),
    "absm": bed.absm,
    "signm": bed.signm,
    "clampm": lambda a, **options: bed.clampm(a, 0.3, 2, **options),
}


def definite(rng, n, dtype, scale=1.0):
    """Conditions from 1 to 0.1/(n·eps), with simple, repeated and graded spectra."""
    eps = np.finfo(dtype).eps
    largest = 0.1 / (n * eps)
    w = [np.ones(n), np.geomspace(1 / largest, 1, n), np.linspace(1 / largest, 1, n)]
    w += [np.where(np.arange(n) % 2, 1.0, 1e-3), np.geomspace(1e-3, 1, n)]
    w += [np.geomspace(1 / c, 1, n) for c in (1e1, 1e2)]
    return planted(rng, np.sort(w, axis=-1), np.dtype(dtype)) * np.dtype(dtype).type(
        scale
    )


def assert_functions_undo_each_other(a):
    """As is promised of definite matrices; see the notes of `bed.sqrtm`."""
    n, eps = a.shape[-1], np.finfo(a.dtype).eps
    wide = np.dtype({"f4": "f8", "c8": "c16"}.get(a.dtype.str[1:], a.dtype.str[1:]))
    full = a.astype(np.clongdouble if wide.kind == "c" else np.longdouble)
    size = abs(full).max((-2, -1))
    w = np.linalg.eigvalsh(a.astype(wide)).astype(np.longdouble)
    condition = w[..., -1] / w[..., 0]
    root, inverse, status = bed.sqrtm_invsqrtm(a, return_info=True)
    assert not status.any()
    root, inverse = root.astype(full.dtype), inverse.astype(full.dtype)
    error = abs(root @ root - full).max((-2, -1))
    assert (error <= 24 * n * eps * size).all()
    error = abs(inverse @ full @ inverse - np.eye(n)).max((-2, -1))
    assert (error <= 8 * n * eps * condition).all()
    again = bed.expm(bed.logm(a)).astype(full.dtype)
    logs = abs(np.log(w)).max(-1)
    assert (abs(again - full).max((-2, -1)) <= 8 * n * eps * (1 + logs) * size).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 33, 64])
def test_functions_undo_each_other(rng, n, dtype):
    assert_functions_undo_each_other(definite(rng, n, dtype))


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_undo_each_other_at_any_scale(rng, dtype, scale):
    for n in (2, 5, 9):
        assert_functions_undo_each_other(definite(rng, n, dtype, scale))


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_zoo_has_neither_warnings_nor_other_status(rng, name, dtype):
    for member in zoo(8, dtype, rng):
        result, status = NAMED[name](member.a, return_info=True)
        assert status in (Status.OK, Status.OVERFLOW, Status.DOMAIN)
        assert (status == Status.OK) <= np.isfinite(result).all()
        assert (status == Status.DOMAIN) <= np.isnan(result).all()
        finite = ~np.isnan(result)
        assert (result == result.conj().T)[finite].all()


@pytest.mark.parametrize("name", real_matrices())
def test_real_matrices_lifted_to_be_definite(name):
    a, _ = real_matrices()[name]
    n, eps = a.shape[-1], np.finfo(a.dtype).eps
    a = a[abs(a).max((-2, -1)) > 0][:64]
    size = np.linalg.norm(a, axis=(-2, -1), ord=2)
    inverse, status = bed.invsqrtm(a, floor=1e3, return_info=True)
    assert not status.any()
    w = np.linalg.eigvalsh(inverse)
    lowest = 1e3 * n * eps * size
    assert (w > 0).all() and (w[:, -1] <= 1.1 / np.sqrt(lowest)).all()
    product = inverse @ bed.clampm(a, floor=1e3) @ inverse
    condition = size / lowest
    assert (abs(product - np.eye(n)).max((-2, -1)) <= 8 * n * eps * condition).all()


def test_as_scipy_has_them(rng):
    a = definite(rng, 5, "f8")[3:]
    close = {"rtol": 1e-9, "atol": 1e-9}
    for x in a:
        np.testing.assert_allclose(bed.sqrtm(x), scipy.linalg.sqrtm(x), **close)
        np.testing.assert_allclose(bed.logm(x), scipy.linalg.logm(x), **close)
        np.testing.assert_allclose(bed.expm(x), scipy.linalg.expm(x), **close)
        power = scipy.linalg.fractional_matrix_power(x, 0.3)
        np.testing.assert_allclose(bed.powm(x, 0.3), power, **close)
        np.testing.assert_allclose(bed.funm(x, np.tanh), scipy.linalg.tanhm(x), **close)


@pytest.mark.parametrize("name", ["sqrtm", "invsqrtm", "logm", "powm"])
def test_outside_of_the_domain(rng, name):
    n, eps = 3, np.finfo("f8").eps
    a = planted(rng, [[-1, 1, 2], [0.5, 1, 2], [-4 * n * eps, 1, 2]], "f8")
    a[2] = np.diag([-4 * n * eps, 1, 2])
    result, status = NAMED[name](a, return_info=True)
    zero = Status.OK if name in ("sqrtm", "powm") else Status.DOMAIN
    assert status.tolist() == [Status.DOMAIN, Status.OK, zero]
    assert np.isnan(result[status == Status.DOMAIN]).all()
    assert_same_bits(result[1], NAMED[name](a[1]))
    with pytest.raises(np.linalg.LinAlgError, match=r"matrix 0: .*domain"):
        NAMED[name](a, check=True)
    assert np.isfinite(NAMED[name](a, floor=1)).all()


def test_a_zero_eigenvalue_has_a_root():
    assert_same_bits(bed.sqrtm(np.diag([0.0, 4.0])), np.diag([0.0, 2.0]))
    pair = bed.sqrtm_invsqrtm(np.diag([0.0, 4.0]), return_info=True)
    assert pair.status == Status.DOMAIN and np.isnan(pair.invsqrtm).all()
    assert_same_bits(pair.sqrtm, np.diag([0.0, 2.0]))


def test_whole_powers_have_all_numbers_in_their_domain(rng):
    a = planted(rng, [-2, -0.5, 1, 3], "f8")
    np.testing.assert_allclose(bed.powm(a, -1), np.linalg.inv(a), rtol=0, atol=1e-14)
    np.testing.assert_allclose(bed.powm(a, 3), a @ a @ a, rtol=0, atol=1e-13)
    assert bed.powm(np.zeros((2, 2)), -1, return_info=True).status == Status.DOMAIN
    assert_same_bits(bed.powm(np.diag([-2.0, -0.5, 1, 3]), 0), np.eye(4))
    one = bed.powm(a, 0)  # V Vᴴ, as far from it as is promised of V
    np.testing.assert_allclose(one, np.eye(4), rtol=0, atol=tolerance(4, "f8"))


def test_a_value_that_is_too_large():
    result, status = bed.expm(np.diag([0.0, 1000.0]), return_info=True)
    assert status == Status.OVERFLOW and not np.isfinite(result[1, 1])
    with pytest.raises(np.linalg.LinAlgError):
        bed.expm(np.diag([0.0, 1000.0]), check=True)


@pytest.mark.parametrize("name", NAMED)
def test_neighbours_change_no_bit(rng, name):
    a = definite(rng, 4, "f8")
    alone = [NAMED[name](x) for x in a]
    many = np.concatenate([a, a * np.nan, 1e6 * a, -a, a[::-1]])
    with np.errstate(all="ignore"):
        together = NAMED[name](many)
    assert_same_bits(together[: len(a)], np.stack(alone))
    assert_same_bits(together[-len(a) :][::-1], np.stack(alone))


@pytest.mark.parametrize("name", NAMED)
def test_inputs_of_all_kinds(rng, name):
    f, a = NAMED[name], definite(rng, 4, "f8")[2:6]
    expected = f(a)
    read_only = a.copy()
    read_only.flags.writeable = False
    assert_same_bits(f(read_only), expected)
    assert_same_bits(f(np.asfortranarray(a)), expected)
    assert_same_bits(f(a.reshape(2, 2, 4, 4)), expected.reshape(2, 2, 4, 4))
    assert_same_bits(f(np.broadcast_to(a[0], (3, 4, 4)))[2], expected[0])
    assert f(a[:0]).shape == (0, 4, 4) and f(np.ones((2, 0, 0))).shape == (2, 0, 0)
    upper = np.triu(a) + np.tril(np.full_like(a, np.nan), -1)
    lower = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
    assert_same_bits(f(upper, UPLO="U"), f(a, UPLO="U"))
    assert_same_bits(f(lower), expected)
    assert f(a.astype("f2")).dtype == np.float32
    assert f(np.eye(3, dtype=int)).dtype == np.float64
    with pytest.raises(np.linalg.LinAlgError):
        f(np.ones((2, 3)))


@pytest.mark.parametrize("driver", ["numba_cpu", "lapack", "reference"])
@pytest.mark.parametrize("name", NAMED)
def test_engines_agree(rng, name, driver):
    a = definite(rng, 5, "c16")[3:]
    a[1] *= np.nan
    result, status = NAMED[name](a, driver=driver, return_info=True)
    assert status.tolist() == [Status.OK, Status.NOT_FINITE] + [Status.OK] * (
        len(a) - 2
    )
    np.testing.assert_allclose(result, NAMED[name](a), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda a: bed.sqrtm(a, floor=-1), ValueError, "floor must be"),
        (lambda a: bed.sqrtm(a, floor="x"), ValueError, "floor must be a number"),
        (lambda a: bed.sqrtm(a, floor=np.inf), ValueError, "floor must be"),
        (lambda a: bed.sqrtm(a, floor=True), ValueError, "floor must be a number"),
        (lambda a: bed.powm(a, np.nan), ValueError, "p must be"),
        (lambda a: bed.powm(a, [1, 2]), ValueError, "p must be a number"),
        (lambda a: bed.powm(a, 10**400), ValueError, "p must be a number"),
        (lambda a: bed.powm(a, np.bool_(True)), ValueError, "p must be a number"),
        (lambda a: bed.clampm(a, 2, 1), ValueError, "min must not be above max"),
        (lambda a: bed.sqrtm(a, "X"), ValueError, "UPLO"),
        (lambda a: bed.sqrtm(a, check="x"), ValueError, "check must be"),
        (lambda a: bed.sqrtm(a, driver="x"), ValueError, "driver='x' is unknown"),
        (lambda a: bed.sqrtm(a.astype(object)), TypeError, "dtype"),
        (lambda a: bed.funm(a, None), TypeError, "f must be a function"),
        (lambda a: bed.funm(a, lambda x: 1.0), TypeError, "f was given"),
        (lambda a: bed.funm(a, lambda x: x[:1]), ValueError, "entry by entry"),
        (lambda a: bed.funm(a, lambda x: x + 1j), TypeError, "real"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call(np.eye(3))


def test_hermitian_is_checked_where_asked_for(rng):
    a = random_hermitian(rng, (3, 4, 4), "f8")
    bed.expm(a, check="hermitian")
    a[1, 0, 3] += 1
    with pytest.raises(np.linalg.LinAlgError, match="matrix 1"):
        bed.expm(a, check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match="matrix 1"):
        bed.funm(a, np.exp, check="hermitian")


def test_functions_of_a_caller():
    a = np.array([np.diag([1.0, -4.0]), np.eye(2), np.diag([0.0, 1.0])])
    with np.errstate(all="ignore"):
        result, status = bed.funm(a, lambda w: 1 / np.sqrt(w), return_info=True)
        assert status.tolist() == [Status.DOMAIN, Status.OK, Status.OVERFLOW]
        assert status.dtype == np.int32
        assert np.isnan(result[0]).all()
        assert_same_bits(result[1], np.eye(2))
        with pytest.raises(np.linalg.LinAlgError, match="2 of 3"):
            bed.funm(a, lambda w: 1 / np.sqrt(w), check=True)
