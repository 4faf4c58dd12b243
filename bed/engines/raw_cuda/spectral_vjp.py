"""Gradients of functions of matrices, and of eigenvalues and eigenvectors."""

import math

import cupy
import numpy as np

from bed._derivative.method import CUTOFF
from bed._functions import IDENTITY

from . import _launch
from ._spectral_layouts import vjp
from .spectral import parameters

# Values of bed::Kind in src/gradient.cuh.
OF_FUNCTION, OF_DIFFERENCES, OF_EIGH = range(3)


def spectral_vjp(w, v, g, function, differences=None, *, out=None):
    """V (L ∘ (Vᴴ herm(g) V)) Vᴴ of CuPy arrays; see the contract in `bed.engines`."""
    if differences is None:
        return _gradient(w, v, g, None, OF_FUNCTION, function, out)
    return _gradient(w, v, g, differences, OF_DIFFERENCES, function, out)


def eigh_vjp(w, v, grad_w, grad_v, *, out=None):
    """The gradient of a loss of `w` and `v`; see the contract in `bed.engines`."""
    return _gradient(w, v, grad_v, grad_w, OF_EIGH, IDENTITY, out)


def _gradient(w, v, g, beside, kind, function, out):
    """One launch; `beside` are the differences, or the gradient of eigenvalues."""
    batch, n = w.shape
    layout = vjp(n, v.dtype, _launch.shared_limit_of(w))
    cutoff = CUTOFF * math.sqrt(n) * float(np.finfo(v.dtype).eps)
    with _launch.on_device(w):
        gradient = cupy.empty(v.shape, v.dtype) if out is None else out
        _launch.launch(
            layout, batch,
            w, *_launch.strides(w, 2), v, *_launch.strides(v, 3),
            g, *_launch.strides(g, 3), beside, *_launch.strides(beside, 3),
            gradient, np.int64(batch), np.int32(n), np.int32(layout.matrices),
            np.int32(kind), np.float64(cutoff), *parameters(function, n, v.dtype),
        )  # fmt: skip
    return gradient
