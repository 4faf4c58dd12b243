"""What a call of the fused engine writes, and where blocks of matrices end."""

import numpy as np
import pytest

from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from drivers import fetch, put
from kernels import FUSED, batch_for, engine, kernels, solve

# Bytes around every output, a multiple of the alignment that CuPy gives; and what they
# hold.
GUARD, PATTERN = 512, 0xA5


class Guarded:
    """A device array with guard bytes around it; it holds NaN, or −1 as an integer.

    `skew` moves it away from the alignment that CuPy gives.
    """

    def __init__(self, shape, dtype, skew):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.inside = slice(GUARD + skew, GUARD + skew + size)
        host = np.full(self.inside.stop + GUARD, PATTERN, np.uint8)
        host[self.inside] = 0xFF
        self.memory = put(host, FUSED)
        self.array = self.memory[self.inside].view(dtype).reshape(shape)

    def intact(self):
        """Whether the guard bytes still hold what they held."""
        return (np.delete(fetch(self.memory), self.inside) == PATTERN).all()


@pytest.mark.parametrize("n, dtype, block, vectors", kernels(values_too=True))
def test_given_outputs_are_written_and_nothing_else(rng, n, dtype, block, vectors):
    a = batch_for(rng, block, n, dtype)
    expected = solve(a, vectors=vectors)
    for batch in sorted({1, max(1, block - 1), block, block + 1, len(a)}):
        for skew in (0, 1):
            wanted = tuple(x[:batch] for x in expected)
            buffers = [Guarded(x.shape, x.dtype, skew * x.itemsize) for x in wanted]
            out = [x.array for x in buffers]
            if not vectors:
                out.insert(1, None)
            engine()(put(a[:batch], FUSED), eigenvectors=vectors, out=tuple(out))
            assert_same_bits(tuple(fetch(x.array) for x in buffers), wanted)
            assert all(x.intact() for x in buffers), "written beyond an output"


@pytest.mark.parametrize("n, dtype, block, vectors", kernels(values_too=True))
def test_batches_end_anywhere_in_a_block(rng, n, dtype, block, vectors):
    a = batch_for(rng, block, n, dtype)
    expected = solve(a, vectors=vectors)
    for end in (block, 2 * block, 3 * block):
        for batch in (end - 1, end, end + 1):
            found = solve(a[:batch], vectors=vectors)
            assert_same_bits(found, tuple(x[:batch] for x in expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_by_one_and_one_matrix(rng, dtype):
    a = random_hermitian(rng, (300, 1, 1), dtype)
    w, v, status = solve(a)
    assert_same_bits(w, a[:, 0].real.copy())
    assert_same_bits(v, np.ones_like(a))
    assert not status.any()
    for n in (2, 8, 20):
        a = random_hermitian(rng, (1, n, n), dtype)
        alone = solve(a[0])
        assert_same_bits(alone, tuple(x[0] for x in solve(a)))
        assert_eigh(a[0], *alone[:2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 40, 40), (5, 0, 0), (0, 1, 1)])
def test_nothing(shape, dtype):
    w, v, status = solve(np.empty(shape, dtype))
    real = np.dtype(dtype).type(0).real.dtype
    assert (w.shape, w.dtype) == (shape[:-1], real)
    assert (v.shape, v.dtype) == (shape, np.dtype(dtype))
    assert (status.shape, status.dtype) == (shape[:-2], np.dtype("i4"))
