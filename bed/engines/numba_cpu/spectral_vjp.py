"""Derivatives of functions of matrices: V (L ∘ (Vᴴ G V)) Vᴴ, a matrix in each lane."""

import numpy as np

from bed._functions import Spectral

from ._blocks import in_blocks
from ._compile import kernel
from ._entries import Entries, inputs, outputs
from ._functions import CALL, Call, arguments, call_of, multiply_by_differences
from ._products import (
    fill_hermitian,
    hermitian_part,
    load,
    load_matrices,
    mirror,
    multiply,
    product_back,
    products,
    store_hermitian,
)
from ._tasks import solve_batch
from ._vector_array import as_rows


def spectral_vjp(w, v, g, function: Spectral, differences=None, *, out=None):
    """The derivative of a function of matrices; see the contract in `bed.engines`."""
    if out is None:
        out = np.empty(v.shape, v.dtype)
    given = _NONE[w.dtype.char] if differences is None else differences
    solve_batch(_entries, call_of(function), (v, w, g, given), (out,))
    return out


_NONE = {kind: np.empty((0, 0, 0), kind) for kind in "fd"}


@kernel
def _vjp_block(start, count, arrays, work, const):
    """`arrays` are ``(n, call, v, w, g, given, is_given, out)``."""
    n, call, v, w, g, given, is_given, out = arrays
    row, size = work.row, work.size
    load_matrices(v, n, start, count, work, 0)
    load_matrices(g, n, start, count, work, 1)
    load(w, start, count, work, work.w_at, n, n, n)
    used = hermitian_part(work.a, n, row, const)
    # (G V)ᵀ, then Vᴴ G V: it is Hermitian, and so is its own conjugated transpose.
    multiply(work.b, work.v, 1, row, work.a, 1, row, row, n, False)
    multiply(work.a, work.v, 1, row, work.b, row, 1, row, n, True)
    mirror(work.a, n, row)
    lift, lost, _ = arguments(work.w, n, work.x, call, const)
    if is_given:
        load(given, start, count, work, 2 * size, n * n, n, row)
        for i in range(n):
            for j in range(n):
                at = i * row + j
                work.a[at] = work.vectors[2 * size + at] * work.a[at]
    else:
        multiply_by_differences(work.a, work, n, call, lift, const)
    product_back(work, n)
    fill_hermitian(work.a, n, row, lost, np.nan)
    fill_hermitian(work.a, n, row, ~used, const.zero)
    store_hermitian(work, work.a, n, size, start, count, out)


def _build(width):
    solve = in_blocks(_vjp_block, width, products)

    def vjp_batch(
        start, stop, code, first, second, floor, domain, singular, v, w, g, given, out
    ):
        call = Call(code, first, second, floor, domain, singular)
        n, is_given = v.shape[1], given.size > 0
        views = as_rows(v), as_rows(w), as_rows(g), as_rows(given)
        arrays = n, call, *views, is_given, as_rows(out)
        solve(start, stop, n, v, w, arrays)

    return vjp_batch


def _signature(dtype, real):
    matrices, values = inputs(dtype, 3), inputs(real, 2)
    return *CALL, matrices, values, matrices, inputs(real, 3), outputs(dtype, 3)


_entries = Entries("spectral_vjp", _build, _signature)
