"""The fused engine on matrices with known eigenvalues, of every size it takes."""

import numpy as np
import pytest

from bed.testing.checks import assert_eigh
from bed.testing.matrices import DTYPES, EXTENDED, planted
from kernels import hidden, solve


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", range(1, 65))
def test_known_spectra(rng, n, dtype):
    """NaN where nothing may be read, and against LAPACK in double precision."""
    limits, i = np.finfo(dtype), np.arange(n)
    spectra = {
        "zero": 0 * i,
        "repeated": np.resize([-1.0, 0.5, 2.0], n),
        "clustered at eps": 1 + float(limits.eps) * i,
        "geometric": np.geomspace(1e-12, 1, n),
        "half zero": np.where(i < n // 2, 0, 1 + i / n),
        "huge": np.linspace(-1, 1, n) * float(limits.max) / 4,
        "tiny": np.linspace(1, 2, n) * float(limits.tiny),
        "random": rng.standard_normal(n),
    }
    names = list(spectra)
    exact = np.sort(np.array(list(spectra.values()), EXTENDED), axis=-1)
    a = planted(rng, exact, dtype)
    for uplo in "LU":
        w, v, status = solve(hidden(a, uplo), uplo)
        assert not status.any()
        assert_eigh(a, w, v, exact, uplo, names)
        w, status = solve(hidden(a, uplo), uplo, vectors=False)
        assert not status.any()
        assert_eigh(a, w, None, exact, uplo, names)
    lapack = np.linalg.eigvalsh(a.astype(np.result_type(dtype, "f8")))
    assert_eigh(a, w, None, lapack.astype(EXTENDED), "U", names)
