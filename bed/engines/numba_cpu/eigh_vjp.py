"""The gradient of the decomposition: V (F ∘ skew(Vᴴ V̄) + diag w̄) Vᴴ, by lanes.

The exact one of `bed._derivative.eigh`, with the cutoff of `bed._derivative.gaps`.
"""

from math import sqrt

import numpy as np

from bed._derivative.method import CUTOFF

from ._blocks import in_blocks
from ._compile import kernel
from ._complex import conj, number
from ._entries import Entries, inputs, outputs
from ._products import (
    fill_hermitian,
    load,
    load_matrices,
    multiply,
    product_back,
    products,
    store_hermitian,
)
from ._simd import fill, maximum, select
from ._tasks import solve_batch
from ._vector_array import as_rows


def eigh_vjp(w, v, grad_w, grad_v, *, out=None):
    """The gradient of a loss of w and v; see the contract in `bed.engines`."""
    if out is None:
        out = np.empty(v.shape, v.dtype)
    if grad_w is None:
        grad_w = np.empty((0, 0), w.dtype)
    if grad_v is None:
        grad_v = np.empty((0, 0, 0), v.dtype)
    solve_batch(_entries, (), (v, w, grad_w, grad_v), (out,))
    return out


@kernel
def _vjp_block(start, count, arrays, work, const):
    """`arrays` are ``(n, v, w, grad_w, grad_v, has_w, has_v, out)``."""
    n, v, w, grad_w, grad_v, has_w, has_v, out = arrays
    row, size = work.row, work.size
    load_matrices(v, n, start, count, work, 0)
    load(w, start, count, work, work.w_at, n, n, n)
    largest = fill(work.w[0], 0)
    lost = largest != const.zero
    used = lost
    for i in range(n):
        largest = maximum(largest, abs(work.w[i]))
        lost = lost | (work.w[i] != work.w[i])
    largest = select(largest == const.zero, const.one, largest)
    if has_v:
        load_matrices(grad_v, n, start, count, work, 1)
        for i in range(n):
            for j in range(n):
                x = work.a[i * row + j]
                used = used | (x.real != const.zero) | (x.imag != const.zero)
        # Vᴴ V̄, conjugated
        multiply(work.b, work.v, 1, row, work.a, 1, row, row, n, False)
        cutoff = fill(largest, CUTOFF * sqrt(n)) * const.eps * const.two
        for i in range(n):
            for j in range(i):
                gap = (work.w[j] - work.w[i]) / largest
                inverse = select(abs(gap) > cutoff, const.half / gap / largest, 0)
                x, y = conj(work.b[i * row + j]), -work.b[j * row + i]
                x = inverse * (x + y)
                work.a[i * row + j], work.a[j * row + i] = x, conj(x)
    else:
        for i in range(n * row):
            work.a[i] = number(work.a, const.zero, const.zero)
    if has_w:
        load(grad_w, start, count, work, work.x_at, n, n, n)
    for i in range(n):
        real = work.x[i] if has_w else fill(largest, 0)
        used = used | (real != const.zero)
        work.a[i * (row + 1)] = number(work.a, real, const.zero)
    product_back(work, n)
    fill_hermitian(work.a, n, row, lost, np.nan)
    fill_hermitian(work.a, n, row, ~used, const.zero)
    store_hermitian(work, work.a, n, size, start, count, out)


def _build(width):
    solve = in_blocks(_vjp_block, width, products)

    def eigh_vjp_batch(start, stop, v, w, grad_w, grad_v, out):
        n = v.shape[1]
        has_w, has_v = grad_w.size > 0, grad_v.size > 0
        views = as_rows(v), as_rows(w), as_rows(grad_w), as_rows(grad_v)
        solve(start, stop, n, v, w, (n, *views, has_w, has_v, as_rows(out)))

    return eigh_vjp_batch


def _signature(dtype, real):
    matrices, values = inputs(dtype, 3), inputs(real, 2)
    return matrices, values, values, matrices, outputs(dtype, 3)


_entries = Entries("eigh_vjp", _build, _signature)
