"""Products of matrices that are three to a block, one of each in every lane."""

from typing import NamedTuple

from numba import types

from ._compile import WIDE, inline, kernel, views_by_type
from ._complex import as_numbers, conj, fma_conj, number
from ._memory import numbers_at
from ._simd import any_lane, fill, minimum, select
from ._transpose import load, side_of, store
from ._vector_array import VectorArray, as_floats, as_vectors
from ._workspace import aligned

__all__ = [
    "Products",
    "fill_hermitian",
    "hermitian_part",
    "load",
    "load_matrices",
    "mirror",
    "multiply",
    "product_back",
    "products",
    "store_hermitian",
]


class Products(NamedTuple):
    """Memory of a block: V, and two matrices that products are made in.

    Entry (i, j) of a matrix is number ``i * row + j`` of it. Rows and columns that are
    missing to a multiple of four are there, and may hold anything.
    """

    lanes: int
    side: int  # of a square in `tile`
    vectors: VectorArray  # all of the memory
    floats: VectorArray  # (vectors, lanes), the same
    planes: int  # 2 for complex matrices, real and imaginary parts, else 1
    row: int
    size: int  # vectors in a matrix
    v: VectorArray  # numbers
    a: VectorArray
    b: VectorArray
    w: VectorArray  # (n,) vectors
    x: VectorArray
    f: VectorArray
    tile: VectorArray  # (lanes,)
    w_at: int  # the first vector of w
    x_at: int
    f_at: int
    tile_at: int


def products(n, a, w, width):
    """Memory for matrices of size n, as `workspace` does."""
    raise NotImplementedError


@views_by_type(products)
def _products(n, a, w, width):
    if not isinstance(width, types.IntegerLiteral):
        return None
    # Products are not a chain that waits: one register is enough, and fits the cache.
    width = min(width.literal_value, WIDE // 2)
    itemsize = w.dtype.bitwidth // 8
    lanes = width // itemsize
    side = side_of(lanes, itemsize)
    planes = 2 if isinstance(a.dtype, types.Complex) else 1

    def build(n, a, w, width):
        rows = (n + 3) // 4 * 4
        row = rows + 1  # rows of a power of two would share a place in a page
        size = rows * row * planes
        first = 3 * size
        tile = first + 3 * n
        count = tile + lanes
        memory, start = aligned(count * lanes * itemsize, lanes * itemsize)
        m = numbers_at(start, w.dtype)
        vectors = as_vectors(m, 0, (count,), lanes)
        # What is subnormal would take long.
        for i in range(first if memory and n % 4 else 0):
            vectors[i] = 0
        views = Products(
            lanes=lanes,
            side=side,
            vectors=vectors,
            floats=as_floats(m, (count, lanes)),
            planes=planes,
            row=row,
            size=size,
            v=as_numbers(m, 0, (size,), lanes, a),
            a=as_numbers(m, size * lanes, (size,), lanes, a),
            b=as_numbers(m, 2 * size * lanes, (size,), lanes, a),
            w=as_vectors(m, first * lanes, (n,), lanes),
            x=as_vectors(m, (first + n) * lanes, (n,), lanes),
            f=as_vectors(m, (first + 2 * n) * lanes, (n,), lanes),
            tile=as_vectors(m, tile * lanes, (lanes,), lanes),
            w_at=first,
            x_at=first + n,
            f_at=first + 2 * n,
            tile_at=tile,
        )
        return views, memory

    return build


@kernel
def multiply(out, x, x_row, x_column, y, y_row, y_column, row, n, half):
    """``out[i, j]`` = Σₖ x[i, k]·conj(y[j, k]), four rows and two columns at a time.

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
    for i in range(0, n, 4):
        for j in range(0, minimum(i + 4, n) if half else n, 2):
            s_00 = s_10 = s_20 = s_30 = number(x, zero, zero)
            s_01 = s_11 = s_21 = s_31 = number(x, zero, zero)
            x_0, y_0 = i * x_row, j * y_row
            for _ in range(n):
                x_1, x_2, x_3 = x_0 + x_row, x_0 + 2 * x_row, x_0 + 3 * x_row
                u, v = y[y_0], y[y_0 + y_row]
                s_00, s_01 = fma_conj(x[x_0], u, s_00), fma_conj(x[x_0], v, s_01)
                s_10, s_11 = fma_conj(x[x_1], u, s_10), fma_conj(x[x_1], v, s_11)
                s_20, s_21 = fma_conj(x[x_2], u, s_20), fma_conj(x[x_2], v, s_21)
                s_30, s_31 = fma_conj(x[x_3], u, s_30), fma_conj(x[x_3], v, s_31)
                x_0, y_0 = x_0 + x_column, y_0 + y_column
            at = i * row + j
            out[at], out[at + 1] = s_00, s_01
            out[at + row], out[at + row + 1] = s_10, s_11
            at += 2 * row
            out[at], out[at + 1] = s_20, s_21
            out[at + row], out[at + row + 1] = s_30, s_31


@inline
def load_matrices(a, n, start, count, work, matrix):
    """Numbers of (batch, n, n) to one of the three matrices."""
    line, at = n * work.planes, matrix * work.size
    load(a, start, count, work, at, n * line, line, work.row * work.planes)


@kernel
def store_hermitian(work, a, n, at, start, count, out):
    """A Hermitian matrix, of which the lower triangle is there, to (batch, n, n)."""
    row, zero = work.row, fill(a[0].real, 0)
    for i in range(n):
        for j in range(i):
            a[j * row + i] = conj(a[i * row + j])
        a[i * (row + 1)] = number(a, a[i * (row + 1)].real, zero)
    line = n * work.planes
    store(work, at, n * line, line, row * work.planes, start, count, out)


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
            a[i * row + j] = number(a, real, imag)
            a[j * row + i] = number(a, real, -imag)
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
