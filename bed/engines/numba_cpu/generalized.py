"""The generalised problem A x = λ B x, with B positive definite: to `eigh` and back.

B = L Lᴴ turns it into C u = λ u with C = L⁻¹ A L⁻ᴴ and x = L⁻ᴴ u (Golub and Van Loan,
algorithm 8.7.1; C in place as LAPACK's xSYGS2 has it). What is compiled here makes L
and C, and in a second call the x; between them stands the entry of `eigh`.

Rows and columns are scaled by powers of two, so that the diagonal of B is of order one:
nothing overflows or underflows on the way, whatever the units, and no rounding changes.

In a block, rows hold A and then C from the diagonal on, B and then L before it. The
diagonal of L stands apart.
"""

import numpy as np
from numba import types

from bed._status import Status
from bed.engines._outputs import allocate, real_dtype

from ._blocks import in_blocks
from ._compile import CHUNK, kernel
from ._complex import conj, fma, fma_conj, number, select
from ._entries import Entries, inputs, outputs
from ._load import load_columns, load_lower, load_matrices, load_row, scale
from ._simd import fill, maximum, minimum, power_of_two, sqrt
from ._store import (
    fill_lost,
    keep_order,
    store_status,
    store_triangles,
    store_vectors,
)
from ._tasks import in_tasks
from ._vector_array import as_rows
from .eigh import NO_VECTORS, solve_part

_OK, _OVERFLOW = int(Status.OK), int(Status.OVERFLOW)
_NOT_FINITE, _NOT_DEFINITE = int(Status.NOT_FINITE), int(Status.NOT_DEFINITE)


def eigh_generalized(a, b, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of pairs of host arrays; see the contract in `bed.engines`.

    Besides the outputs each thread takes memory for the matrices of one task.
    """
    batch, n, _ = a.shape
    dtype, lower = a.dtype, uplo == "L"
    w, v, status = out or allocate(
        np.empty, (batch, n), dtype, eigenvectors=eigenvectors
    )
    none = NO_VECTORS[dtype.char]
    before_and_after = _entries(dtype)

    def run(start, stop, pair, results):
        part, count = slice(start, stop), stop - start
        a, b = (x[part] for x in pair)
        w, v, status = (None if x is None else x[part] for x in results)
        # C is solved where its eigenvectors will stand: a block is read first.
        c = np.empty((count, n, n), dtype) if v is None else v
        factor = none if v is None else np.empty((count, n, n), dtype)
        factors = np.empty((count, 2), real_dtype(dtype))
        codes = np.empty(count, np.int32)
        kept = lower, a, b, factor, factors, codes, w, c, status
        before_and_after(0, count, n, (True, *kept))
        solve_part(c, False, w, none if v is None else v, status)
        before_and_after(0, count, n, (False, *kept))

    in_tasks(run, (a, b), (w, v, status), before_and_after.lanes)
    return w, v, status


@kernel
def _reduce_block(start, count, arrays, work, const):
    """Before `eigh`: `c` gets the upper triangle of C, and `factor` that of Lᴴ.

    The latter where eigenvectors are wanted. `factors` are two numbers by which
    eigenvalues are multiplied in the end, and `codes` say what is wrong already.
    """
    _, n, has_v, lower, a, b, factor, factors, codes, _, c, _ = arrays
    planes, matrix, d, e = work.planes, work.matrix, work.d, work.e
    load_matrices(a, n, start, count, lower, work)
    first, second, finite = scale(work.z, n, planes * n, planes, const)
    load_lower(b, n, start, count, lower, work)
    for i in range(n):
        finite = finite & (abs(d[i]) <= const.huge)
        for j in range(planes * i):
            finite = finite & (abs(work.z[i, j]) <= const.huge)
    largest, definite = _equilibrate(matrix, n, d, e, work.s[0], const)
    definite = _cholesky(matrix, n, d, work.half[0], definite, const)
    _congruence(matrix, n, work.half[0], work.p, const)
    if has_v:
        for i in range(n):
            back = const.one / e[i]
            d[i] = back * d[i]
            for j in range(i):
                matrix[i, j] = back * matrix[i, j]
    status = select(definite, fill(d[0], _OK), _NOT_DEFINITE)
    work.code[0] = select(finite, status, _NOT_FINITE)
    fill_lost(work.z, 1, 1, work.code[0] != _OK)  # which loses the matrix in `eigh`
    store_status(work, start, count, codes)
    store_triangles(work, n, start, count, c, factor, has_v, const)
    d[0] = minimum(first * largest, const.huge)
    e[0] = minimum(second * largest, const.huge)
    for lane in range(count):
        factors[start + lane, 0] = work.floats[work.d_at, lane]
        factors[start + lane, 1] = work.floats[work.e_at, lane]


@kernel
def _equilibrate(matrix, n, d, e, ratio, const):
    """Scale B to a diagonal in [1, 4), and A by the same up to one factor.

    Parameters
    ----------
    matrix : (n, ≥ n)
        A, of order one, from the diagonal on, and B before it.
    d : (n,)
        Diagonal of B.
    e : (n,)
        On return, what rows and columns of B are multiplied by.
    ratio : (n,)
        Scratch: the same for A, of which none is above one.

    Returns
    -------
    largest
        Largest of `e`.
    definite
        Mask of the lanes where all of `d` is positive.
    """
    definite = d[0] > const.zero
    largest = fill(d[0], 0)
    for i in range(n):
        positive = (d[i] > const.zero) & (d[i] <= const.huge)
        definite = definite & positive
        d[i] = select(positive, d[i], const.one)
        # The root of a subnormal number is a normal one, and so is its inverse.
        e[i] = const.one / power_of_two(sqrt(d[i]))
        d[i] = d[i] * e[i] * e[i]
        largest = maximum(largest, e[i])
    for i in range(n):
        ratio[i] = e[i] / largest
    for i in range(n):
        row, e_i, ratio_i = matrix[i], e[i], ratio[i]
        for j in range(i):
            row[j] = e[j] * (e_i * row[j])
        for j in range(i, n):
            row[j] = ratio[j] * (ratio_i * row[j])
    return largest, definite


@kernel
def _cholesky(matrix, n, d, inverse, definite, const):
    """B = L Lᴴ in place, row by row; the diagonal of L in `d`, and its inverse.

    Returns `definite` without the lanes where a pivot is not positive.
    """
    for i in range(n):
        row_i, pivot = matrix[i], d[i]
        for j in range(i):
            x = inverse[j] * (row_i[j] + -_product(row_i, matrix[j], 0, j, const))
            row_i[j] = x
        square = _product(row_i, row_i, 0, i, const).real
        pivot = pivot - square
        definite = definite & (pivot > const.zero)
        d[i] = sqrt(select(definite, pivot, const.one))
        inverse[i] = const.one / d[i]
    return definite


@kernel
def _product(x, y, start, stop, const):
    """Σ x[k]·ȳ[k] of a range, added up in short parts."""
    total = number(x, const.zero, const.zero)
    for chunk in range(start, stop, CHUNK):
        part = number(x, const.zero, const.zero)
        for k in range(chunk, minimum(chunk + CHUNK, stop)):
            part = fma_conj(x[k], y[k], part)
        total = total + part
    return total


@kernel
def _congruence(matrix, n, inverse, column, const):
    """A to L⁻¹ A L⁻ᴴ in place, by rows of the upper triangle.

    Row k is freed of L before it meets the rest, by a rank-2 update, and is solved for
    at last (LAPACK's xSYGS2, lower, conjugated).
    """
    for k in range(n):
        row, scale_k = matrix[k], inverse[k]
        corner = scale_k * scale_k * row[k].real
        row[k] = number(matrix, corner, const.zero)
        half = -const.half * corner
        for j in range(k + 1, n):
            l_j = conj(matrix[j, k])
            column[j] = l_j
            row[j] = fma(half, l_j, scale_k * row[j])
        for i in range(k + 1, n):
            row_i, x, l_i = matrix[i], -conj(row[i]), -conj(column[i])
            for j in range(i, n):
                row_i[j] = fma(x, column[j], fma(l_i, row[j], row_i[j]))
        for j in range(k + 1, n):
            row[j] = fma(half, column[j], row[j])
        for j in range(k + 1, n):
            x = row[j] + -_product(row, matrix[j], k + 1, j, const)
            row[j] = inverse[j] * x


@kernel
def _transform_block(start, count, arrays, work, const):
    """After `eigh`: eigenvalues of the pair, and eigenvectors where they are wanted."""
    _, n, has_v, _, _, _, factor, factors, codes, w, v, status = arrays
    for k in range(start, start + count):
        for i in range(n):
            x = w[k, i] * factors[k, 0] * factors[k, 1] + const.zero
            w[k, i] = x
            if abs(x) > const.huge:
                status[k, 0] = _OVERFLOW
        if codes[k, 0] != _OK:
            status[k, 0] = codes[k, 0]
    if has_v:
        load_columns(v, n, start, count, work)
        for i in range(n - 1, -1, -1):
            load_row(factor, n, i, start, count, work)
            _substitute(work.matrix, work.p, i, n, const)
        keep_order(work.order, n)
        store_vectors(work, 0, n, start, count, v, const)


@kernel
def _substitute(rows, factor, i, n, const):
    """Entry i of every x from u and the later entries; `factor` is row i of Lᴴ."""
    inverse = const.one / factor[i].real
    for k in range(0, n, 2):
        # The last one of an odd number is done twice, at once.
        row_0, row_1 = rows[k], rows[minimum(k + 1, n - 1)]
        x_0, x_1 = row_0[i], row_1[i]
        for chunk in range(i + 1, n, CHUNK):
            part_0 = number(rows, const.zero, const.zero)
            part_1 = number(rows, const.zero, const.zero)
            for j in range(chunk, minimum(chunk + CHUNK, n)):
                l_j = factor[j]
                part_0 = fma(l_j, row_0[j], part_0)
                part_1 = fma(l_j, row_1[j], part_1)
            x_0, x_1 = x_0 + -part_0, x_1 + -part_1
        row_0[i], row_1[i] = inverse * x_0, inverse * x_1


@kernel
def _solve_block(start, count, arrays, work, const):
    """One step of two: reduce pairs, or transform what came of them.

    Of both together, which share what they are compiled with.
    """
    if arrays[0]:
        _reduce_block(start, count, arrays, work, const)
    else:
        _transform_block(start, count, arrays, work, const)


def _build(width):
    solve = in_blocks(_solve_block, width)

    def eigh_generalized_batch(
        start, stop, reducing, lower, a, b, factor, factors, codes, w, v, status
    ):
        n, has_v = a.shape[1], factor.size > 0
        pair, kept = (as_rows(a), as_rows(b)), (as_rows(factor), as_rows(factors))
        results = as_rows(codes), as_rows(w), as_rows(v), as_rows(status)
        arrays = reducing, n, has_v, lower, *pair, *kept, *results
        solve(start, stop, n, a, w, arrays)

    return eigh_generalized_batch


def _signature(dtype, real):
    pair = inputs(dtype, 3), inputs(dtype, 3)
    kept = outputs(dtype, 3), outputs(real, 2), outputs(types.int32, 1)
    results = outputs(real, 2), outputs(dtype, 3), outputs(types.int32, 1)
    return types.boolean, types.boolean, *pair, *kept, *results


_entries = Entries("eigh_generalized", _build, _signature)
