"""numpy.linalg.eigh in blocks: threads over the batch, one BLAS thread in each."""

import numpy as np

from bed.engines._float_mode import default_float_mode
from bed.engines._library import finish, prepare
from bed.engines._outputs import allocate
from bed.engines._threads import for_blocks

from ._blas import one_blas_thread, one_blas_thread_here

# Where NumPy defines its functions. `np.linalg.eigh` may be bed's by now, put there by
# code that takes bed in NumPy's place, and would call itself.
_numpy = getattr(np.linalg, "_linalg", np.linalg)

# Entries in a block: large enough that the calls around LAPACK do not count, small
# enough that every thread gets some.
BLOCK_ENTRIES = 1 << 16


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of host arrays; see the contract in `bed.engines`.

    LAPACK's ``syevd``/``heevd`` (NumPy), whose threads inside BLAS are held at one: on
    batches of small matrices they wait for each other longer than they work.
    """
    batch, n, _ = a.shape
    w, v, status = out or allocate(
        np.empty, (batch, n), a.dtype, eigenvectors=eigenvectors
    )

    def solve(start: int, stop: int) -> None:
        part = slice(start, stop)
        values, vectors = w[part], None if v is None else v[part]
        # All three are the thread's own. The status tells what went wrong, and on the
        # way there over- and underflow, NaN and Inf are met as a matter of course.
        with (
            one_blas_thread_here(),
            default_float_mode(),
            np.errstate(all="ignore"),
        ):
            scaled, exponent, finite = prepare(np, a[part], uplo)
            converged = _solve_block(scaled, uplo, values, vectors)
            finish(np, values, vectors, status[part], exponent, finite, converged)

    with one_blas_thread():
        for_blocks(solve, batch, max(1, BLOCK_ENTRIES // (n * n)))
    return w, v, status


def _solve_block(scaled, uplo, w, v) -> np.ndarray:
    """Fill w and v; returns which matrices converged, ``(batch,)``."""
    converged = np.ones(len(scaled), dtype=bool)
    try:
        _call(scaled, uplo, w, v)
    except np.linalg.LinAlgError:
        # NumPy raises for the whole block: one at a time finds the matrix meant.
        for i in range(len(scaled)):
            try:
                _call(scaled[i], uplo, w[i], None if v is None else v[i])
            except np.linalg.LinAlgError:
                converged[i] = False
    return converged


def _call(scaled, uplo, w, v) -> None:
    if v is None:
        w[...] = _numpy.eigvalsh(scaled, UPLO=uplo)
    else:
        w[...], v[...] = _numpy.eigh(scaled, UPLO=uplo)
