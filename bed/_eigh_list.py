"""`bed.eigh_list`: matrices of any sizes, in batches of one size each."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ._dispatch.arrange import namespace_of
from ._dispatch.interop import library_of
from ._dispatch.interop.received import describe
from ._eigh import eigh
from ._status import NAMED_FAILURES, EighInfoResult, EighResult

_LIBRARIES = ("numpy", "cupy", "torch", "jax")


def eigh_list(
    matrices: Iterable[Any], UPLO: str = "L", *, check: bool | str = False, **options
) -> list[EighResult] | list[EighInfoResult]:
    """Eigenvalues and eigenvectors of matrices of different sizes.

    Those of one size and dtype are solved as one batch. For programs that have one
    small matrix after another, and can gather them first.

    Parameters
    ----------
    matrices : iterable of array_like, each of shape (n, n)
        All of one library: NumPy, CuPy, torch or JAX. Sizes and dtypes may differ.
    UPLO, check : optional
        As for `bed.eigh`.
    **options
        What else `bed.eigh` takes, but for `b`: `order`, `signs`, `return_info`,
        `driver`, `gradient`, `degree`, `check_phase`.

    Returns
    -------
    list
        What `bed.eigh` returns for each matrix, in their order: views of the batches,
        with the same bits unless ``driver="reference"``, and the same gradients.

    Raises
    ------
    numpy.linalg.LinAlgError
        Something is not a square matrix, or `check` found failures; names the index.
    TypeError
        A dtype is not accepted, or the library is another than that of the first
        matrix; names the index.

    Examples
    --------
    >>> import bed, numpy as np
    >>> found = bed.eigh_list([np.diag([2.0, 1.0]), np.eye(3), np.diag([4.0, 3.0])])
    >>> [w.tolist() for w, v in found]
    [[1.0, 2.0], [1.0, 1.0, 1.0], [3.0, 4.0]]
    """
    if "b" in options:
        raise TypeError("eigh_list solves no pairs of matrices: use bed.eigh(a, b=b)")
    matrices = list(matrices)
    groups: dict[tuple, list[int]] = {}
    for index, a in enumerate(matrices):
        matrices[index] = a = _opened(index, a, matrices[0])
        groups.setdefault(_kind(a), []).append(index)
    results: list[Any] = [None] * len(matrices)
    for members in groups.values():
        namespace = namespace_of(matrices[members[0]])
        batch = namespace.stack([matrices[index] for index in members])
        try:
            found = eigh(batch, UPLO, check=check, **options)
        except np.linalg.LinAlgError as error:
            raise _named(error, matrices, UPLO, check, options) from None
        except TypeError as error:
            raise TypeError(f"matrix {members[0]}: {error}") from error
        parts = [_apart(namespace, x) for x in found]
        for index, *of_one in zip(members, *parts, strict=True):
            results[index] = type(found)(*of_one)
    return results


def _opened(index: int, a: Any, first: Any) -> Any:
    """A matrix with a shape and a dtype, of the library of the first one."""
    library, expected = library_of(a), library_of(first)
    if library is not expected:
        raise TypeError(
            f"matrix {index} is of {library.name}, and matrix 0 of {expected.name}"
        )
    if library.name not in _LIBRARIES:
        raise TypeError(f"matrix {index} is {describe(a)}, of no library that is taken")
    if library.name == "numpy":
        try:
            a = library.receive(a).array
        except (TypeError, ValueError) as error:
            raise type(error)(f"matrix {index}: {error}") from error
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise np.linalg.LinAlgError(
            f"matrix {index} is not square: expected (n, n), got {describe(a)}"
        )
    return a


def _kind(a: Any) -> tuple:
    """What matrices of one batch have in common."""
    # Traced arrays of JAX are on no device yet.
    device = a.device if library_of(a).name in ("torch", "cupy") else None
    return tuple(a.shape), a.dtype, str(device)


def _apart(namespace: Any, x: Any) -> Iterable[Any]:
    """The items of a batch.

    At once, as the gradient of each index into the batch would be as large as that.
    """
    if isinstance(x, np.ndarray):
        return [x[i, ...] for i in range(len(x))]
    return namespace.unstack(x)


def _named(error, matrices, uplo, check, options) -> np.linalg.LinAlgError:
    """The error for all of the list, by the indices there."""
    told = []
    for index, a in enumerate(matrices):
        try:
            eigh(a, uplo, check=check, **options)
        except np.linalg.LinAlgError as of_one:
            told.append(f"matrix {index}: {str(of_one).rpartition('failed: ')[2]}")
    more = len(told) - NAMED_FAILURES
    named = told[:NAMED_FAILURES] + ([f"and {more} more"] if more > 0 else [])
    return type(error)(
        f"{len(told)} of {len(matrices)} matrices failed: {'; '.join(named)}"
    )
