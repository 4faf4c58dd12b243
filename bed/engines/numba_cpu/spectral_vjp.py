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
    load_rows,
    mirror,
    multiply,
    product_back,
    products,
    store_hermitian,
)
from ._tasks import solve_batch


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
    """`arrays` are ``(call, v, w, g, given, out)``; `given` is empty for closed forms."""
    call, v, w, g, given, out = arrays
    n, row, size = v.shape[1], work.row, work.size
    load(v, start, count, work, 0)
    load(g, start, count, work, size)
    load_rows(w, start, count, work, work.w_at)
    used = hermitian_part(work.a, n, row, const)
    # (G V)ᵀ, then Vᴴ G V: it is Hermitian, and so is its own conjugated transpose.
    multiply(work.b, work.v, 1, row, work.a, 1, row, row, n, False)
    multiply(work.a, work.v, 1, row, work.b, row, 1, row, n, True)
    mirror(work.a, n, row)
    lift, lost, _ = arguments(work.w, n, work.x, call, const)
    if given.size > 0:
        load(given, start, count, work, 2 * size)
        for i in range(n):
            for j in range(n):
                at = i * row + j
                work.a[at] = work.b[at].real * work.a[at]
    else:
        multiply_by_differences(work.a, work, n, call, lift, const)
    product_back(work, n)
    fill_hermitian(work.a, n, row, lost, np.nan)
    fill_hermitian(work.a, n, row, ~used, const.zero)
    store_hermitian(work, size, start, count, out, const)


def _build(width):
    solve = in_blocks(_vjp_block, width, products)

    def vjp_batch(
        start, stop, code, first, second, floor, domain, singular, v, w, g, given, out
    ):
        call = Call(code, first, second, floor, domain, singular)
        solve(start, stop, v.shape[1], v, w, (call, v, w, g, given, out))

    return vjp_batch


def _signature(dtype, real):
    matrices, values = inputs(dtype, 3), inputs(real, 2)
    return *CALL, matrices, values, matrices, inputs(real, 3), outputs(dtype, 3)


_entries = Entries("spectral_vjp", _build, _signature)
