"""Functions of matrices, V diag(f(w)) Vᴴ, by stages.

First what each eigenvalue stands for (`bed._functions`), then the product. A block of
threads works on one matrix after another, in the memory where it is.
"""

from math import isinf, isnan

import cupy
import numpy as np
from numba import cuda

from bed._functions import BAND, Spectral
from bed._status import Status
from bed.engines._constants import constants
from bed.engines._outputs import allocate, real_dtype

from . import _functions, _launch
from ._block import MAX_N, MAX_THREADS, any_thread, largest, thread_count, thread_index
from ._compile import device, kernel
from .eigh import eigh

_OK, _OVERFLOW = int(Status.OK), int(Status.OVERFLOW)
_NOT_FINITE, _DOMAIN = int(Status.NOT_FINITE), int(Status.DOMAIN)

_value = _functions.value


def spectral(a, uplo, function, *, out=None):
    """Functions of CuPy arrays; see the contract in `bed.engines`.

    Besides what `eigh` does, a call allocates its eigenvalues and eigenvectors where
    they are not kept, and two arrays of (batch, n) and (batch,).
    """
    batch, n, _ = a.shape
    with _launch.on_device(a):
        if out is None:
            w, v, status = allocate(cupy.empty, (batch, n), a.dtype)
            f = cupy.empty((batch, n, n), a.dtype)
        else:
            f, w, v, status = out
        kept = w, v
        w = cupy.empty((batch, n), real_dtype(a.dtype)) if w is None else w
        v = cupy.empty((batch, n, n), a.dtype) if v is None else v
        eigh(a, uplo, out=(w, v, status))
        _product(w, v, function, f, status, solved=True)
    return f, *kept, status


def spectral_product(w, v, function, *, out=None):
    """V diag(f(w)) Vᴴ of CuPy arrays; see the contract in `bed.engines`.

    Besides its outputs a call allocates two arrays of (batch, n) and (batch,).
    """
    batch, n = w.shape
    with _launch.on_device(w):
        f, status = out or (
            cupy.empty((batch, n, n), v.dtype),
            cupy.empty((batch,), np.dtype("int32")),
        )
        _product(w, v, function, f, status, solved=False)
    return f, status


def _product(w, v, function, f, status, *, solved) -> None:
    batch, n = w.shape
    x, _ = arguments(w, function, status, solved=solved)
    _launch.launch(
        product, _launch.grid(batch), _launch.square_block(n), 0,
        x, v, *parameters(function, w.dtype), f, status, constants(w.dtype),
    )  # fmt: skip


def arguments(w, function: Spectral, status, *, solved):
    """What f is taken of, (batch, n), and the floor of every matrix, (batch,).

    `status` returns DOMAIN or NOT_FINITE for matrices without; of `solved` ones it is
    that of the eigenvalues, and stays where these are NaN.
    """
    batch, n = w.shape
    x, lift = cupy.empty((batch, n), w.dtype), cupy.empty((batch,), w.dtype)
    unit = n * float(np.finfo(w.dtype).eps)
    real = w.dtype.type
    _launch.launch(
        meant, _launch.grid(batch), _launch.square_block(n), 0,
        w, function.has_domain, function.is_singular,
        real(function.floor * unit if function.floor >= 0 else -1), real(BAND * unit),
        solved, x, lift, status, constants(w.dtype),
    )  # fmt: skip
    return x, lift


def parameters(function: Spectral, dtype) -> tuple:
    """A function and its parameters, as kernels take them."""
    first, second = (dtype.type(x) for x in (function.first, function.second))
    return int(function.function), first, second


@kernel
def meant(w, has_domain, is_singular, floor, band, solved, x, lift, status, const):
    """What the eigenvalues of every matrix stand for.

    Parameters
    ----------
    w : (batch, n)
    has_domain, is_singular : bool
        Of the function.
    floor, band : float
        In the largest magnitude; a negative floor is none.
    solved : bool
        Whether `status` is that of the eigenvalues.
    x : (batch, n)
    lift : (batch,)
        Returns the floor of each matrix.
    status : (batch,) int32
    """
    batch, n = w.shape
    found = cuda.shared.array(MAX_THREADS, dtype=w.dtype)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        unknown, size = magnitudes(w[b], n, found, const)
        raised = floor * size
        outside = False
        for i in range(thread_index(), n, thread_count()):
            t = w[b, i]
            if floor >= const.zero:
                t = raised if t < raised else t
            elif has_domain and t < const.zero and t >= -band * size:
                t = const.zero
            x[b, i] = t
            if has_domain and t < const.zero:
                outside = True
            if is_singular and t == const.zero:
                outside = True
        outside = any_thread(outside)
        if outside or unknown:  # nothing to take f of, and nothing that it may fail on
            for i in range(thread_index(), n, thread_count()):
                x[b, i] = const.one
        if thread_index() == 0:
            lift[b] = raised
            if not unknown:
                status[b] = _DOMAIN if outside else _OK
            elif not solved:
                status[b] = _NOT_FINITE


@device
def magnitudes(w, n, found, const):
    """Whether one of n numbers is NaN, and the largest magnitude of the others."""
    unknown, size = False, const.zero
    for i in range(thread_index(), n, thread_count()):
        if isnan(w[i]):
            unknown = True
        else:
            size = max(size, abs(w[i]))
    size = largest(size, found)
    return any_thread(unknown), size


@kernel
def product(x, v, function, p, q, f, status, const):
    """V diag(f(x)) Vᴴ of every matrix, NaN where there is a status already.

    Parameters
    ----------
    x : (batch, n)
    v : (batch, n, n)
    function : int
        A `Function`; `p` and `q` are its parameters.
    f : (batch, n, n)
    status : (batch,) int32
        Returns OVERFLOW where a value is infinite.
    """
    batch, n = x.shape
    values = cuda.shared.array(MAX_N, dtype=x.dtype)
    for b in range(cuda.blockIdx.x, batch, cuda.gridDim.x):
        failed = status[b] != _OK
        overflow = False
        for i in range(thread_index(), n, thread_count()):
            values[i] = _value(function, x[b, i], p, q, const)
            if isinf(values[i]):
                overflow = True
        overflow = any_thread(overflow) and not failed
        for i in range(cuda.threadIdx.y, n, cuda.blockDim.y):
            for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
                if failed:
                    fill_hermitian(f[b], i, j, np.nan)
                    continue
                total = values[0] * v[b, i, 0] * v[b, j, 0].conjugate()
                for k in range(1, n):
                    total += values[k] * v[b, i, k] * v[b, j, k].conjugate()
                store_hermitian(f[b], i, j, total)
        if overflow and thread_index() == 0:
            status[b] = _OVERFLOW
        cuda.syncthreads()  # before the next matrix uses the same memory


@device
def store_hermitian(m, i, j, x):
    """Store an element, i ≥ j, and its mirror image."""
    if i == j:
        m[i, i] = x.real
    else:
        m[i, j] = x
        m[j, i] = x.conjugate()


@device
def fill_hermitian(m, i, j, number):
    """Set an element and its mirror image to a real number."""
    m[i, j] = number
    m[j, i] = number
