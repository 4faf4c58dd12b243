"""The one place that decides whether a decomposition is right."""

import numpy as np

from .accuracy import PROMISE, Errors, measure

# How many of the matrices that are wrong are named.
NAMED = 10


def tolerance(n, dtype) -> float:
    """The largest error that is allowed of a matrix of size one."""
    return PROMISE * n * float(np.finfo(dtype).eps)


def examine(
    a, w, v=None, exact=None, uplo="L", names=None, relative_to="entry"
) -> tuple[list[str], Errors | None]:
    """What is wrong with `w`, `v` as a decomposition of the matrices `a`.

    Parameters
    ----------
    a, w, v, exact, uplo, relative_to
        As for `bed.testing.accuracy.measure`, with any leading axes. Without `v` and
        `exact`, LAPACK's eigenvalues in double precision are what is exact.
    names : sequence of str, optional
        Names of the matrices of a flat batch.

    Returns
    -------
    list of str
        A sentence for each kind of fault.
    Errors or None
        Those that were measured; None if shapes or dtypes are wrong.
    """
    n = a.shape[-1]
    where = f"n = {n}, {a.dtype}"
    real = a.dtype.type(0).real.dtype
    wrong = []
    if w.shape != a.shape[:-1] or w.dtype != real:
        wrong.append(f"eigenvalues are {w.dtype} {w.shape}, {where}")
    if v is not None and (v.shape != a.shape or v.dtype != a.dtype):
        wrong.append(f"eigenvectors are {v.dtype} {v.shape}, {where}")
    if wrong:
        return wrong, None
    w = w.reshape(-1, n)
    v = None if v is None else v.reshape(-1, n, n)
    if v is None and exact is None:
        exact = np.linalg.eigvalsh(a.astype(np.result_type(a, "f8")), uplo)
    exact = None if exact is None else exact.reshape(-1, n)
    if not (np.diff(w) >= 0).all():
        wrong.append(f"eigenvalues are not ascending, {where}")
    errors = measure(a.reshape(-1, n, n), w, v, exact, uplo, relative_to)
    for kind, per_matrix in zip(errors._fields, errors, strict=True):
        if per_matrix is None:
            continue
        bad = np.flatnonzero(~(per_matrix <= PROMISE))  # NaN is bad
        text = ", ".join(
            f"{names[i] if names is not None else i}: {float(per_matrix[i]):.3g}"
            for i in bad[:NAMED]
        )
        if len(bad):
            wrong.append(f"{kind} above {PROMISE} n·eps, {where}: {text}")
    return wrong, errors


def assert_eigh(a, w, v=None, exact=None, uplo="L", names=None, relative_to="entry"):
    """Raise AssertionError unless `w`, `v` decompose the matrices `a` ``(..., n, n)``.

    Parameters are those of `examine`.
    """
    wrong, _ = examine(a, w, v, exact, uplo, names, relative_to)
    if wrong:
        raise AssertionError("; ".join(wrong))


def assert_same_bits(result, expected) -> None:
    """Raise AssertionError unless arrays, or tuples of them, agree bit for bit.

    NaN is equal to the same NaN.
    """
    if isinstance(result, tuple):
        for one, other in zip(result, expected, strict=True):
            assert_same_bits(one, other)
        return
    if (result.shape, result.dtype) != (expected.shape, expected.dtype):
        raise AssertionError(
            f"{result.dtype} {result.shape} is not {expected.dtype} {expected.shape}"
        )
    one, other = (
        np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        for x in (result, expected)
    )
    if (differ := one != other).any():
        raise AssertionError(f"{differ.sum()} of {differ.size} bytes differ")
