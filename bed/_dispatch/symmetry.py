"""The optional check that the input is Hermitian."""

import numpy as np

from .._status import name_failures
from ..engines._float_mode import default_float_mode
from .dtypes import half_eps
from .interop import Received

# How far a matrix may be from its conjugate transpose, in n·eps of its largest entry.
# Products like X Xᵀ, and sums in another order, stay well within one. Half types are
# summed in float32 everywhere, and rounded to a few eps of their own whatever n is.
ASYMMETRY = 8


def raise_on_asymmetry(
    a,
    uplo: str,
    leading: tuple[int, ...],
    dtype: str,
    error: type[np.linalg.LinAlgError] = np.linalg.LinAlgError,
    what: str = "matrices",
) -> None:
    """Raise if a matrix differs from its conjugate transpose by more than rounding.

    Parameters
    ----------
    a : (batch, n, n)
        In the dtype it is computed in.
    uplo : str
        The triangle that is read. Matrices with NaN or Inf in it pass: the status
        reports those.
    leading : tuple of int
        The caller's axes of the batch, for the indices in the message.
    dtype : str
        In which the matrices came, and were rounded.
    error : type
        What to raise.
    what : str
        What the message calls them.

    Raises
    ------
    numpy.linalg.LinAlgError
        Names the first ten matrices and their largest asymmetry.
    """
    if a.size == 0:
        return
    n = a.shape[-1]
    # NaN, Inf and subnormal numbers are no errors here.
    with np.errstate(all="ignore"), default_float_mode():
        # Large entries are scaled down: their differences and moduli must not overflow.
        largest = np.maximum(abs(a.real), abs(a.imag)).max(axis=(-2, -1))
        scaled = a * np.where(largest > 1, 0.25, 1).astype(largest.dtype)[:, None, None]
        difference = abs(scaled - scaled.swapaxes(-1, -2).conj()).max(axis=(-2, -1))
        size = abs(scaled).max(axis=(-2, -1))
        relative = difference / np.where(size > 0, size, 1)  # (batch,)
        read = np.tril(a) if uplo == "L" else np.triu(a)
        relative = np.where(np.isfinite(read).all(axis=(-2, -1)), relative, 0)
    allowed = ASYMMETRY * (n * float(np.finfo(a.dtype).eps) + half_eps(dtype))
    relative = np.reshape(relative.tolist(), leading)  # on the host
    # NaN in the other triangle is not within what is allowed.
    bad = [tuple(row.tolist()) for row in np.argwhere(~(relative <= allowed))]
    if not bad:
        return
    raise error(
        f"{len(bad)} of {len(a)} {what} are not Hermitian; largest |A - A^H| over "
        f"largest |A| ({allowed:.2g} is allowed): "
        + name_failures(bad, lambda index: f"{relative[index]:.2g}")
    )


def raise_unless_hermitian(received: Received, a, uplo, leading, dtype) -> None:
    """The same for the matrices (batch, n, n) of an open array, computed in a dtype."""
    a = a.astype(dtype, copy=False)
    raise_on_asymmetry(a, uplo, leading, received.dtype, received.error)
