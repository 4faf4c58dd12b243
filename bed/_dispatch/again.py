"""Calls like one before: small host arrays, of which little is left to decide.

What was found out on the way through `solve` is remembered: the compiled function, and
the shape and dtype of the results. A caller of one small matrix after another pays
for the way once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..engines import allocate
from .interop import Received
from .normalize import normalize_uplo
from .policy import AUTO, loaded

# Of so many shapes, dtypes and options.
MOST = 4096


class _Plan(NamedTuple):
    """`run` is an engine's ``prepared``; `shape` is that of the eigenvalues."""

    run: Callable
    shape: tuple[int, ...]
    leading: tuple[int, ...]
    dtype: np.dtype


_plans: dict[tuple, _Plan | None] = {}  # None: goes the whole way each time


def solve(
    a: np.ndarray, uplo: str, eigenvectors: bool, received: Received | None = None
) -> tuple | None:
    """The triple ``(w, v, status)``, or None if there was no such call before.

    The results are of NumPy, or of the library where `a` was received from.
    """
    plan = _plans.get((a.shape, a.dtype, uplo, eigenvectors))
    if plan is None:
        return None
    flags = a.flags
    if not (flags.c_contiguous and flags.aligned):
        return None
    run, shape, leading, dtype = plan
    results = w, v, status = allocate(np.empty, shape, dtype, eigenvectors=eigenvectors)
    if leading:
        run(a, w, v, status)
    else:
        run(a[None], w[None], None if v is None else v[None], status[None])
    return results if received is None else received.close(results, leading)


def remember(a: np.ndarray, uplo: str, eigenvectors: bool) -> None:
    """Remember what a call that was solved by the engine of the table has used."""
    key = a.shape, a.dtype, uplo, eigenvectors
    if key not in _plans:
        if len(_plans) >= MOST:
            _plans.clear()
        _plans[key] = _plan(a, normalize_uplo(uplo), eigenvectors)


def _plan(a: np.ndarray, uplo: str, eigenvectors: bool) -> _Plan | None:
    """For a matrix or one axis of them, in a dtype that is computed as it is."""
    shape, dtype = a.shape, a.dtype
    if not (a.size and a.ndim in (2, 3) and dtype.char in "fdFD" and dtype.isnative):
        return None
    batch, n = shape[0] if a.ndim == 3 else 1, shape[-1]
    engine, _ = loaded(n, dtype, "cpu", eigenvectors, AUTO)
    if not engine.prepares:
        return None
    run = engine.load("prepared")(batch, n, dtype, uplo, eigenvectors)
    if run is None:
        return None
    return _Plan(run, shape[:-1], shape[:-2], dtype)


def forget() -> None:
    """As if there were no calls before."""
    _plans.clear()
