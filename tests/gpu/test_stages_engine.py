"""The engine of a Numba kernel for each stage, beyond the sizes of the fused one."""

import numpy as np
import pytest

import bed
from bed.engines import engines
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian, stack, zoo
from drivers import Driver, eigh, eigvalsh, fetch, put
from kernels import hidden

(ENGINE,) = (e for e in engines() if e.stages and "cuda" in e.devices)
DRIVER = Driver(ENGINE.name, "cuda")
SIZES = (2, 8, 33, 64, 100, 128)

pytestmark = pytest.mark.skipif(
    ENGINE.missing() is not None, reason=f"{ENGINE.name} {ENGINE.missing()}"
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_known_spectra(rng, n, dtype):
    """The zoo, with NaN where nothing may be read."""
    members = zoo(n, dtype, rng)
    (a, exact), names = stack(members), [m.name for m in members]
    for uplo in "LU":
        dirty = hidden(a, uplo)
        w, v, status = eigh(dirty, uplo, driver=DRIVER, return_info=True)
        assert not status.any()
        assert_eigh(a, w, v, exact, uplo, names)
        w, status = eigvalsh(dirty, uplo, driver=DRIVER, return_info=True)
        assert not status.any()
        assert_eigh(a, w, None, exact, uplo, names)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_any_place_in_a_batch(rng, n, dtype):
    """Other orders, alone, a stride that is not the usual one, NaN beside it."""
    a = random_hermitian(rng, (9, n, n), dtype)
    expected = tuple(eigh(a, driver=DRIVER, return_info=True))
    for rows in (rng.permutation(9), slice(4, 5)):
        found = tuple(eigh(a[rows], driver=DRIVER, return_info=True))
        assert_same_bits(found, tuple(x[rows] for x in expected))
    there = put(np.repeat(a, 2, axis=0), DRIVER)[::2]
    strided = fetch(bed.eigh(there, return_info=True, driver=ENGINE.name))
    assert_same_bits(tuple(strided), expected)
    a[3, n - 1, 0] = np.nan
    w, v, status = eigh(a, driver=DRIVER, return_info=True)
    good = np.arange(9) != 3
    assert status.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert np.isnan(w[3]).all() and np.isnan(v[3]).all()
    assert_same_bits((w[good], v[good]), tuple(x[good] for x in expected[:2]))
