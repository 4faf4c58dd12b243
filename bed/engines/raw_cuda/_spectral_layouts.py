"""Which kernels make functions of matrices, and how they are laid out.

As in `_layouts.py`, nothing depends on the batch. Of the function nothing depends
either: kernels get it as numbers.
"""

from functools import cache

import numpy as np

from ._layouts import MAX_N, MOST_BYTES, TYPES, WARP, Layout, fitting

# A thread a matrix up to here, as long as what it needs fits in its registers in every
# dtype; few threads a block, as their staged matrices take shared memory.
TINY_MAX_N, TINY_THREADS = 4, 64

# Rows and columns of a thread's tile, for n up to and for larger ones: with two, small
# matrices have threads enough, and with four there are 16 products to 8 loads.
SMALL_TILE, LARGE_TILE, SMALL_TILE_MAX_N = 2, 4, 16

# Threads of a block that holds several matrices, and the shared memory that these may
# take together: four such blocks are resident on any GPU.
THREADS = 128
SEVERAL_BYTES = 24 * 1024


@cache
def product(n: int, dtype: np.dtype, limit: int = MOST_BYTES) -> Layout:
    """The layout of V diag(f(w)) Vᴴ, 1 ≤ n ≤ `MAX_N`; errors as of `choose`."""
    dtype = np.dtype(dtype)
    if n <= TINY_MAX_N:
        return _tiny("spectral_tiny", n, dtype)
    layout = _group("spectral_group", n, dtype, squares=1)
    return fitting(layout, n, dtype.name, limit)


@cache
def vjp(n: int, dtype: np.dtype, limit: int = MOST_BYTES) -> Layout:
    """The layout of the gradients; errors as of `choose`.

    Matrices that are worked on besides V have the place of the result where both take
    more than `limit`.
    """
    dtype = np.dtype(dtype)
    if n <= TINY_MAX_N:
        return _tiny("spectral_vjp_tiny", n, dtype)
    shared = _matrix_bytes(n, dtype, 2) <= limit
    layout = _group("spectral_vjp_group", n, dtype, 1 + shared, shared)
    return fitting(layout, n, dtype.name, limit)


def instantiations(dtype: np.dtype) -> list[Layout]:
    """Every layout for a dtype, each instantiation once, with the largest n."""
    found = {}
    for choose in (product, vjp):
        for n in range(1, MAX_N + 1):
            layout = choose(n, dtype)
            found[layout.expression] = layout
    return list(found.values())


def _tiny(kernel: str, n: int, dtype: np.dtype) -> Layout:
    real = dtype.type(0).real.itemsize
    each = (n * n | 1) * dtype.itemsize + (n | 1) * real
    return Layout(
        f"{kernel}.cu",
        f"bed::{kernel}<{TYPES[dtype.name]}, {n}, {TINY_THREADS}>",
        TINY_THREADS,
        TINY_THREADS,
        TINY_THREADS * each,
        exact=True,
    )


def _group(kernel: str, n: int, dtype: np.dtype, squares: int, *more: bool) -> Layout:
    tile = SMALL_TILE if n <= SMALL_TILE_MAX_N else LARGE_TILE
    threads, each = (-(-n // tile)) ** 2, _matrix_bytes(n, dtype, squares)
    matrices = max(1, min(THREADS // threads, SEVERAL_BYTES // each))
    words = [TYPES[dtype.name], str(tile), *(str(x).lower() for x in more)]
    return Layout(
        f"{kernel}.cu",
        f"bed::{kernel}<{', '.join(words)}>",
        -(-matrices * threads // WARP) * WARP,
        matrices,
        matrices * each,
        exact=True,
    )


def _matrix_bytes(n: int, dtype: np.dtype, squares: int) -> int:
    """Shared memory of one matrix: squares with odd rows, eigenvalues, a flag."""
    real = dtype.type(0).real.itemsize
    return squares * n * (n | 1) * dtype.itemsize + n * real + 4
