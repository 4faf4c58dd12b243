"""Memory of a block: as many matrices as a vector has lanes, interleaved.

The same bytes are seen as floats, where matrices are copied in and out, and as vectors.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from ._compile import WIDE, by_type, inline, views_by_type
from ._complex import as_numbers
from ._memory import allocate, numbers_at
from ._simd import maximum
from ._transpose import side_of
from ._vector_array import VectorArray, as_floats, as_vectors


class Workspace(NamedTuple):
    """Views of the memory of a block.

    The matrix is first A, then its reflectors, and then, where it is real or Q itself
    is wanted, Qᵀ. Entry (i, j) begins at vector ``(i * row + j) * planes``.
    """

    lanes: int
    floats: VectorArray  # (vectors, lanes), all of the memory
    planes: int  # 2 for complex matrices, real and imaginary parts, else 1
    neighbours: int  # of a row that a vector of `rotated` has in a lane, see `_rows`
    row: int
    columns: int  # of `rotated` that are in use, an even number
    reflectors: int
    matrix: VectorArray  # (n, row) numbers
    z: VectorArray  # the same as (n, planes·row) vectors
    rotated: VectorArray  # the same, as the vectors that rotations are applied to
    tau: VectorArray  # (n,) numbers
    p: VectorArray  # (n,) numbers
    scratch: tuple  # of three such arrays, the first of which is p
    d: VectorArray  # (n,) vectors
    e: VectorArray
    t: VectorArray  # (2, n), d and e
    order: VectorArray
    code: VectorArray  # (1,)
    half: VectorArray  # (2, n) vectors
    s: VectorArray
    ahead: VectorArray  # (3, n), for eigenvalues that are found before eigenvectors
    p_at: int  # the first vector of p
    d_at: int
    e_at: int
    order_at: int
    code_at: int
    source: VectorArray  # (n, lanes) integers
    side: int  # of a square in `tile`, see `_transpose`
    tile: VectorArray  # (side,) vectors
    rows_at: int  # the first vector of the rows besides, see `workspace_and_rows`


def workspace(n, a, w, width):
    """Memory for matrices of size n, for compiled code only.

    Parameters
    ----------
    n : int
    a, w : array
        With the dtype of the matrices, and the real one.
    width : int
        Bytes in a vector; a constant of the caller.

    Returns
    -------
    work : Workspace
    memory : int
        What `work` views, to be freed; 0 if there is none, and nothing to be viewed.
    """
    raise NotImplementedError


def workspace_and_rows(n, a, w, width):
    """The same with room for as many rows of numbers as `w` has columns."""
    raise NotImplementedError


def workspace_and_vectors(n, a, w, width):
    """The same with room for n rows of numbers where the matrices are complex."""
    raise NotImplementedError


def rows_beside(work, count, n):
    """That room, as (count, n) numbers, as (count, planes·n) vectors, and as `rotated`.

    With `work.row` for n its rows begin at different places of a page, as those of the
    matrix do.
    """
    raise NotImplementedError


@views_by_type(workspace)
def _workspace(n, a, w, width):
    return _builder(a, w, width, False)


@views_by_type(workspace_and_rows)
def _workspace_and_rows(n, a, w, width):
    return _builder(a, w, width, True)


@views_by_type(workspace_and_vectors)
def _workspace_and_vectors(n, a, w, width):
    return _builder(a, w, width, isinstance(a.dtype, types.Complex))


@by_type(rows_beside)
def _rows_beside(work, count, n):
    lanes = work.types[work.fields.index("d")].dtype.lanes
    rotated_lanes = work.types[work.fields.index("rotated")].dtype.lanes

    def view(work, count, n):
        start = work.rows_at * lanes
        rows = as_numbers(work.floats, start, (count, n), lanes, work.tau)
        z = as_vectors(work.floats, start, (count, n * work.planes), lanes)
        shape = count, n * work.planes // work.neighbours
        return rows, z, as_vectors(work.floats, start, shape, rotated_lanes)

    return view


def _builder(a, w, width, has_rows):
    if not isinstance(width, types.IntegerLiteral):
        return None
    width = width.literal_value
    itemsize = w.dtype.bitwidth // 8
    lanes = max(1, width // itemsize)
    # One matrix fills a register with the numbers of a row, several with their lanes.
    rotated_lanes = lanes if lanes > 1 else WIDE // 2 // itemsize
    neighbours = rotated_lanes // lanes
    bytes_of_vector, alignment = lanes * itemsize, rotated_lanes * itemsize
    side = side_of(lanes, itemsize)
    planes = 2 if isinstance(a.dtype, types.Complex) else 1

    def build(n, a, w, width):
        row = _row_length(n, planes, neighbours)
        beside = w.shape[1] if has_rows else 0
        tau = n * row * planes
        # What is taken together may begin with the last number.
        line = (n + neighbours - 1) * planes
        p = tau + n * planes
        q = p + line
        r = q + line
        d = r + line
        e, order, half, s, ahead = d + n, d + 2 * n, d + 3 * n, d + 5 * n, d + 7 * n
        code = ahead + 3 * n
        rows = (code + neighbours) // neighbours * neighbours
        tile = rows + beside * row * planes
        source = tile + side
        memory, start = aligned((source + n) * bytes_of_vector, alignment)
        m = numbers_at(start, w.dtype)
        z = as_vectors(m, 0, (n, row * planes), lanes)
        for i in range(n if memory else 0):
            for j in range(n * planes, row * planes):
                z[i, j] = 0
        floats = as_floats(m, (source, lanes))
        if neighbours > 1:
            for i in range(p, d if memory else 0):
                floats[i, 0] = 0
        views = Workspace(
            lanes=lanes,
            floats=floats,
            planes=planes,
            neighbours=neighbours,
            row=row,
            columns=in_pairs(n * planes, neighbours),
            reflectors=maximum(0, n - 3 + planes),
            matrix=as_numbers(m, 0, (n, row), lanes, a),
            z=z,
            rotated=as_vectors(m, 0, (n, row * planes // neighbours), rotated_lanes),
            tau=as_numbers(m, tau * lanes, (n,), lanes, a),
            p=as_numbers(m, p * lanes, (n,), lanes, a),
            scratch=(
                as_numbers(m, p * lanes, (n,), lanes, a),
                as_numbers(m, q * lanes, (n,), lanes, a),
                as_numbers(m, r * lanes, (n,), lanes, a),
            ),
            d=as_vectors(m, d * lanes, (n,), lanes),
            e=as_vectors(m, e * lanes, (n,), lanes),
            t=as_vectors(m, d * lanes, (2, n), lanes),
            order=as_vectors(m, order * lanes, (n,), lanes),
            code=as_vectors(m, code * lanes, (1,), lanes),
            half=as_vectors(m, half * lanes, (2, n), lanes),
            s=as_vectors(m, s * lanes, (2, n), lanes),
            ahead=as_vectors(m, ahead * lanes, (3, n), lanes),
            p_at=p,
            d_at=d,
            e_at=e,
            order_at=order,
            code_at=code,
            source=as_floats(
                numbers_at(start + source * bytes_of_vector, np.int32), (n, lanes)
            ),
            side=side,
            tile=as_vectors(m, tile * lanes, (side,), lanes),
            rows_at=rows,
        )
        return views, memory

    return build


@inline
def in_pairs(columns, neighbours):
    """Columns of `rotated` for so many vectors, an even number."""
    return (columns + 2 * neighbours - 1) // (2 * neighbours) * 2


@inline
def _row_length(n, planes, neighbours):
    """Length of a row of numbers, n or more.

    Rows of a power of two would lie at the same place in a page, where a processor
    takes the load of one row to depend on the store to another: up to three times
    slower. An odd length avoids that. Real rows have an even number of columns in use,
    and room for what is taken together with the last number of a row.
    """
    if neighbours > 1:
        return (n // (2 * neighbours) * 2 + 3) * neighbours
    if n % 2 == 0:
        return n + 1
    return n if planes == 2 else n + 2


@inline
def aligned(size, alignment):
    """So many bytes of memory, as `allocate` has it, and the first that is aligned."""
    memory = allocate(size + alignment)
    return memory, memory + -memory % alignment
