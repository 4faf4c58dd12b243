"""Allocate the three outputs of an engine."""

from collections.abc import Callable

import numpy as np


def allocate(
    empty: Callable, shape: tuple[int, int], dtype, *, eigenvectors: bool = True
):
    """Outputs of the engine contract, uninitialised.

    Parameters
    ----------
    empty : callable
        ``empty(shape, dtype)`` of an array library.
    shape : (batch, n)
    dtype : numpy.dtype
        Of the matrices.

    Returns
    -------
    w : (batch, n) in the real dtype; v : (batch, n, n) or None; status : (batch,) int32
    """
    batch, n = shape
    w = empty((batch, n), np.dtype(dtype).type(0).real.dtype)
    v = empty((batch, n, n), np.dtype(dtype)) if eigenvectors else None
    return w, v, empty((batch,), np.dtype("int32"))
