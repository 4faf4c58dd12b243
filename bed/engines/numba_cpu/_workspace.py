"""Memory of a block: as many matrices as a vector has lanes, interleaved.

The same bytes are seen as floats, where matrices are copied in and out, and as vectors.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ._compile import inline
from ._complex import as_numbers
from ._vector_array import VectorArray, as_floats, as_vectors


class Workspace(NamedTuple):
    """Views of the memory of a block.

    The matrix is first A, then its reflectors, and then Qᵀ. Entry (i, j) begins at
    vector ``(i * row + j) * planes``.
    """

    lanes: int
    floats: VectorArray  # (vectors, lanes), all of the memory
    planes: int  # 2 for complex matrices, real and imaginary parts, else 1
    row: int
    columns: int  # of z that are in use, an even number
    reflectors: int
    matrix: VectorArray  # (n, row) numbers
    z: VectorArray  # the same as (n, planes·row) vectors
    tau: VectorArray  # (n,) numbers
    p: VectorArray
    q: VectorArray
    d: VectorArray  # (n,) vectors
    e: VectorArray
    t: VectorArray  # (2, n), d and e
    order: VectorArray
    code: VectorArray  # (1,)
    c: VectorArray  # (2, n) vectors
    s: VectorArray
    p_at: int  # the first vector of p
    d_at: int
    e_at: int
    order_at: int
    code_at: int
    source: VectorArray  # (n, lanes) integers


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
    memory : tuple of arrays
        What `work` views and does not own. Numba frees an array after its last use, so
        whoever uses `work` has to be given `memory` as well.
    """
    raise NotImplementedError


@overload(workspace, prefer_literal=True)
def _workspace(n, a, w, width):
    if not isinstance(width, types.IntegerLiteral):
        return None
    width = width.literal_value
    lanes = 8 * width // w.dtype.bitwidth
    planes = 2 if isinstance(a.dtype, types.Complex) else 1

    def allocate(n, a, w, width):
        row = _row_length(n, planes)
        source = np.empty(lanes * n, np.int32)
        tau = n * row * planes
        p = tau + n * planes
        q = p + n * planes
        d = q + n * planes
        e, order, c, s, code = d + n, d + 2 * n, d + 3 * n, d + 5 * n, d + 7 * n
        m = aligned((code + 1) * lanes, w, lanes)
        z = as_vectors(m, 0, (n, row * planes), lanes)
        columns = (n * planes + 1) // 2 * 2
        for i in range(n):
            for j in range(n * planes, columns):
                z[i, j] = 0
        views = Workspace(
            lanes=lanes,
            floats=as_floats(m, (code + 1, lanes)),
            planes=planes,
            row=row,
            columns=columns,
            reflectors=max(0, n - 3 + planes),
            matrix=as_numbers(m, 0, (n, row), lanes, a),
            z=z,
            tau=as_numbers(m, tau * lanes, (n,), lanes, a),
            p=as_numbers(m, p * lanes, (n,), lanes, a),
            q=as_numbers(m, q * lanes, (n,), lanes, a),
            d=as_vectors(m, d * lanes, (n,), lanes),
            e=as_vectors(m, e * lanes, (n,), lanes),
            t=as_vectors(m, d * lanes, (2, n), lanes),
            order=as_vectors(m, order * lanes, (n,), lanes),
            code=as_vectors(m, code * lanes, (1,), lanes),
            c=as_vectors(m, c * lanes, (2, n), lanes),
            s=as_vectors(m, s * lanes, (2, n), lanes),
            p_at=p,
            d_at=d,
            e_at=e,
            order_at=order,
            code_at=code,
            source=as_floats(source, (n, lanes)),
        )
        return views, (m, source)

    return allocate


def rows_beside(count, n, a, w, work):
    """Memory for rows of numbers besides a workspace, for compiled code only.

    Parameters
    ----------
    count, n : int
        Rows, and numbers in each.
    a, w : array
        As for `workspace`.
    work : Workspace

    Returns
    -------
    rows : (count, n) numbers
    views : (count, planes·n) vectors
    floats : (vectors, lanes)
        The same as `Workspace.floats` is.
    memory : array
        What they view, to be kept as that of `workspace`.
    """
    raise NotImplementedError


@overload(rows_beside)
def _rows_beside(count, n, a, w, work):
    lanes = work.types[work.fields.index("d")].dtype.lanes
    planes = 2 if isinstance(a.dtype, types.Complex) else 1

    def allocate(count, n, a, w, work):
        memory = aligned(count * n * planes * lanes, w, lanes)
        rows = as_numbers(memory, 0, (count, n), lanes, a)
        views = as_vectors(memory, 0, (count, n * planes), lanes)
        return rows, views, as_floats(memory, (count * n * planes, lanes)), memory

    return allocate


@inline
def _row_length(n, planes):
    """Length of a row of numbers.

    Rows of a power of two would lie at the same place in a page, where a processor
    takes the load of one row to depend on the store to another: up to three times
    slower. An odd length avoids that. Real rows have an even number of columns in use.
    """
    if n % 2 == 0:
        return n + 1
    return n if planes == 2 else n + 2


@inline
def aligned(count, like, lanes):
    """Floats that begin at a multiple of the size of a vector."""
    memory = np.empty(count + lanes, like.dtype)
    start = -(memory.ctypes.data // like.itemsize) % lanes
    return memory[start : start + count]
