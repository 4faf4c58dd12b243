"""Everything a caller can get wrong about shapes and options, decided in one place."""

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..engines import Engine
from .dtypes import compute_dtype
from .interop import Received


def array_for(engine: Engine, a: Any, dtype: np.dtype) -> Any:
    """A batch in a dtype that an engine reads; converted only if it must be."""
    if engine.reads and a.dtype.name in engine.reads:
        return a
    return converted(a, dtype)


def converted(a: Any, dtype: np.dtype) -> Any:
    """An array as engines take it, in a dtype; copied only if it must be."""
    if a.dtype != dtype:
        a = a.astype(dtype, copy=False)
    if isinstance(a, np.ndarray) and not a.flags.aligned:
        a = a.copy()
    return a


def normalize(received: Received) -> tuple[Any, tuple[int, ...], np.dtype]:
    """Check shape and dtype, and join the leading axes.

    Memory is copied only where leading axes with unrelated strides have to be joined.

    Returns
    -------
    a : (batch, n, n) array of the caller's dtype, any strides
    leading : the caller's leading axes, whose product is batch
    dtype : the engine dtype it is computed in

    Raises
    ------
    numpy.linalg.LinAlgError
        Not a stack of square matrices; a ValueError, as NumPy's.
    TypeError
        A dtype that is not accepted.
    """
    a = received.array
    shape = a.shape
    raise_unless_square(shape, received.error)
    leading, n = shape[:-2], shape[-1]
    if not leading:
        a = a[None]
    elif len(leading) > 1:
        a = a.reshape((math.prod(leading), n, n))  # a view wherever strides allow
    return a, leading, compute_dtype(a.dtype)


def raise_unless_square(
    shape: tuple[int, ...], error: type[np.linalg.LinAlgError] = np.linalg.LinAlgError
) -> None:
    """Raise a `numpy.linalg.LinAlgError` unless a shape is (..., n, n)."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise error(
            "expected square matrices (..., n, n), got an array of shape "
            f"{tuple(shape)}"
        )


class Pair(NamedTuple):
    """Matrices A and B (batch, n, n) of caller's dtypes, leading axes, engine dtype."""

    a: Any
    b: Any
    leading: tuple[int, ...]
    dtype: np.dtype


def normalize_pair(received: Received, others: Received) -> Pair:
    """Check matrices of a generalised problem, and bring them to one shape.

    Raises
    ------
    numpy.linalg.LinAlgError
        Not stacks of square matrices; a ValueError, as NumPy's.
    TypeError
        A dtype that is not accepted.
    ValueError
        Shapes or memory that do not fit together.
    """
    a, b = received.array, others.array
    raise_unless_square(a.shape, received.error)
    raise_unless_square(b.shape, received.error)
    if received.device != others.device:
        raise ValueError(
            "a and b must be in the same memory, got a in "
            f"{received.device} memory and b in {others.device} memory"
        )
    leading = broadcast_leading(a.shape, b.shape)
    n = a.shape[-1]
    batch = math.prod(leading)
    dtype = np.result_type(compute_dtype(a.dtype), compute_dtype(b.dtype))
    a, b = (np.broadcast_to(x, (*leading, n, n)).reshape((batch, n, n)) for x in (a, b))
    return Pair(a, b, leading, dtype)


def broadcast_leading(
    a: tuple[int, ...],
    b: tuple[int, ...],
    broadcast: Callable = np.broadcast_shapes,
) -> tuple[int, ...]:
    """The common leading axes of two shapes (..., n, n).

    JAX has a function `broadcast` of its own, for sizes that are symbols.

    Raises
    ------
    ValueError
        There are none, or the sizes of the matrices differ.
    """
    if a[-1] != b[-1]:
        raise ValueError(
            f"a and b must be matrices of one size, got {tuple(a)} and {tuple(b)}"
        )
    try:
        return broadcast(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(
            f"the leading axes of a {tuple(a)} and b {tuple(b)} do not broadcast"
        ) from None


class Tridiagonal(NamedTuple):
    """Diagonals (batch, n), off-diagonals (batch, n - 1), and the leading axes."""

    d: Any
    e: Any
    leading: tuple[int, ...]


def normalize_tridiagonal(received: Received, others: Received) -> Tridiagonal:
    """Check diagonals and off-diagonals, and bring them to one shape and dtype.

    Raises
    ------
    TypeError
        A dtype that is not accepted, or not real.
    ValueError
        Shapes or memory that do not fit together.
    """
    d, e = received.array, others.array
    if received.device != others.device:
        raise ValueError(
            "d and e must be in the same memory, got d in "
            f"{received.device} memory and e in {others.device} memory"
        )
    if d.ndim < 1 or e.ndim < 1 or e.shape[-1] != max(d.shape[-1] - 1, 0):
        raise ValueError(
            "expected d of shape (..., n) and e of shape (..., n - 1), got "
            f"{d.shape} and {e.shape}"
        )
    dtype = np.result_type(compute_dtype(d.dtype), compute_dtype(e.dtype))
    if dtype.kind == "c":
        raise TypeError(f"d and e must be real, got {d.dtype} and {e.dtype}")
    try:
        leading = np.broadcast_shapes(d.shape[:-1], e.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the leading axes of d {d.shape} and e {e.shape} do not broadcast"
        ) from None
    d, e = (
        converted(
            np.broadcast_to(x, (*leading, x.shape[-1])).reshape(
                (math.prod(leading), x.shape[-1])
            ),
            dtype,
        )
        for x in (d, e)
    )
    return Tridiagonal(d, e, leading)


def normalize_uplo(uplo: Any) -> str:
    """``"L"`` or ``"U"``.

    Raises
    ------
    ValueError
        Anything else.
    """
    if isinstance(uplo, str):
        upper = uplo.upper()
        if upper in ("L", "U"):
            return upper
    raise ValueError(f"UPLO must be 'L' or 'U' (either case), got {uplo!r}")


def normalize_extremal(k: Any, which: Any, n: int) -> int:
    """How many of n pairs are asked for, and that they are from an end.

    Raises
    ------
    ValueError
        No whole number from 1 to n, or no end.
    """
    try:
        count = None if isinstance(k, bool) else operator.index(k)
    except TypeError:
        count = None
    if count is None or not 1 <= count <= n:
        raise ValueError(f"k must be a whole number from 1 to n = {n}, got {k!r}")
    if not isinstance(which, str) or which not in ("largest", "smallest"):
        raise ValueError(f"which must be 'largest' or 'smallest', got {which!r}")
    return count


def raise_unless_check(check: Any) -> None:
    """Raise ValueError unless `check` is False, True or ``"hermitian"``."""
    if check is False or check is True:  # what most calls say
        return
    if is_flag(check) or (isinstance(check, str) and check == "hermitian"):
        return
    raise ValueError(f"check must be False, True or 'hermitian', got {check!r}")


def is_flag(x: Any) -> bool:
    """Whether something means True or False."""
    return isinstance(x, bool | np.bool_ | int) and x in (False, True)
