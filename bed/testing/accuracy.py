"""How right a decomposition is: measured in the next higher precision, per matrix."""

from typing import Any, NamedTuple

import numpy as np

# What the library promises of residual, orthogonality and eigenvalues, in n·eps of the
# largest entry of a matrix: two to four times what a good solver shows, and far below
# what a wrong one does.
PROMISE = 8

_HIGHER = {"f4": "f8", "c8": "c16", "f8": "g", "c16": "G"}


class Errors(NamedTuple):
    """Largest errors of each matrix ``(batch,)``, in units of n·eps.

    Attributes
    ----------
    residual
        |A V − V diag(w)| over the size of A.
    orthogonality
        |Vᴴ V − I|.
    values
        |w − exact| over the size of A.

    What was not measured is None.
    """

    residual: Any
    orthogonality: Any
    values: Any

    def worst(self) -> tuple[float, ...]:
        """The largest of each over the batch, NaN for what was not measured."""
        return tuple(np.nan if x is None else float(x.max(initial=0)) for x in self)


def measure(
    a, w, v=None, exact=None, uplo: str = "L", relative_to: str = "entry"
) -> Errors:
    """Errors of eigenvalues `w` and eigenvectors `v` of the matrices `a`.

    Parameters
    ----------
    a : ndarray, shape (batch, n, n)
        In one of the four dtypes that engines compute in.
    w : ndarray, shape (batch, n), or of some pairs (batch, k)
    v : ndarray, shape (batch, n, n), or (batch, n, k), optional
    exact : ndarray, of the shape of `w`, optional
        The eigenvalues, in higher precision than `w`.
    uplo : str, optional
        The triangle that counts.
    relative_to : {"entry", "spectral"}, optional
        What residual and eigenvalue errors are relative to: the largest entry of the
        matrix, or its spectral norm, which is up to n times as large.

    Returns
    -------
    Errors
        A NaN in `w` or `v` gives NaN. Rounding a result to a subnormal number is not
        counted as an error.
    """
    n = a.shape[-1]
    eps = np.finfo(a.dtype).eps
    higher = np.dtype(_HIGHER[a.dtype.str[1:]])
    full = hermitian(a, uplo).astype(higher)
    size = abs(full).max(axis=(-2, -1), initial=0)
    w = w.astype(size.dtype)
    if relative_to == "spectral":
        size = np.maximum(size, abs(w if exact is None else exact).max(-1, initial=0))
    size = np.where(size > 0, size, 1)  # (batch,)
    spacing = np.finfo(a.dtype).smallest_subnormal.astype(size.dtype)
    unit = n * eps
    residual = orthogonality = values = None
    if v is not None:
        v = v.astype(higher)
        difference = abs(full @ v - v * w[:, None, :]).max(axis=(-2, -1), initial=0)
        residual = np.maximum(difference - spacing, 0) / size / unit
        gram = v.conj().swapaxes(-1, -2) @ v
        orthogonality = (
            abs(gram - np.eye(v.shape[-1])).max(axis=(-2, -1), initial=0) / unit
        )
    if exact is not None:
        difference = abs(w - exact).max(axis=-1, initial=0)
        values = np.maximum(difference - spacing, 0) / size / unit
    return Errors(residual, orthogonality, values)


def hermitian(a: np.ndarray, uplo: str) -> np.ndarray:
    """The Hermitian matrices that a solver is told of by one triangle."""
    strict = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
    diagonal = np.arange(a.shape[-1])
    full = strict + strict.conj().swapaxes(-1, -2)
    full[..., diagonal, diagonal] = a[..., diagonal, diagonal].real
    return full
