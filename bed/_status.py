"""What a call returns, and what it says about matrices that could not be solved."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

# How many failing matrices an error message names: enough to find the pattern.
NAMED_FAILURES = 10


class Status(IntEnum):
    """Outcome of one matrix of a batch; the numbers are part of the contract.

    With a member stands what holds for eigenvalues and eigenvectors.
    """

    OK = 0  #: Right to working precision.
    NOT_FINITE = 1  #: All NaN, as an entry of the matrix is NaN or Inf.
    NO_CONVERGENCE = 2  #: All NaN, as the QR iteration did not converge.
    OVERFLOW = 3  #: ±inf where the value overflows, the rest is right.
    DOMAIN = 4  #: Of functions of matrices: all NaN.
    NOT_DEFINITE = 5  #: Of pairs of matrices: all NaN.

    @property
    def reason(self) -> str:
        """A sentence part for error messages."""
        return _REASONS[self]


_REASONS = {
    Status.OK: "solved",
    Status.NOT_FINITE: "the triangle that is read holds NaN or Inf",
    Status.NO_CONVERGENCE: "the QR iteration did not converge",
    Status.OVERFLOW: "an eigenvalue, or a function of it, is larger than the dtype's "
    "largest number",
    Status.DOMAIN: "an eigenvalue is outside of the function's domain",
    Status.NOT_DEFINITE: "the matrix b is not positive definite",
}


class EighResult(NamedTuple):
    """Eigenvalues ``(..., n)`` ascending, eigenvectors ``(..., n, n)`` as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighInfoResult(NamedTuple):
    """`EighResult` with the int32 `Status` of every matrix, shape ``(...)``."""

    eigenvalues: Any
    eigenvectors: Any
    status: Any


class EigvalshInfoResult(NamedTuple):
    """Eigenvalues ``(..., n)`` and the int32 `Status` of every matrix ``(...)``."""

    eigenvalues: Any
    status: Any


class TridiagonalizeResult(NamedTuple):
    """A = Q T Qᴴ: diagonal `d` (..., n), off-diagonal `e` (..., n - 1) of T, and Q."""

    d: Any
    e: Any
    q: Any


class MatrixFunctionInfoResult(NamedTuple):
    """A function of matrices ``(..., n, n)`` and the `Status` of every matrix."""

    result: Any
    status: Any


class SqrtmInvsqrtmResult(NamedTuple):
    """Square roots ``(..., n, n)`` and their inverses."""

    sqrtm: Any
    invsqrtm: Any


class SqrtmInvsqrtmInfoResult(NamedTuple):
    """`SqrtmInvsqrtmResult` with the `Status` of every matrix, shape ``(...)``."""

    sqrtm: Any
    invsqrtm: Any
    status: Any


def raise_on_failure(
    status: np.ndarray, error: type[np.linalg.LinAlgError] = np.linalg.LinAlgError
) -> None:
    """Raise if any matrix of the batch failed.

    Parameters
    ----------
    status : ndarray of int32, shape (...)
        Status of every matrix, on the host, with the caller's leading axes.
    error : type
        What to raise.

    Raises
    ------
    numpy.linalg.LinAlgError
        Says how many matrices failed, and names the first ten by index and reason.
    """
    if not status.any():  # Status.OK is zero
        return
    failed = [tuple(row.tolist()) for row in np.argwhere(status != Status.OK)]
    raise error(
        f"{len(failed)} of {status.size} matrices failed: "
        + name_failures(failed, lambda index: Status(int(status[index])).reason)
    )


def name_failures(
    failed: Sequence[tuple[int, ...]],
    reason: Callable[[tuple[int, ...]], str] | None = None,
) -> str:
    """The first ten matrices by batch index, each with a reason, and how many more."""
    lines = []
    for index in failed[:NAMED_FAILURES]:
        where = f"matrix {index[0] if len(index) == 1 else index}" if index else ""
        lines.append(": ".join(filter(None, [where, reason and reason(index)])))
    if len(failed) > NAMED_FAILURES:
        lines.append(f"and {len(failed) - NAMED_FAILURES} more")
    return "; ".join(lines)
