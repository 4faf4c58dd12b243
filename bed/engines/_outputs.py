"""Allocate the outputs of engines."""

from collections.abc import Callable

import numpy as np


def allocate(
    empty: Callable, shape: tuple[int, ...], dtype, *, eigenvectors: bool = True
):
    """Outputs of the engine contract, uninitialised.

    Parameters
    ----------
    empty : callable
        ``empty(shape, dtype)`` of an array library.
    shape : (batch, n), or any leading axes in place of the first
    dtype : numpy.dtype
        Of the matrices.

    Returns
    -------
    w : (batch, n) in the real dtype; v : (batch, n, n) or None; status : (batch,) int32
    """
    w = empty(shape, _REAL[dtype.char])
    v = empty((*shape, shape[-1]), dtype) if eigenvectors else None
    return w, v, empty(shape[:-1], _STATUS)


def allocate_reduced(empty: Callable, shape: tuple[int, ...], dtype):
    """The same for the reduction to tridiagonal form.

    Returns
    -------
    d : (batch, n), e : (batch, n - 1), both in the real dtype; q : (batch, n, n)
    """
    real, n = real_dtype(dtype), shape[-1]
    beside = (*shape[:-1], max(n - 1, 0))
    return empty(shape, real), empty(beside, real), empty((*shape, n), dtype)


def real_dtype(dtype) -> np.dtype:
    """The dtype of the eigenvalues."""
    return _REAL[np.dtype(dtype).char]


_REAL: dict[str, np.dtype] = {
    "f": np.dtype("f4"),
    "d": np.dtype("f8"),
    "F": np.dtype("f4"),
}
_REAL["D"] = _REAL["d"]
_STATUS = np.dtype("int32")
