"""The result for a matrix has the same bits, whatever batch and call it came in."""

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from drivers import fetch, put
from kernels import FUSED, batch_for, kernels, layouts, solve, split_layouts


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def rows(results, selection):
    return tuple(np.ascontiguousarray(x[selection]) for x in results)


@pytest.mark.parametrize("n, dtype, block, vectors", kernels())
def test_any_place_in_a_batch(rng, n, dtype, block, vectors):
    a = batch_for(rng, block, n, dtype)
    expected = solve(a)
    assert_eigh(a[:8], *rows(expected[:2], slice(8)))
    for k in sorted({0, 1, block - 1, block, len(a) - 1}):
        assert_same_bits(solve(a[k]), tuple(x[k] for x in expected))
    for k in sorted({1, 2, max(1, block // 2), block + 1}):
        assert_same_bits(solve(a[k:]), rows(expected, slice(k, None)))
        assert_same_bits(solve(a[:-k]), rows(expected, slice(None, -k)))
    order = rng.permutation(len(a))
    assert_same_bits(solve(a[order]), rows(expected, order))
    twice = tuple(np.concatenate([x, x]) for x in expected)
    assert_same_bits(solve(np.concatenate([a, a])), twice)
    # Neighbours of the same warp that take another number of sweeps.
    others = np.zeros_like(a)
    others[::2] = a[::2]
    every_other = slice(None, None, 2)
    assert_same_bits(rows(solve(others), every_other), rows(expected, every_other))


@pytest.mark.parametrize("n, dtype, block, vectors", kernels())
def test_any_stream_and_any_memory(rng, cupy, n, dtype, block, vectors):
    """A stream of its own, memory full of ones, and memory that comes from no pool."""
    a = batch_for(rng, block, n, dtype)
    expected, there = solve(a), put(a, FUSED)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        result = bed.eigh(there, return_info=True)
        stream.synchronize()
        assert_same_bits(tuple(fetch(result)), expected)
        del result
    dirt = [put(np.full(x.nbytes, 0xFF, np.uint8), FUSED) for x in expected]
    del dirt
    assert_same_bits(solve(a), expected)
    with cupy.cuda.using_allocator(None):
        assert_same_bits(tuple(fetch(bed.eigh(there, return_info=True))), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_in_any_order(rng, dtype):
    """Up, down and shuffled: no call leaves anything behind for the next."""
    sizes = [*range(1, layouts.MAX_N + 1)]
    arrays = {n: random_hermitian(rng, (3, n, n), dtype) for n in sizes}
    expected = {}
    for n in (*sizes, *sizes[::-1], *rng.permutation(sizes).tolist()):
        found = solve(arrays[n])
        assert_same_bits(found, expected.setdefault(n, found))
        assert not solve(arrays[n], vectors=False)[1].any()


SEVERAL = {"f8": (33, 40, 48, 49, 64), "c8": (49, 64), "c16": (33, 40, 48, 64)}


@pytest.mark.parametrize("dtype, n", [(d, n) for d in SEVERAL for n in SEVERAL[d]])
def test_several_launches_have_the_bits_of_one(rng, cupy, monkeypatch, dtype, n):
    """In chunks, with a matrix that is none, and on two streams at once."""
    a = random_hermitian(rng, (200, n, n), dtype)
    a[7] = np.nan
    monkeypatch.setattr(split_layouts, "CHOSEN", {})
    expected = solve(a)
    monkeypatch.setattr(split_layouts, "CHOSEN", split_layouts.POSSIBLE)
    split = split_layouts.split(n, np.dtype(dtype))
    there = [put(a, FUSED), put(a[::-1], FUSED)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in there]
    cupy.cuda.Device().synchronize()
    for chunk in (200, 90):
        monkeypatch.setattr(split_layouts, "SCRATCH", chunk * split.each)
        results = []
        for x, stream in zip(there, streams, strict=True):
            with stream:
                results.append(bed.eigh(x, return_info=True))
        for stream in streams:
            stream.synchronize()
        found = [tuple(fetch(result)) for result in results]
        assert_same_bits(found[0], expected)
        assert_same_bits(rows(found[1], slice(None, None, -1)), expected)
    assert_same_bits(solve(a[50:], "U"), rows(expected, slice(50, None)))
