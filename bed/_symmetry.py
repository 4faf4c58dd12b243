"""The optional check that the input is Hermitian."""

import numpy as np

from ._status import name_failures

# How far a matrix may be from its conjugate transpose, in n·eps of its largest entry.
# Products like X Xᵀ, and sums in another order, stay well within one.
ASYMMETRY = 8


def raise_on_asymmetry(a, leading: tuple[int, ...]) -> None:
    """Raise if a matrix differs from its conjugate transpose by more than rounding.

    Parameters
    ----------
    a : (batch, n, n)
        Matrices with NaN or Inf pass: the status reports those.
    leading : tuple of int
        The caller's axes of the batch, for the indices in the message.

    Raises
    ------
    numpy.linalg.LinAlgError
        Names the first ten matrices and their largest asymmetry.
    """
    if a.size == 0:
        return
    n = a.shape[-1]
    # Halved first: the difference of two large entries must not overflow.
    difference = abs(a * 0.5 - a.swapaxes(-1, -2).conj() * 0.5).max(axis=(-2, -1))
    size = abs(a * 0.5).max(axis=(-2, -1))
    relative = difference / np.where(size > 0, size, 1)  # (batch,)
    allowed = ASYMMETRY * n * float(np.finfo(a.dtype).eps)
    relative = np.reshape(relative.tolist(), leading)  # on the host
    bad = [tuple(row.tolist()) for row in np.argwhere(relative > allowed)]
    if not bad:
        return
    raise np.linalg.LinAlgError(
        f"{len(bad)} of {len(a)} matrices are not Hermitian; largest |A - Aᴴ| over "
        f"largest |A| ({allowed:.2g} is allowed): "
        + name_failures(bad, lambda index: f"{relative[index]:.2g}")
    )
