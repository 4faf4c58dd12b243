"""Allocate the outputs of engines."""

from collections.abc import Callable

import numpy as np

from .._status import Status


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


def allocate_extremal(empty: Callable, shape: tuple[int, ...], k: int, dtype):
    """The same for k pairs from an end of the spectrum.

    Returns
    -------
    w : (batch, k) in the real dtype; v : (batch, n, k); status : (batch,) int32
    """
    w = empty((*shape[:-1], k), real_dtype(dtype))
    return w, empty((*shape, k), dtype), empty(shape[:-1], _STATUS)


def ends_at(n: int, k: int, which: str) -> slice:
    """Where k eigenvalues of an end are among n ascending ones."""
    return slice(n - k, n) if which == "largest" else slice(0, k)


def forgive_overflow(results: tuple, k: int, which: str) -> None:
    """Let the status of `eigh` say no more that an eigenvalue overflows, if none does
    of those at an end of the spectrum.
    """
    w, _, status = results
    part = w[:, ends_at(w.shape[1], k, which)]
    status *= (status != _OVERFLOW) | np.isinf(part).any(axis=1)


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
_OVERFLOW = int(Status.OVERFLOW)
