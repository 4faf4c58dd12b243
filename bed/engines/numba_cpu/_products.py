"""Products of matrices that are three to a block, one of each in every lane."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ._compile import inline, kernel
from ._complex import as_numbers, conj, fma_conj, number
from ._simd import any_lane, fill, select
from ._store import SMALL, scalar
from ._vector_array import VectorArray, as_floats, as_vectors
from ._workspace import aligned


class Products(NamedTuple):
    """Memory of a block: V, and two matrices that products are made in.

    Entry (i, j) of a matrix is number ``i * row + j`` of it. There is a row and a
    column more than an odd n, which may hold anything.
    """

    lanes: int
    floats: VectorArray  # (vectors, lanes), all of the memory
    planes: int  # 2 for complex matrices, real and imaginary parts, else 1
    row: int
    size: int  # vectors in a matrix
    v: VectorArray  # numbers
    a: VectorArray
    b: VectorArray
    w: VectorArray  # (n,) vectors
    x: VectorArray
    f: VectorArray
    lanewise: VectorArray  # (1,)
    w_at: int  # the first vector of w
    x_at: int
    f_at: int
    lanewise_at: int


def products(n, a, w, width):
    """Memory for matrices of size n, as `workspace` does."""
    raise NotImplementedError


@overload(products, prefer_literal=True)
def _products(n, a, w, width):
    if not isinstance(width, types.IntegerLiteral):
        return None
    width = width.literal_value
    lanes = 8 * width // w.dtype.bitwidth
    planes = 2 if isinstance(a.dtype, types.Complex) else 1

    def allocate(n, a, w, width):
        even = n + n % 2
        row = even + 1  # rows of a power of two would share a place in a page
        size = even * row * planes
        first = 3 * size
        m = aligned((first + 3 * n + 1) * lanes, w, lanes)
        floats = as_floats(m, (first + 3 * n + 1, lanes))
        for i in range(first):
            for lane in range(lanes):
                floats[i, lane] = 0
        views = Products(
            lanes=lanes,
            floats=floats,
            planes=planes,
            row=row,
            size=size,
            v=as_numbers(m, 0, (size,), lanes, a),
            a=as_numbers(m, size * lanes, (size,), lanes, a),
            b=as_numbers(m, 2 * size * lanes, (size,), lanes, a),
            w=as_vectors(m, first * lanes, (n,), lanes),
            x=as_vectors(m, (first + n) * lanes, (n,), lanes),
            f=as_vectors(m, (first + 2 * n) * lanes, (n,), lanes),
            lanewise=as_vectors(m, (first + 3 * n) * lanes, (1,), lanes),
            w_at=first,
            x_at=first + n,
            f_at=first + 2 * n,
            lanewise_at=first + 3 * n,
        )
        return views, (m,)

    return allocate


@kernel
def multiply(out, x, x_row, x_column, y, y_row, y_column, row, n, half):
    """``out[i, j]`` = Σₖ x[i, k]·conj(y[j, k]), two rows and two columns at a time.

    Parameters
    ----------
    out
        Another matrix than x and y.
    x_row, x_column, y_row, y_column : int
        From an entry to the next row and column: a transpose has them exchanged.
    row : int
        The same of `out`, whose columns are beside each other.
    half : bool
        Of a product that is Hermitian, leave out what is right of the diagonal.
    """
    zero = fill(x[0].real, 0)
    for i in range(0, n, 2):
        for j in range(0, i + 1 if half else n, 2):
            s_00 = s_01 = s_10 = s_11 = number(x, zero, zero)
            x_at, y_at = i * x_row, j * y_row
            for _ in range(n):
                x_0, x_1 = x[x_at], x[x_at + x_row]
                y_0, y_1 = y[y_at], y[y_at + y_row]
                s_00, s_01 = fma_conj(x_0, y_0, s_00), fma_conj(x_0, y_1, s_01)
                s_10, s_11 = fma_conj(x_1, y_0, s_10), fma_conj(x_1, y_1, s_11)
                x_at, y_at = x_at + x_column, y_at + y_column
            at = i * row + j
            out[at], out[at + 1] = s_00, s_01
            out[at + row], out[at + row + 1] = s_10, s_11


@kernel
def load(a, start, count, work, at):
    """Copy matrices (batch, n, n) to lanes, from vector number `at` on.

    Lanes that are left are filled with zero.
    """
    n, planes, floats = a.shape[1], work.planes, work.floats
    matrices = as_floats(a, (a.shape[0], n * n))
    for i in range(n):
        begin = at + i * work.row * planes
        if n <= SMALL:
            for j in range(n):
                for lane in range(count):
                    x = matrices[start + lane, i * n + j]
                    floats[begin + j * planes, lane] = x.real
                    if planes == 2:
                        floats[begin + j * planes + 1, lane] = x.imag
        else:
            for lane in range(count):
                for j in range(n):
                    x = matrices[start + lane, i * n + j]
                    floats[begin + j * planes, lane] = x.real
                    if planes == 2:
                        floats[begin + j * planes + 1, lane] = x.imag
        for j in range(n * planes):
            for lane in range(count, work.lanes):
                floats[begin + j, lane] = 0


@kernel
def load_rows(x, start, count, work, at):
    """The same for vectors (batch, n)."""
    n, floats = x.shape[1], work.floats
    rows = as_floats(x, (x.shape[0], n))
    for lane in range(work.lanes):
        for i in range(n):
            floats[at + i, lane] = rows[start + lane, i] if lane < count else 0


@kernel
def store_hermitian(work, at, start, count, out, const):
    """The lower triangle, and what follows from it, to matrices (batch, n, n)."""
    n, planes, floats = out.shape[1], work.planes, work.floats
    matrices = as_floats(out, (out.shape[0], n * n))
    for i in range(n):
        begin = at + i * work.row * planes
        if n <= SMALL:
            for j in range(i):
                k = begin + j * planes
                for lane in range(count):
                    real, imag = floats[k, lane], floats[k + planes - 1, lane]
                    x = scalar(out, real, imag, const.zero)
                    matrices[start + lane, i * n + j] = x
                    x = scalar(out, real, -imag, const.zero)
                    matrices[start + lane, j * n + i] = x
        else:
            for lane in range(count):
                for j in range(i):
                    k = begin + j * planes
                    real, imag = floats[k, lane], floats[k + planes - 1, lane]
                    x = scalar(out, real, imag, const.zero)
                    matrices[start + lane, i * n + j] = x
                    x = scalar(out, real, -imag, const.zero)
                    matrices[start + lane, j * n + i] = x
        for lane in range(count):
            x = scalar(out, floats[begin + i * planes, lane], const.zero, const.zero)
            matrices[start + lane, i * n + i] = x


@kernel
def hermitian_part(a, n, row, const):
    """Replace a matrix by (A + Aᴴ)/2; whether any of it is not zero, by lanes."""
    half = const.half
    used = fill(a[0].real, 0) != const.zero
    for i in range(n):
        for j in range(i + 1):
            x, y = a[i * row + j], a[j * row + i]
            real = half * x.real + half * y.real
            imag = half * x.imag - half * y.imag
            used = used | (real != const.zero) | (imag != const.zero)
            a[i * row + j], a[j * row + i] = number(a, real, imag), number(a, real, -imag)
    return used


@kernel
def mirror(a, n, row):
    """Fill in a Hermitian matrix whose conjugate's lower triangle is there."""
    for i in range(n):
        for j in range(i):
            a[j * row + i] = a[i * row + j]
            a[i * row + j] = conj(a[i * row + j])


@kernel
def product_back(work, n):
    """V S Vᴴ of a Hermitian S in `work.a`, to its lower triangle."""
    row = work.row
    multiply(work.b, work.v, row, 1, work.a, row, 1, row, n, False)
    multiply(work.a, work.b, row, 1, work.v, row, 1, row, n, True)


@inline
def fill_hermitian(a, n, row, mask, x):
    """x for the lower triangle of the lanes where `mask` holds."""
    if any_lane(mask):
        for i in range(n):
            for j in range(i + 1):
                old = a[i * row + j]
                a[i * row + j] = number(
                    a, select(mask, x, old.real), select(mask, x, old.imag)
                )
