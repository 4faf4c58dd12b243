"""Large matrices that come alone have the bits that they have in a batch."""

from functools import lru_cache

import numpy as np
import pytest
from numba import njit

import bed
from bed.engines import numba_cpu
from bed.engines.numba_cpu import _entries
from bed.engines.numba_cpu._compile import ALONE, NARROW, WIDE
from bed.engines.numba_cpu._rows import (
    add,
    chunk,
    nothing,
    product,
    product_conj,
    product_real,
    put,
    take,
    together,
)
from bed.engines.numba_cpu._simd import fill, minimum
from bed.engines.numba_cpu._vector_array import as_vectors
from bed.engines.numba_cpu.eigh import ALONE_FROM
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian, stack, zoo

LARGE = (ALONE_FROM, 25, 31, 33, 48, 63, 64, 65, 127, 128)


def _lanes(dtype):
    return WIDE // np.dtype(dtype).type(0).real.itemsize


def _one_by_one(solve, *arrays):
    """What `solve` makes of each matrix of a batch by itself, joined again."""
    parts = [solve(*(x[i : i + 1] for x in arrays)) for i in range(len(arrays[0]))]
    return tuple(
        None if each[0] is None else np.concatenate(each)
        for each in zip(*parts, strict=True)
    )


@pytest.fixture
def taken(monkeypatch):
    """Widths of the compiled code that calls take."""
    widths = []
    get = _entries._OfDtype._get

    def noted(self, width):
        widths.append(width)
        return get(self, width)

    monkeypatch.setattr(_entries._OfDtype, "_get", noted)
    return widths


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.sweep(4)
@pytest.mark.parametrize("n", LARGE)
def test_bits_of_the_decomposition(rng, taken, n, dtype, uplo):
    a = random_hermitian(rng, (_lanes(dtype), n, n), dtype)
    a[0] = 0
    a[1, n // 2, n // 3] = a[1, n // 3, n // 2] = np.nan
    a[2] *= np.finfo(dtype).tiny
    a[3] = 1
    a[4] = np.eye(n)
    for vectors in (True, False):

        def solve(a, vectors=vectors):
            return numba_cpu.eigh(a, uplo, eigenvectors=vectors)

        taken.clear()
        w, v, status = solve(a)
        assert set(taken) == {WIDE}
        assert list(np.flatnonzero(status)) == [1]
        taken.clear()
        one_by_one = _one_by_one(solve, a)
        assert set(taken) == {ALONE}
        assert_same_bits(one_by_one[0], w)
        assert_same_bits(one_by_one[2], status)
        if vectors:
            assert_same_bits(one_by_one[1], v)
        # One with NaN comes before others here, in the memory of the same block.
        few = solve(a[1:4])
        assert_same_bits(few[0], w[1:4])
        assert_same_bits(few[2], status[1:4])
        if vectors:
            assert_same_bits(few[1], v[1:4])


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LARGE)
def test_zoo(rng, n, dtype):
    members = zoo(n, dtype, rng)
    a, exact = stack(members)
    w, v, status = _one_by_one(numba_cpu.eigh, a)
    assert not status.any()
    assert_eigh(a, w, v, exact, names=[member.name for member in members])


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [ALONE_FROM, 41])
def test_bits_of_the_stages(rng, taken, n, dtype):
    a = random_hermitian(rng, (_lanes(dtype), n, n), dtype)
    reduced = numba_cpu.tridiagonalize(a)
    assert_same_bits(_one_by_one(numba_cpu.tridiagonalize, a), reduced)
    d, e, _ = reduced
    solved = numba_cpu.eigh_tridiagonal(d, e)
    assert_same_bits(_one_by_one(numba_cpu.eigh_tridiagonal, d, e), solved)
    assert set(taken) == {WIDE, ALONE}


@pytest.mark.share(2)
@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_of_what_stands_on_the_decomposition(rng, dtype):
    n = 40
    a = random_hermitian(rng, (_lanes(dtype), n, n), dtype)
    b = a @ a + n * np.eye(n, dtype=dtype)
    b = (b + b.conj().swapaxes(1, 2)) / 2
    calls = [(bed.sqrtm, (b,)), (bed.eigh, (a,))]
    calls += [(lambda a, b: bed.eigh(a, b=b), (a, b))]
    for solve, arrays in calls:
        whole = solve(*arrays)
        for i in (0, 3, len(a) - 1):
            one = solve(*(x[i] for x in arrays))
            if isinstance(whole, np.ndarray):
                assert_same_bits(one, whole[i])
            else:
                assert_same_bits(tuple(one), tuple(x[i] for x in whole))


@pytest.mark.parametrize(
    "batch, n, widths",
    [
        (1, ALONE_FROM - 1, [NARROW]),
        (1, ALONE_FROM, [ALONE]),
        (_lanes("f8") // 4, ALONE_FROM, [ALONE]),
        (_lanes("f8") // 4 + 1, ALONE_FROM, [WIDE]),
        (_lanes("f8") + 1, ALONE_FROM, [WIDE, ALONE]),
        (_lanes("f8"), ALONE_FROM, [WIDE]),
    ],
)
def test_few_large_matrices_are_solved_one_by_one(rng, taken, batch, n, widths):
    a = random_hermitian(rng, (batch, n, n), "f8")
    assert_eigh(a, *numba_cpu.eigh(a)[:2])
    assert taken == widths


@lru_cache
def _sums(lanes):
    """Three sums of products along two rows, and what `put` leaves of them."""

    @njit
    def along(floats, length, start, n):
        rows = as_vectors(floats, 0, (3, length), lanes)
        x, y, z = rows[0], rows[1], rows[2]
        zero = fill(x[0], 0)
        for kind in range(3):
            total = zero
            for first in range(start, n, chunk(x)):
                part = nothing(x)
                for j in range(first, minimum(first + chunk(x), n), together(x)):
                    if kind == 0:
                        part = product(take(x, j), take(y, j), part)
                    elif kind == 1:
                        part = product_conj(take(x, j), take(y, j), part)
                    else:
                        part = product_real(take(x, j), take(y, j), part)
                total = add(total, part)
            z[kind] = total
        for j in range(start, n, together(x)):
            put(x, j, take(x, j) * take(y, j))

    return along


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 16, 17, 37])
def test_sums_along_rows(rng, dtype, start, count):
    """Of one lane as of two, and nothing besides is written."""
    n, length = start + count, 80
    x = np.zeros((3, length), dtype)
    x[:2, :n] = rng.standard_normal((2, n))
    results = []
    for lanes in (1, 2):
        floats = np.repeat(x.ravel(), lanes).astype(dtype)
        memory = np.zeros(floats.size + 64, dtype)
        at = -memory.ctypes.data % 64 // memory.itemsize
        aligned = memory[at : at + floats.size]
        aligned[:] = floats
        _sums(lanes)(aligned, length, start, n)
        results.append(aligned.reshape(3, length, lanes)[..., 0])
    assert_same_bits(results[0].copy(), results[1].copy())
    assert not results[0][0, n:].any()
    assert_same_bits(results[0][0, :start].copy(), x[0, :start])
    exact = x[0, start:n].astype(np.longdouble) @ x[1, start:n].astype(np.longdouble)
    scale = abs(x[0, start:n]) @ abs(x[1, start:n])
    assert abs(results[0][2, :3] - exact).max() <= count * np.finfo(dtype).eps * scale
