"""Gradients of functions of matrices and of the decomposition, by stages.

    V [L ∘ (Vᴴ herm(G) V)] Vᴴ              of a function, differences L
    V [diag(w̄) + F ∘ (X − Xᴴ)/2] Vᴴ        of the decomposition, X = Vᴴ V̄

One kernel a product, from the inside to the outside; a block of threads works on one
matrix after another.
"""

from math import sqrt

import cupy
import numpy as np
from numba import cuda

from bed._derivative.method import CUTOFF
from bed._functions import IDENTITY
from bed._status import Status
from bed.engines._constants import constants

from . import _functions, _launch
from ._block import MAX_THREADS, any_thread, thread_count, thread_index
from ._compile import device, kernel
from .spectral import arguments, fill_hermitian, magnitudes, parameters, store_hermitian

_OK = int(Status.OK)

_difference = _functions.difference
_clamp_difference = _functions.clamp_difference


def spectral_vjp(w, v, g, function, differences=None, *, out=None):
    """V (L ∘ (Vᴴ herm(g) V)) Vᴴ of CuPy arrays; see the contract in `bed.engines`.

    Besides its output a call allocates as much again, an array of (batch, n) and two
    of (batch,).
    """
    given = differences is not None
    with _launch.on_device(w):
        out = cupy.empty(v.shape, v.dtype) if out is None else out
        status = cupy.empty(w.shape[:1], np.dtype("int32"))
        judged = function
        x, lift = arguments(w, judged, status, solved=False)
        y = cupy.empty(v.shape, v.dtype)
        _run(multiply, g, v, y, True, constants(v.dtype))
        _run(
            differences_times, v, w, x, lift, y, *parameters(function, w.dtype),
            not given and function.floor >= 0,
            differences if given else lift[:, None, None], given,
            out, constants(v.dtype),
        )  # fmt: skip
        _back(v, y, status, (g,), out)
    return out


def eigh_vjp(w, v, grad_w, grad_v, *, out=None):
    """The gradient of a loss of `w` and `v`; see the contract in `bed.engines`.

    It allocates as `spectral_vjp` does.
    """
    given = [x for x in (grad_w, grad_v) if x is not None]
    with _launch.on_device(w):
        out = cupy.empty(v.shape, v.dtype) if out is None else out
        status = cupy.empty(w.shape[:1], np.dtype("int32"))
        arguments(w, IDENTITY, status, solved=False)
        cutoff = CUTOFF * sqrt(w.shape[1]) * float(np.finfo(w.dtype).eps)
        _run(
            gaps_times, v, w, w if grad_w is None else grad_w, grad_w is not None,
            v if grad_v is None else grad_v, grad_v is not None,
            w.dtype.type(cutoff), out, constants(v.dtype),
        )  # fmt: skip
        _back(v, cupy.empty(v.shape, v.dtype), status, given, out)
    return out


def _run(stage, *rest) -> None:
    batch, n = rest[0].shape[0], rest[0].shape[-1]
    _launch.launch(stage, _launch.grid(batch), _launch.square_block(n), 0, *rest)


def _back(v, y, status, cotangents, out) -> None:
    """V M Vᴴ with M in `out`; zero where the cotangents are, else NaN by the status."""
    used, const = cupy.zeros(v.shape[:1], np.dtype("int32")), constants(v.dtype)
    for x in cotangents:
        _run(notice, x if x.ndim == 3 else x[:, None, :], used)
    _run(multiply, v, out, y, False, const)
    _run(multiply_back, y, v, used, status, out, const)


@kernel
def notice(x, used):
    """Set `used` where not all of a matrix, (batch, rows, columns), is zero."""
    batch, rows, columns = x.shape
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        mine = False
        for e in range(thread_index(), rows * columns, thread_count()):
            if x[b, e // columns, e % columns] != 0:
                mine = True
        if any_thread(mine) and thread_index() == 0:
            used[b] = 1


@kernel
def multiply(a, b, c, hermitian, const):
    """C = A B, or herm(A) B."""
    batch, n, _ = c.shape
    for m in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
                total = _left(a[m], i, 0, hermitian, const) * b[m, 0, j]
                for k in range(1, n):
                    total += _left(a[m], i, k, hermitian, const) * b[m, k, j]
                c[m, i, j] = total


@device
def _left(a, i, k, hermitian, const):
    if hermitian:
        return const.half * a[i, k] + const.half * a[k, i].conjugate()
    return a[i, k]


@device
def _projected(v, y, i, j):
    """Element (i, j) of Vᴴ Y."""
    total = v[0, i].conjugate() * y[0, j]
    for k in range(1, v.shape[0]):
        total += v[k, i].conjugate() * y[k, j]
    return total


@kernel
def differences_times(
    v, w, x, lift, y, function, p, q, lifted, differences, given, m, const
):
    """M = L ∘ Vᴴ Y, Hermitian.

    Parameters
    ----------
    w, x : (batch, n)
        Eigenvalues, and what f is taken of in their place.
    lift : (batch,)
        The floor, if `lifted`.
    differences : (batch, n, n)
        L, if `given`.
    """
    batch, n = w.shape
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
                if given:
                    slope = differences[b, i, j]
                else:
                    slope = const.one
                    if lifted:
                        a, c = max(w[b, i], w[b, j]), min(w[b, i], w[b, j])
                        slope = _clamp_difference(a, c, lift[b], const.huge, const)
                    if slope != const.zero:
                        slope *= _difference(function, x[b, i], x[b, j], p, q, const)
                store_hermitian(m[b], i, j, slope * _projected(v[b], y[b], i, j))


@kernel
def gaps_times(v, w, grad_w, with_w, grad_v, with_v, cutoff, m, const):
    """M = diag(w̄) + F ∘ (X − Xᴴ)/2 with X = Vᴴ V̄; what is not there is zero."""
    batch, n = w.shape
    found = cuda.shared.array(MAX_THREADS, dtype=w.dtype)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        _, size = magnitudes(w[b], n, found, const)
        size = size if size > const.zero else const.one
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
                x = const.zero * const.i
                gap = (w[b, j] - w[b, i]) / size
                if i == j and with_w:
                    x = x + grad_w[b, i]
                elif i != j and with_v and abs(gap) > cutoff:
                    x = _projected(v[b], grad_v[b], i, j)
                    x = x - _projected(v[b], grad_v[b], j, i).conjugate()
                    x = x * (const.half / gap / size)
                store_hermitian(m[b], i, j, x)


@kernel
def multiply_back(y, v, used, status, out, const):
    """Y Vᴴ, Hermitian; zero where nothing is used, else NaN where there is a status."""
    batch, n, _ = out.shape
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
                if used[b] == 0:
                    fill_hermitian(out[b], i, j, const.zero)
                    continue
                if status[b] != _OK:
                    fill_hermitian(out[b], i, j, np.nan)
                    continue
                total = y[b, i, 0] * v[b, j, 0].conjugate()
                for k in range(1, n):
                    total += y[b, i, k] * v[b, j, k].conjugate()
                store_hermitian(out[b], i, j, total)
