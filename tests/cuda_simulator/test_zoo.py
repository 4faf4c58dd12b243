"""Known spectra on the Numba-CUDA engine in the simulator."""

import pytest

import bed
import test_engines as contract
from bed._data import real_matrices
from bed.testing.checks import assert_eigh
from bed.testing.matrices import DTYPES


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 6, 11])
def test_zoo(driver, rng, n, dtype):
    contract.test_zoo(driver, rng, n, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4])
def test_planted_spectra_at_every_scale(driver, rng, n, dtype):
    contract.test_planted_spectra_at_every_scale(driver, rng, n, dtype)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", list(real_matrices()))
def test_real_matrices(driver, rng, name):
    a, exact = real_matrices()[name]
    few = slice(0, 4 if a.shape[-1] <= 16 else 1)
    a, exact = a[few], exact[few]
    uplo = rng.choice(["L", "U"])
    w, v = bed.eigh(a, uplo, driver=driver, check=True)
    assert_eigh(a, w, v, exact, uplo)
