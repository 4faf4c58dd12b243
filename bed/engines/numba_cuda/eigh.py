"""The stages of the decomposition, one launch each, for batches of CuPy arrays.

The state between the stages is in the outputs and in arrays of (batch, n) and (batch,)
that a call allocates.
"""

import cupy
import numpy as np

from bed.engines._constants import constants
from bed.engines._outputs import allocate, allocate_reduced

from . import _launch, qr_iteration
from .back_transform import back_transform
from .tridiagonalize import tridiagonalize as reduce


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of CuPy arrays; see the contract in `bed.engines`.

    Householder tridiagonalisation, backward accumulation and implicit QR sweeps with
    the Wilkinson shift. Besides its outputs a call allocates diagonals, off-diagonals
    and factors, (batch, n) each, and without eigenvectors up to 1024 scratch matrices,
    whatever the batch. The first call for a dtype compiles.
    """
    batch, n, _ = a.shape
    with _launch.on_device(a):
        w, v, status = out or allocate(
            cupy.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
        )
        d = cupy.empty((batch, n), w.dtype)
        e = cupy.empty((batch, n - 1), w.dtype)
        exponent = cupy.empty((batch,), np.dtype("int32"))
        _reduce(a, uplo, v if eigenvectors else None, d, e, exponent, unscale=False)
        _diagonalize(
            d, e, exponent, w, v if eigenvectors else None, status, start=False
        )
    return w, v if eigenvectors else None, status


def tridiagonalize(a, uplo="L", *, out=None):
    """Reduce a batch of CuPy arrays to real tridiagonal form, a = q T qᴴ.

    Parameters
    ----------
    a, uplo
        As for `eigh`.
    out : tuple of arrays, optional
        ``(d, e, q)`` to fill, in C order.

    Returns
    -------
    d : (batch, n) in the real dtype
        Diagonal of T.
    e : (batch, n - 1) in the real dtype
        Off-diagonal entries of T, of either sign. Entries of `d` and `e` that are
        larger than the largest number are infinite.
    q : (batch, n, n)
        A matrix with NaN or Inf has NaN in all three.
    """
    batch, n, _ = a.shape
    with _launch.on_device(a):
        d, e, q = out or allocate_reduced(cupy.empty, (batch, n), a.dtype)
        exponent = cupy.empty((batch,), np.dtype("int32"))
        _reduce(a, uplo, q, d, e, exponent, unscale=True)
    return d, e, q


def eigh_tridiagonal(d, e, *, eigenvectors=True, out=None):
    """Solve a batch of real symmetric tridiagonal matrices in CuPy arrays.

    Parameters
    ----------
    d : (batch, n), float32 or float64
        Diagonals. Never written, as `e`.
    e : (batch, n - 1), of the same dtype
        Off-diagonal entries.
    eigenvectors, out
        As for `eigh`.

    Returns
    -------
    w, v, status
        As of `eigh`, and with its promises; `v` is real.
    """
    with _launch.on_device(d):
        w, v, status = out or allocate(
            cupy.empty, d.shape, d.dtype, eigenvectors=eigenvectors
        )
        v = v if eigenvectors else None
        exponent = cupy.zeros((len(d),), np.dtype("int32"))
        _diagonalize(d, e, exponent, w, v, status, start=True)
    return w, v, status


def _reduce(a, uplo, q, d, e, exponent, *, unscale) -> None:
    """T, and Q unless `q` is None.

    The upper triangle is the lower one with rows and columns exchanged, conjugated.
    """
    batch, n, _ = a.shape
    const = constants(a.dtype)
    tau = cupy.empty((batch, n), a.dtype)
    shared = _launch.shared_bytes(n, a.dtype)
    blocks, block = _launch.grid(batch), _launch.square_block(n)
    if q is None:
        blocks = _launch.grid(batch, _launch.SCRATCH_BLOCKS)
        h = cupy.empty((1 if shared else blocks, n * n), a.dtype)
    else:
        h = q.reshape(batch, n * n)
    if uplo == "U":
        a = a.swapaxes(1, 2)
    _launch.launch(
        reduce, blocks, block, shared,
        a, uplo == "U", h, d, e, tau, exponent, unscale, shared > 0, const,
    )  # fmt: skip
    if q is not None:
        _launch.launch(
            back_transform, blocks, block, shared, h, d, tau, shared > 0, const
        )


def _diagonalize(d, e, exponent, w, v, status, *, start) -> None:
    """Eigenvalues of T, and eigenvectors onto `v` unless that is None."""
    batch, n = d.shape
    if v is None:
        # The chain of rotations is the work of one thread.
        z, planes, block, shared = w, 1, _launch.line_block(1), 0
    else:
        z = v.reshape(batch, n * n).view(d.dtype)
        planes = v.dtype.itemsize // d.dtype.itemsize
        block, shared = (
            _launch.line_block(n * planes),
            _launch.shared_bytes(n, v.dtype),
        )
    _launch.launch(
        qr_iteration.qr_iteration, _launch.grid(batch), block, shared,
        d, e, exponent, z, planes, w, status,
        qr_iteration.SWEEPS_PER_EIGENVALUE * n,
        start, v is not None, shared > 0, constants(d.dtype),
    )  # fmt: skip
