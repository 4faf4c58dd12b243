"""Inputs that do not lie in memory as a C-contiguous batch of float32 or wider."""

import numpy as np
import pytest

from bed.testing.checks import assert_eigh, assert_same_bits
from drivers import fetch, put
from kernels import FUSED, engine, every_layout, kernels, solve

# From memory (batch, rows, columns), rows and columns at least 2n, to matrices of size
# n; the same on the host and on the device.
VIEWS = {
    "every other matrix": lambda x, n: x[::2, :n, :n],
    "from the second matrix on": lambda x, n: x[1:, :n, :n],
    "a window of larger rows": lambda x, n: x[:, 1 : n + 1, 2 : n + 2],
    "every other row and column": lambda x, n: x[:, : 2 * n : 2, 1 : 2 * n : 2],
    "transposed matrices": lambda x, n: x.swapaxes(1, 2)[:, :n, :n],
    "all axes backwards": lambda x, n: x[::-1, ::-1, ::-1][:, :n, :n],
    "columns backwards": lambda x, n: x[:, :, ::-1][:, :n, :n],
    "the batch innermost": lambda x, n: x.transpose(2, 0, 1)[:, :n, :n],
    "Fortran order": lambda x, n: x.transpose(2, 1, 0)[:, :n, :n],
    "two axes of matrices": lambda x, n: x[:8].reshape(2, 4, *x.shape[1:])[
        :, ::3, :n, :n
    ],
    "one matrix broadcast": lambda x, n: np.broadcast_to(x[:1, :n, :n], (7, n, n)),
}


@pytest.mark.parametrize("n, dtype, block, vectors", kernels())
def test_views_are_solved_like_copies(rng, n, dtype, block, vectors):
    """Slices, transposes, negative and zero strides, Fortran order, row strides."""
    rows = 2 * n + 3
    x = rng.standard_normal((max(9, n + 2), rows, rows))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    x = x.astype(dtype)
    for uplo in "LU":
        for name, view in VIEWS.items():
            a = view(x, n)
            expected = solve(np.ascontiguousarray(a), uplo, vectors=vectors)
            assert_same_bits(solve(a, uplo, vectors=vectors), expected)
            first = (slice(0, 1),) * (a.ndim - 2)
            w, v = expected[0][first], expected[1][first]
            assert_eigh(np.ascontiguousarray(a[first]), w, v, uplo=uplo, names=[name])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("n, block", every_layout("f4"))
def test_half_precision_is_read_as_it_is(rng, n, block, name):
    """The same bits as after a conversion, by bed and by the engine, backwards too."""
    if name == "bfloat16":
        dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    else:
        dtype = np.dtype(name)
    x = rng.standard_normal((block + 3, n, n)).astype(dtype)
    x[0] *= dtype.type(2.0**-14)  # some are subnormal in float16
    wide = x.astype("f4")
    for uplo in "LU":
        expected = solve(wide, uplo)
        assert_same_bits(solve(x, uplo), expected)
        assert_same_bits(fetch(engine()(put(x, FUSED), uplo)), expected)
        backwards = fetch(engine()(put(x[::-1], FUSED), uplo))
        assert_same_bits(backwards, tuple(y[::-1] for y in expected))
        assert_eigh(wide, *expected[:2], uplo=uplo)
