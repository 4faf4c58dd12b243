"""The one place that decides whether a decomposition is right."""

import numpy as np
import pytest

from bed import engines
from bed._accuracy import measure

# Errors allowed, in n·eps of the size of the matrix: two to four times what a good
# solver shows, and far below what a wrong one does.
TOLERANCE = 8


def tolerance(n, dtype):
    """The largest error allowed of a matrix of size one."""
    return TOLERANCE * n * np.finfo(dtype).eps


def skip_unless_taken(driver, n):
    """Skip a test at a size that an engine says it does not take."""
    engine = engines.get(driver)
    if not engine.takes(n):
        pytest.skip(f"{driver} takes n ≤ {engine.max_n}")


def assert_eigh(a, w, v=None, exact=None, uplo="L", names=None, relative_to="entry"):
    """Assert that `w`, `v` decompose the matrices `a` ``(..., n, n)``.

    Parameters
    ----------
    a, w, v, exact, uplo, relative_to
        As for `bed._accuracy.measure`, with any leading axes.
    names : sequence of str, optional
        Names of the matrices of a flat batch, for the message.
    """
    n = a.shape[-1]
    real = a.dtype.type(0).real.dtype
    assert w.shape == a.shape[:-1]
    assert w.dtype == real
    w = w.reshape(-1, n)
    if v is not None:
        assert v.shape == a.shape
        assert v.dtype == a.dtype
        v = v.reshape(-1, n, n)
    if exact is not None:
        exact = exact.reshape(-1, n)
    assert (np.diff(w) >= 0).all(), "eigenvalues are not ascending"
    errors = measure(a.reshape(-1, n, n), w, v, exact, uplo, relative_to)
    for kind, per_matrix in zip(errors._fields, errors, strict=True):
        if per_matrix is None:
            continue
        bad = np.flatnonzero(~(per_matrix <= TOLERANCE))  # NaN is bad
        text = ", ".join(
            f"{names[i] if names else i}: {float(per_matrix[i]):.3g}" for i in bad[:10]
        )
        assert not len(bad), (
            f"{kind} above {TOLERANCE} n·eps, n = {n}, {a.dtype}: {text}"
        )


def assert_same_bits(result, expected):
    """Assert that two results, or two arrays, agree bit for bit, NaN included."""
    if isinstance(result, tuple):
        for one, other in zip(result, expected, strict=True):
            assert_same_bits(one, other)
        return
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    as_bytes = np.ascontiguousarray(result).tobytes()
    assert as_bytes == np.ascontiguousarray(expected).tobytes()
