"""Batches of millions, and of more elements than an int32 counts."""

import numpy as np

import bed

from . import _device as device
from ._cases import hermitian
from ._device import differences, get, put, repeated, solve

# Matrices that large batches repeat; prime, so that no block boundary falls on the same
# matrix twice in a row.
PERIOD = 4099
# Batches with more elements than an int32 counts: dtype, n, vectors. One for every kind
# of kernel: a thread a matrix, few lanes, many lanes, a block.
BEYOND_INT32 = (
    ("f4", 4, True),
    ("f4", 4, False),
    ("f4", 16, True),
    ("f4", 33, True),
    ("f8", 64, True),
)
ELEMENTS = 2**31
# Of the free memory a batch may take this share.
SHARE = 0.8


def ten_million(run, part) -> None:
    """10,000,003 matrices of 3 × 3, every one of them compared."""
    batch = 10_003 if run.smoke else 10_000_003
    for dtype in ("f4",) if run.smoke else ("f4", "f8"):
        with part.attempt(f"{batch} of {dtype}"):
            large(run, part, np.dtype(dtype), 3, batch, vectors=True)


def beyond_int32(run, part) -> None:
    """More than 2³¹ elements in one batch, where memory allows."""
    for name, n, vectors in BEYOND_INT32:
        dtype = np.dtype(name)
        elements = 2**15 if run.smoke else ELEMENTS
        batch = elements // n**2 + 5
        needed = batch * n * dtype.itemsize * (n + 1 + n * vectors) + 4 * batch
        free = device.free_bytes()
        if needed > SHARE * free:
            part.notes.append(
                f"{batch} matrices of {n} × {n} {dtype} left out: they take "
                f"{needed / 1e9:.0f} GB and {free / 1e9:.0f} GB are free"
            )
            continue
        with part.attempt(f"{batch} matrices of {n} × {n} {dtype}"):
            large(run, part, dtype, n, batch, vectors=vectors)


def large(run, part, dtype, n, batch, *, vectors) -> None:
    """A batch that repeats few matrices: all results have the bits of the few."""
    period = PERIOD if n < 20 else 131
    base = hermitian(run.rng("large", dtype, n), period, n, dtype)
    expected = solve(put(base), vectors=vectors)
    some = slice(None, 64)
    part.right(base[some], *(x[some] for x in expected[:-1]), what="large")
    a = repeated(base, batch)
    what = f"{batch} matrices of {n} × {n} {dtype}"
    call = bed.eigh if vectors else bed.eigvalsh
    result = tuple(call(a, return_info=True))
    for x, few in zip(result, expected, strict=True):
        words = differences(x, few)
        part.expect(words == 0, f"{what}: {words} words differ")
    # The first, the last and some others once more, on the host.
    rng = run.rng("rows", n)
    for k in (0, batch - 1, *rng.integers(0, batch, 8).tolist()):
        row = tuple(x[0] for x in get(tuple(y[k : k + 1] for y in result)))
        part.same(row, tuple(x[k % period] for x in expected), f"{what}: matrix {k}")
    part.notes.append(f"{what}, {'with' if vectors else 'without'} vectors: compared")
    del result, a
    device.release()
