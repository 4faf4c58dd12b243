"""Functions of matrices: V f(w) Vᴴ, of a matrix in each lane."""

import numpy as np
from numba import types

from bed._functions import Spectral
from bed._status import Status
from bed.engines._outputs import allocate

from ._blocks import in_blocks
from ._compile import kernel
from ._entries import Entries, inputs, outputs
from ._functions import CALL, Call, arguments, call_of, values
from ._products import (
    fill_hermitian,
    load,
    load_matrices,
    multiply,
    products,
    store_hermitian,
)
from ._simd import any_lane, fill, select
from ._tasks import in_tasks, solve_batch
from ._vector_array import as_rows
from .eigh import solve_part

_OVERFLOW, _DOMAIN = int(Status.OVERFLOW), int(Status.DOMAIN)
_OK, _NOT_FINITE = int(Status.OK), int(Status.NOT_FINITE)


def spectral(a, uplo, function: Spectral, *, out=None):
    """f of a batch of host arrays; see the contract in `bed.engines`.

    Each task of a thread decomposes some matrices and multiplies while their
    eigenvectors are in its cache.
    """
    batch, n, _ = a.shape
    f, w, v, status = out or (
        np.empty(a.shape, a.dtype),
        *allocate(np.empty, (batch, n), a.dtype),
    )
    lower, call = uplo == "L", call_of(function)
    product = _entries(a.dtype)

    def run(start, stop, inputs, outputs):
        a, (f, w, v, status) = inputs[0], outputs
        if v is None:
            w, v, _ = allocate(np.empty, (stop - start, n), a.dtype)
        else:
            w, v = w[start:stop], v[start:stop]
        a, f, status = a[start:stop], f[start:stop], status[start:stop]
        solve_part(a, lower, w, v, status)
        product(0, stop - start, n, (*call, v, w, f, status))

    in_tasks(run, (a,), (f, w, v, status), product.lanes)
    return f, w, v, status


def spectral_product(w, v, function: Spectral, *, out=None):
    """The same from eigenvalues and eigenvectors; see the contract."""
    f, status = out or (np.empty(v.shape, v.dtype), np.empty(len(v), np.int32))
    status[...] = _OK
    solve_batch(_entries, call_of(function), (v, w), (f, status))
    return f, status


@kernel
def _product_block(start, count, arrays, work, const):
    """`arrays` are ``(n, call, v, w, f, status)``; a status that is no zero is left."""
    n, call, v, w, f, status = arrays
    row = work.row
    load_matrices(v, n, start, count, work, 0)
    load(w, start, count, work, work.w_at, n, n, n)
    _, lost, outside = arguments(work.w, n, work.x, call, const)
    overflow = values(work, n, call, const)
    for i in range(n):
        for j in range(n):
            work.a[i * row + j] = work.f[j] * work.v[i * row + j]
    multiply(work.b, work.a, row, 1, work.v, row, 1, row, n, True)
    fill_hermitian(work.b, n, row, lost, np.nan)
    store_hermitian(work, work.b, n, 2 * work.size, start, count, f)
    code = select(overflow, fill(work.x[0], _OVERFLOW), _OK)
    code = select(lost, _NOT_FINITE, code)
    work.tile[0] = select(outside, _DOMAIN, code)
    if any_lane(work.tile[0] != const.zero):
        for lane in range(count):
            if status[0, start + lane] == _OK:
                status[0, start + lane] = np.int32(work.floats[work.tile_at, lane])


def _build(width):
    solve = in_blocks(_product_block, width, products)

    def product_batch(
        start, stop, code, first, second, floor, domain, singular, v, w, f, status
    ):
        call = Call(code, first, second, floor, domain, singular)
        n = v.shape[1]
        views = as_rows(v), as_rows(w), as_rows(f), as_rows(status)
        solve(start, stop, n, v, w, (n, call, *views))

    return product_batch


def _signature(dtype, real):
    given = inputs(dtype, 3), inputs(real, 2)
    return *CALL, *given, outputs(dtype, 3), outputs(types.int32, 1)


_entries = Entries("spectral_product", _build, _signature)
