"""Functions of a batch of matrices: the decomposition, and then V diag(f(w)) Vᴴ."""

import cupy
import numpy as np

from bed._functions import BAND, Spectral
from bed.engines._outputs import allocate, real_dtype

from . import _launch
from ._spectral_layouts import product
from .eigh import eigh, plan


def spectral(a, uplo, function, *, out=None):
    """Functions of CuPy arrays; see the contract in `bed.engines`.

    Two launches. Besides its outputs a call allocates the eigenvalues, where they are
    not kept; eigenvectors that are not kept have the place of the result.
    """
    batch, n, _ = a.shape
    with _launch.on_device(a):
        if out is None:
            dtype = plan(n, a.dtype, True)[1]
            w, v, status = allocate(cupy.empty, (batch, n), dtype)
            f = cupy.empty(v.shape, dtype)
        else:
            f, w, v, status = out
        solved = (
            cupy.empty((batch, n), real_dtype(f.dtype)) if w is None else w,
            f if v is None else v,
            status,
        )
        eigh(a, uplo, out=solved)
        _product(*solved[:2], function, f, status, solved=status)
    return f, w, v, status


def spectral_product(w, v, function, *, out=None):
    """V diag(f(w)) Vᴴ of CuPy arrays; see the contract in `bed.engines`."""
    with _launch.on_device(w):
        f, status = out or (
            cupy.empty(v.shape, v.dtype),
            cupy.empty(v.shape[:1], np.dtype("int32")),
        )
        _product(w, v, function, f, status, solved=None)
    return f, status


def _product(w, v, function, f, status, *, solved):
    """One launch; `solved` is the status of the eigenvalues, which may be `status`."""
    batch, n = w.shape
    layout = product(n, v.dtype, _launch.shared_limit_of(w))
    _launch.launch(
        layout, batch,
        w, *_launch.strides(w, 2), v, *_launch.strides(v, 3),
        f, status, solved, np.int64(batch), np.int32(n), np.int32(layout.matrices),
        *parameters(function, n, v.dtype),
    )  # fmt: skip


def parameters(function: Spectral, n: int, dtype: np.dtype) -> tuple:
    """The function as BED_SPECTRAL_PARAMETERS (src/spectrum.cuh)."""
    unit = n * float(np.finfo(dtype).eps)
    return (
        np.int32(function.function),
        np.float64(function.first),
        np.float64(function.second),
        np.float64(function.floor * unit if function.floor >= 0 else -1),
        np.float64(BAND * unit if function.has_domain else -1),
        np.int32(function.is_singular),
    )
