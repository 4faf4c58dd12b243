"""Bare CUDA array interfaces, and arrays of JAX, in and out.

The number in brackets is that of the reported fault in tests/test_cases_interop.py.
"""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from drivers import fetch, put
from kernels import FUSED, solve


class Interface:
    """A CUDA array interface and nothing else."""

    def __init__(self, array, **changed):
        self.array = array  # lives as long as what is lent
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | changed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 16, 40])
def test_interfaces(rng, n, dtype):
    """Strides told and null (C65)."""
    a = random_hermitian(rng, (3, 4, n, n), dtype)
    there = put(a, FUSED)
    for uplo in "LU":
        lent = Interface(there, strides=None)
        found = tuple(fetch(bed.eigh(lent, uplo, return_info=True)))
        assert_same_bits(found, solve(a, uplo))
        lent = Interface(there[::2].swapaxes(2, 3))
        found = tuple(fetch(bed.eigh(lent, uplo, return_info=True)))
        assert_same_bits(found, solve(a[::2].swapaxes(2, 3), uplo))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 8, 20, 40])
def test_jax_arrays_go_in_and_come_back(rng, jax_device, n, dtype):
    """The same bits as from CuPy, and back on their device."""
    import jax

    a = random_hermitian(rng, (2, 3, n, n), dtype)
    there = jax.numpy.asarray(a)
    for uplo in "LU":
        result = tuple(bed.eigh(there, uplo, return_info=True))
        for x in result:
            assert isinstance(x, jax.Array)
            assert x.devices() == there.devices() == {jax_device}
        assert_same_bits(tuple(map(np.asarray, result)), solve(a, uplo))
        late = there + 0  # made by JAX just before, on its own stream
        wanted = solve(a + 0, uplo, vectors=False)[0]
        assert_same_bits(np.asarray(bed.eigvalsh(late, uplo)), wanted)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_from_jax(rng, jax_device, name):
    import jax

    half = jax.numpy.asarray(random_hermitian(rng, (5, 6, 6), "f4"), name)
    found = tuple(map(np.asarray, bed.eigh(half)))
    wide = solve(np.asarray(half.astype("float32")))
    assert_same_bits(found, wide[:2])
