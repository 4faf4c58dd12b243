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
    w = empty((batch, n), _REAL[np.dtype(dtype).char])
    v = empty((batch, n, n), dtype) if eigenvectors else None
    return w, v, empty((batch,), _STATUS)


_REAL = {"f": np.dtype("f4"), "d": np.dtype("f8"), "F": np.dtype("f4")}
_REAL["D"] = _REAL["d"]
_STATUS = np.dtype("int32")
