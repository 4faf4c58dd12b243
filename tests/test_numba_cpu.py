"""The stages of the compiled CPU engine, one matrix at a time."""

import numpy as np
import pytest

from bed.engines.numba_cpu import _compile
from bed.engines.numba_cpu._rows import combine_rows, inner
from bed.engines.numba_cpu.back_transform import back_transform
from bed.engines.numba_cpu.qr_iteration import qr_iteration
from bed.engines.numba_cpu.tridiagonalize import tridiagonalize
from checks import tolerance
from matrices import DTYPES, random_hermitian, tridiagonal, tridiagonal_eigenvalues, zoo


def _reduce(a):
    """Diagonal, couplings and Q of one matrix."""
    n = len(a)
    const = _compile.constants(a.dtype)
    work = a.copy()
    d, e = np.full(n, np.nan, a.real.dtype), np.full(n, np.nan, a.real.dtype)
    tau, scratch = np.full(n, np.nan, a.dtype), np.full(n, np.nan, a.dtype)
    tridiagonalize(work, d, e, tau, scratch, const)
    q = np.full((n, n), np.nan, a.dtype)
    back_transform(work, tau, q, np.full(n, np.nan, a.dtype), const)
    return d, e[:-1], q


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 33])
def test_reduction_is_a_similarity(rng, n, dtype):
    for name, a, _ in [("random", random_hermitian(rng, (n, n), dtype), None), *(
        m for m in zoo(n, dtype, rng) if m.name in {"zero", "ones", "even", "rank one"}
    )]:  # fmt: skip
        size = max(abs(a).max(), 1e-30)
        d, e, q = _reduce(a)
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        q = q.astype(wide)
        t = tridiagonal(d.astype("f8"), e.astype("f8"))
        assert abs(a @ q - q @ t).max() <= tolerance(n, dtype) * size, name
        assert abs(q.conj().T @ q - np.eye(n)).max() <= tolerance(n, dtype), name


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_iteration_diagonalises_and_its_rotations_are_orthogonal(rng, n, dtype):
    const = _compile.constants(dtype)
    d0, e0 = rng.uniform(-1, 1, n).astype(dtype), rng.uniform(-1, 1, n).astype(dtype)
    d, e, z = d0.copy(), e0.copy(), np.eye(n, dtype=dtype)
    assert qr_iteration(d, e, z, const)
    t = tridiagonal(d0.astype("f8"), e0[:-1].astype("f8"))
    z = z.astype("f8")
    assert abs(z @ t - d[:, None] * z).max() <= tolerance(n, dtype)
    assert abs(z @ z.T - np.eye(n)).max() <= tolerance(n, dtype)
    exact = tridiagonal_eigenvalues(d0, e0[:-1])
    assert abs(np.sort(d) - exact).max() <= tolerance(n, dtype)


def test_iteration_that_cannot_converge_says_so():
    const = _compile.constants("f8")
    d, e = np.ones(3), np.full(3, np.nan)
    assert not qr_iteration(d, e, np.empty((3, 0)), const)


def test_small_couplings_are_not_lost_to_an_absolute_threshold():
    """Couplings of 1e-40 beside an entry of one still decide their own block."""
    const = _compile.constants("f8")
    d, e = np.array([1.0, 0, 0]), np.array([0, 1e-40, 0])
    assert qr_iteration(d, e, np.empty((3, 0)), const)
    np.testing.assert_allclose(np.sort(d), [-1e-40, 1e-40, 1], rtol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, start", [(1, 0), (3, 1), (4, 0), (9, 2), (16, 3), (6, 6)])
def test_sums_over_rows(rng, n, start, dtype):
    const = _compile.constants(dtype)
    m, v = random_hermitian(rng, (n, n), dtype), random_hermitian(rng, (n, n), dtype)[0]
    out = np.full(n, np.nan, dtype)
    combine_rows(v, m, start, out, const)
    expected = v[start:].conj() @ m[start:, start:]
    np.testing.assert_allclose(out[start:], expected, atol=tolerance(n, dtype) * 10)
    assert np.isnan(out[:start]).all()
    expected = (v[start:].conj() @ m[0, start:]).real
    assert abs(inner(v, m[0], start, const) - expected) <= tolerance(n, dtype) * 10


def test_arithmetic_stays_in_single_precision():
    assert {x.dtype for x in _compile.constants("c8")} == {np.dtype("f4")}
    for function in (tridiagonalize, back_transform, qr_iteration):
        compiled = [s for s in function.signatures if "float32" in str(s)]
        assert compiled
        for signature in compiled:
            text = function.inspect_llvm(signature)
            assert "fpext float" not in text, f"{function.__name__} widens to double"


def test_cached_code_is_keyed_by_every_source(monkeypatch):
    before = _compile.source_digest()
    original = type(_compile.Path()).read_bytes

    def changed(path):
        return original(path) + (b"#" if path.name == "rotations.py" else b"")

    monkeypatch.setattr(type(_compile.Path()), "read_bytes", changed)
    assert _compile.source_digest() != before
