"""The order of eigenvalues and the signs of eigenvectors that a caller asks for.

Made of array functions, so that each library differentiates them. An order is a
permutation, the same for eigenvalues and eigenvectors.

A phase is a function of the eigenvector, and is differentiated with it: what comes out
does not depend on the phase that went in, and so the derivative is that of the vectors
as they are returned, whatever phases the derivative of the decomposition leaves fixed.
"""

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
    # Not before it is needed: `import bed` loads NumPy alone.
    from array_api_compat import array_namespace

    xp = array_namespace(w)
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
    from array_api_compat import array_namespace, device

    xp = array_namespace(v)
    n = v.shape[-1]
    size = xp.abs(v)
    largest = xp.max(size, axis=-2, keepdims=True)
    close = 1 - TIE * n * float(xp.finfo(v.dtype).eps)
    near = (largest > 0) & (size >= close * largest)
    # Libraries differ in which of equal numbers they find, so that there are none.
    backwards = xp.arange(n, 0, -1, dtype=xp.int32, device=device(v))[:, None]
    rank = xp.where(near, backwards, xp.zeros_like(backwards))  # (..., n, n)
    first = xp.argmax(rank, axis=-2, keepdims=True)  # (..., 1, n)
    x = xp.take_along_axis(v, first, axis=-2)
    known = xp.abs(x) > 0  # nothing is divided by zero, in derivatives either
    x = xp.where(known, x, xp.ones_like(x))
    if not xp.isdtype(v.dtype, "complex floating"):
        return xp.where(x < 0, -v, v)
    modulus = xp.abs(x)
    turned = v * xp.conj(x / xp.astype(modulus, v.dtype))
    chosen = near & (backwards == n - xp.astype(first, xp.int32))
    # Real to the last bit.
    return xp.where(chosen, xp.astype(modulus, v.dtype), turned)
