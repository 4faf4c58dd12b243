"""The result for a matrix has the same bits, whatever batch and call it came in."""

import cupy
import numpy as np

import bed

from ._cases import ALL_DTYPES, MAX_N, hermitian, kernels
from ._device import get, put, solve, synchronize


def same_bits(run, part) -> None:
    """Any batch, position and order; another stream; dirty memory; without the pool."""
    for n, dtype, layout, _ in kernels(run.smoke):
        name = f"n = {n}, {dtype}"
        with part.attempt(name):
            rng = run.rng("bits", dtype, n)
            a = hermitian(rng, 3 * layout.matrices + 2, n, dtype)
            expected = solve(put(a))
            part.right(a[:8], *(x[:8] for x in expected[:2]), what="bits")
            positions(part, rng, a, expected, layout.matrices, name)
            streams(part, a, expected, name)
            memory(part, a, expected, name)


def any_order(run, part) -> None:
    """All sizes up, down and shuffled: no call leaves anything behind for the next."""
    sizes = [*range(1, MAX_N + 1)]
    for dtype in ALL_DTYPES:
        rng = run.rng("any order", dtype)
        there = {n: put(hermitian(rng, 3, n, dtype)) for n in sizes}
        expected = {}
        for n in (*sizes, *sizes[::-1], *rng.permutation(sizes).tolist()):
            with part.attempt(f"n = {n}, {dtype}"):
                found = solve(there[n])
                part.same(found, expected.setdefault(n, found), f"n = {n}, {dtype}")
                _, status = solve(there[n], vectors=False)
                part.expect((status == 0).all(), f"n = {n}, {dtype}: {status}")


def positions(part, rng, a, expected, block, name) -> None:
    """Alone, in a smaller batch, in another place, in another order."""

    def rows(selection):
        return tuple(np.ascontiguousarray(x[selection]) for x in expected)

    for k in sorted({0, 1, block - 1, block, len(a) - 1} & set(range(len(a)))):
        part.same(solve(put(a[k])), tuple(x[k] for x in expected), f"{name}: {k} alone")
    for k in sorted({1, 2, max(1, block // 2), block + 1}):
        part.same(solve(put(a[k:])), rows(slice(k, None)), f"{name}: from {k} on")
        part.same(solve(put(a[:-k])), rows(slice(None, -k)), f"{name}: all but {k}")
    order = rng.permutation(len(a))
    part.same(solve(put(a[order])), rows(order), f"{name}: another order")
    twice = np.concatenate([a, a])
    both = tuple(np.concatenate([x, x]) for x in expected)
    part.same(solve(put(twice)), both, f"{name}: twice in a batch")
    # Neighbours of the same warp that take another number of sweeps.
    others = np.zeros_like(a)
    others[::2] = a[::2]
    kept = tuple(np.ascontiguousarray(x[::2]) for x in solve(put(others)))
    part.same(kept, rows(slice(None, None, 2)), f"{name}: between zero matrices")


def streams(part, a, expected, name) -> None:
    """On a stream of its own."""
    there = put(a)
    synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        result = bed.eigh(there, return_info=True)
        stream.synchronize()
        part.same(get(tuple(result)), expected, f"{name}: another stream")
        del result


def memory(part, a, expected, name) -> None:
    """Again, in memory full of ones, and in memory that comes from no pool."""
    there = put(a)
    dirt = [put(np.full(x.nbytes, 0xFF, np.uint8)) for x in expected]
    del dirt
    part.same(solve(there), expected, f"{name}: dirty memory")
    part.same(solve(there), expected, f"{name}: a second call")
    with cupy.cuda.using_allocator(None):
        part.same(solve(there), expected, f"{name}: without the pool")
