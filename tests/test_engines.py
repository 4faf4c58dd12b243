"""Every registered engine on the zoo and on real matrices, by being registered."""

import importlib

import numpy as np
import pytest

import bed
from bed import engines
from bed._data import real_matrices
from bed.testing.accuracy import hermitian
from bed.testing.checks import assert_eigh
from bed.testing.matrices import DTYPES, SIZES, planted, random_hermitian, stack, zoo
from drivers import eigh, eigvalsh, fetch, put, skip_unless_taken
from interpreter import run_python

# The library behind this engine is held to its own promise, which is relative to the
# spectral norm: on the matrix of ones, whose norm is n times its largest entry, LAPACK
# was seen at 8.9 n·eps of the entry (zheevd, n = 65).
SPECTRAL = {"lapack", "cusolver"}
# Engines whose limit of iterations can be reached from Python.
LIMITED = {"lapack", "reference"}


def _relative_to(driver):
    return "spectral" if driver in SPECTRAL else "entry"


@pytest.mark.share(2)
@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_zoo(driver, rng, n, dtype):
    skip_unless_taken(driver, n)
    members = zoo(n, dtype, rng)
    a, exact = stack(members)
    names = [member.name for member in members]
    for uplo in "LU":
        w, v, status = eigh(a, uplo, driver=driver, return_info=True)
        assert not status.any(), [n for n, s in zip(names, status, strict=True) if s]
        assert_eigh(a, w, v, exact, uplo, names, _relative_to(driver))
        w = eigvalsh(a, uplo, driver=driver)
        assert_eigh(a, w, None, exact, uplo, names, _relative_to(driver))


@pytest.mark.share(2)
@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_planted_spectra_at_every_scale(driver, rng, n, dtype):
    skip_unless_taken(driver, n)
    spectrum = rng.standard_normal((4, n))
    scales = [1.0, 1e-30, 1e30] + ([1e-150, 1e150] if dtype in ("f8", "c16") else [])
    for scale in scales:
        exact = np.sort(spectrum.astype(np.longdouble) * scale, axis=-1)
        a = planted(rng, exact, dtype)
        for uplo in "LU":
            w, v, status = eigh(a, uplo, driver=driver, return_info=True)
            assert not status.any()
            assert_eigh(a, w, v, exact, uplo, relative_to=_relative_to(driver))


@pytest.mark.share(2)
@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [32, 128])
def test_equal_entries(driver, n, dtype):
    """c s sᵀ with s = ±1: all terms of a sum round alike, and an eigenvalue is n c.

    Draws are fixed: what is promised is not far above the largest errors there are.
    """
    skip_unless_taken(driver, n)
    rng = np.random.default_rng(n)
    count = 100 if driver == "reference" else 1000
    c = rng.uniform(1, 2, count).astype(np.finfo(dtype).dtype)
    s = rng.choice([1.0, -1.0], (count, n))
    s[: count // 2] = 1
    a = (s[:, :, None] * s[:, None, :]).astype(dtype) * c[:, None, None]
    exact = np.zeros((count, n), np.longdouble)
    exact[:, -1] = n * c.astype(np.longdouble)
    w = eigvalsh(a, driver=driver)
    assert_eigh(a, w, None, exact, relative_to=_relative_to(driver))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_size(driver, rng, dtype):
    for n in range(1, min(66, engines.get(driver).max_n or 66) + 1):
        a = random_hermitian(rng, (5, n, n), dtype)
        assert_eigh(a, *eigh(a, driver=driver), relative_to=_relative_to(driver))


def test_a_mixed_batch_is_solved_member_by_member(driver, rng):
    n = 12
    members = zoo(n, "f4", rng)
    a, exact = stack(members)
    pick = rng.integers(0, len(members), 500)
    w, v = eigh(a[pick], driver=driver)
    names = [members[i].name for i in pick]
    assert_eigh(a[pick], w, v, exact[pick], names=names)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", list(real_matrices()))
def test_real_matrices(driver, name):
    a, exact = real_matrices()[name]
    a, exact = a[:2000], exact[:2000]
    for uplo in "LU":
        w, v = eigh(a, uplo, driver=driver, check=True)
        assert_eigh(a, w, v, exact, uplo, relative_to=_relative_to(driver))


@pytest.mark.parametrize("eigenvectors", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_engine_fills_what_it_is_given(driver, rng, dtype, eigenvectors, batch=37):
    """Outputs start as NaN between guards: nothing is left out, nothing overrun."""
    n, guard = 9, 64
    a = random_hermitian(rng, (batch, n, n), dtype)
    real = a.real.dtype

    def guarded(shape, dtype):
        memory = np.full(int(np.prod(shape)) + 2 * guard, -77, dtype)
        inside = memory[guard:-guard]
        inside[...] = np.nan if np.dtype(dtype).kind in "fc" else -1
        memory = put(memory, driver)
        return memory, memory[guard:-guard].reshape(shape)

    memories, out = zip(
        guarded((batch, n), real),
        guarded((batch, n, n), dtype),
        guarded((batch,), "i4"),
        strict=True,
    )
    given = (out[0], out[1] if eigenvectors else None, out[2])
    solve = engines.get(driver).load()
    result = solve(put(a, driver), "L", eigenvectors=eigenvectors, out=given)
    assert result[0] is out[0]
    assert result[2] is out[2]
    w, v, status = fetch(out)
    assert (status == 0).all()
    assert_eigh(a, w, v if eigenvectors else None)
    for memory in map(fetch, memories):
        assert (memory[:guard] == -77).all()
        assert (memory[-guard:] == -77).all()
    if not eigenvectors:
        assert result[1] is None
        assert np.isnan(v).all()


def test_engine_allocates_outputs_itself(driver, rng):
    a = random_hermitian(rng, (3, 4, 4), "c8")
    there, solve = put(a, driver), engines.get(driver).load()
    w, v, status = fetch(solve(there, "U"))
    assert_eigh(hermitian(a, "U"), w, v)
    assert status.dtype == np.int32
    assert solve(there, eigenvectors=False)[1] is None


def test_no_convergence_is_flagged(driver, rng, monkeypatch):
    """With the limit of iterations at zero only diagonal matrices are solved."""
    if driver not in LIMITED:
        pytest.skip("its limit is compiled in: tested on its stage")
    a = random_hermitian(rng, (5, 6, 6), "f8")
    a[2] = np.diag(np.arange(6.0))
    if driver == "lapack":
        original = np.linalg.eigh
        library = importlib.import_module("bed.engines.lapack.eigh")._numpy

        def fails(x, UPLO="L"):
            if not all(np.count_nonzero(m) <= 6 for m in x.reshape(-1, 6, 6)):
                raise np.linalg.LinAlgError("Eigenvalues did not converge")
            return original(x, UPLO=UPLO)

        monkeypatch.setattr(library, "eigh", fails)
    else:
        monkeypatch.setattr("bed.engines.reference.qr_iteration.MAX_PASSES", 0)
    w, v, status = eigh(a, driver=driver, return_info=True)
    failed = np.arange(5) != 2
    assert (status[failed] == bed.Status.NO_CONVERGENCE).all()
    assert np.isnan(w[failed]).all()
    assert np.isnan(v[failed]).all()
    assert_eigh(a[2], w[2], v[2])
    with pytest.raises(np.linalg.LinAlgError, match=r"4 of 5.*did not converge"):
        eigh(a, driver=driver, check=True)


def _explained(monkeypatch, variable, value):
    """What is solved, explained, shown and refused, in an interpreter of its own."""
    monkeypatch.setenv(variable, value)
    code = """
import bed, numpy as np
a = np.diag([2.0, 1.0])
print(bed.eigvalsh(a))
print(bed.explain(a))
bed.show_config()
def asked():
    return bed.eigh(a, driver="numba_cpu")
def stage():
    return bed.tridiagonalize(a)
for call in asked, stage:
    try:
        call()
        print(call.__name__, "is solved")
    except ImportError as error:
        print(call.__name__, error)
"""
    return run_python(code)


@pytest.mark.parametrize(
    "variable, value", [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")]
)
def test_a_numba_that_cannot_compile_is_named_and_done_without(
    monkeypatch, variable, value
):
    text = _explained(monkeypatch, variable, value)
    solved, explained = text.splitlines()[0], text.splitlines()[2:4]
    assert solved == "[1. 2.]"
    assert explained[0].startswith("engine lapack")
    assert variable in explained[1]
    for call in ("asked", "stage"):
        (line,) = [x for x in text.splitlines() if x.startswith(call)]
        assert variable in line
    assert text.count(variable) >= 4  # `show_config` says so as well


@pytest.mark.parametrize(
    "variable, value", [("NUMBA_DISABLE_JIT", "0"), ("NUMBA_NUM_THREADS", "1")]
)
def test_a_variable_that_stops_nothing_is_not_named(monkeypatch, variable, value):
    text = _explained(monkeypatch, variable, value)
    assert "engine numba_cpu" in text
    assert variable not in text
