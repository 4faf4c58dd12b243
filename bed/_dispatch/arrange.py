"""The order of eigenvalues and the signs of eigenvectors that a caller asks for.

Made of array functions, so that each library differentiates them. An order is a
permutation, the same for eigenvalues and eigenvectors.

A phase is a function of the eigenvector, and is differentiated with it: what comes out
does not depend on the phase that went in, and so the derivative is that of the vectors
as they are returned, whatever phases the derivative of the decomposition leaves fixed.
"""

import sys
from typing import Any, NamedTuple

# What engines return, and the options that leave it so.
ASCENDING, RAW = "ascending", "raw"
ORDERS = (ASCENDING, "descending", "magnitude")
SIGNS = (RAW, "max")

# Entries that are so close to the largest one of a vector count as equal to it, in
# n·eps of its magnitude: what is promised of an entry of order one.
TIE = 8


class Arrangement(NamedTuple):
    """The options `order` and `signs` of a call."""

    order: str
    signs: str


def normalize_arrangement(order: Any, signs: Any = RAW) -> Arrangement | None:
    """Check the options; None if results stay as they are.

    Raises
    ------
    ValueError
        Unknown order or signs.
    """
    for name, value, known in (("order", order, ORDERS), ("signs", signs, SIGNS)):
        if not isinstance(value, str) or value not in known:
            accepted = ", ".join(repr(each) for each in known)
            raise ValueError(f"{name} must be one of {accepted}, got {value!r}")
    if order == ASCENDING and signs == RAW:
        return None
    return Arrangement(order, signs)


def arrange(w: Any, v: Any, arrangement: Arrangement) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors in another order, with other phases.

    Parameters
    ----------
    w : (..., n) real array
        Ascending, or all NaN.
    v : (..., n, n) array or None
        Eigenvectors as columns.
    arrangement : Arrangement

    Returns
    -------
    w, v
        New arrays of the same library.
    """
    xp = namespace_of(w)
    if w.shape[-1] == 0:
        return w, v
    if arrangement.order == "descending":
        w = xp.flip(w, axis=-1)
        v = None if v is None else xp.flip(v, axis=-1)
    elif arrangement.order == "magnitude":
        order = xp.argsort(-xp.abs(w), axis=-1, stable=True)  # (..., n)
        w = xp.take_along_axis(w, order, axis=-1)
        if v is not None:
            order = xp.broadcast_to(order[..., None, :], v.shape)
            v = xp.take_along_axis(v, order, axis=-1)
    if arrangement.signs == "max" and v is not None:
        v = with_largest_positive(v)
    return w, v


def with_largest_positive(v: Any) -> Any:
    """Eigenvectors (..., n, n) whose entry of largest magnitude is positive.

    Of entries within `TIE` of the largest it is the first one. Columns of NaN stay.
    """
    xp, n = namespace_of(v), v.shape[-1]
    size = xp.abs(v)
    largest = xp.max(size, axis=-2, keepdims=True)
    close = 1 - TIE * n * float(xp.finfo(v.dtype).eps)
    near = (largest > 0) & (size >= close * largest)
    # Libraries differ in which of equal numbers they find: those so far are counted, by
    # the name that all have for it.
    count = xp.cumsum(xp.astype(near, xp.int32), -2)
    chosen = near & (count == 1)  # (..., n, n), one entry of each column
    x = xp.sum(xp.where(chosen, v, xp.zeros_like(v)), axis=-2, keepdims=True)
    # Nothing is divided by zero where there is none, in derivatives either.
    x = xp.where(largest > 0, x, xp.ones_like(x))
    if not xp.isdtype(v.dtype, "complex floating"):
        return xp.where(x < 0, -v, v)
    modulus = xp.astype(xp.abs(x), v.dtype)
    return xp.where(chosen, modulus, v * (modulus / x))  # real to the last bit


def namespace_of(x):
    """The array functions of its library.

    Not imported before they are needed: `import bed` loads NumPy alone.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        # torch's compiler warns of the cache in the function below.
        import array_api_compat.torch as namespace

        return namespace
    from array_api_compat import array_namespace

    return array_namespace(x)
