"""What bed has of the array API standard's `linalg` extension.

Code that is written against ``xp.linalg`` can be pointed here: the functions take one
positional array of any library that bed knows and read its lower triangle. So do the
functions of matrices, which the standard does not have. Beside them stands
`eigh_scriptable(a, UPLO)`, for code that `torch.jit.script` compiles.

Examples
--------
>>> import numpy as np
>>> import bed.linalg as linalg
>>> linalg.eigvalsh(np.diag([2.0, 1.0]))
array([1., 2.])
"""

from collections.abc import Callable
from typing import Any, cast

from . import _eigh, _funm, matfun
from ._status import EighResult, SqrtmInvsqrtmResult

__all__ = [
    "absm",
    "clampm",
    "eigh",
    "eigvalsh",
    "expm",
    "funm",
    "invsqrtm",
    "logm",
    "powm",
    "signm",
    "sqrtm",
    "sqrtm_invsqrtm",
]


def __getattr__(name: str) -> Any:
    """`eigh_scriptable`, which TorchScript compiles: torch is imported with it."""
    if name != "eigh_scriptable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .autograd.torch.eigh import eigh_scriptable

    return eigh_scriptable


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Parameters
    ----------
    x : (..., n, n) array

    Returns
    -------
    eigenvalues : (..., n) real array
        Ascending.
    eigenvectors : (..., n, n) array
        As columns.

    See Also
    --------
    bed.eigh : with options, errors and notes.
    """
    return cast(EighResult, _eigh.eigh(x))


def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues of symmetric or Hermitian matrices, ascending; see `bed.eigvalsh`."""
    return _eigh.eigvalsh(x)


def sqrtm(x: Any, /) -> Any:
    """Principal square root of positive semidefinite matrices; see `bed.sqrtm`.

    Parameters
    ----------
    x : (..., n, n) array

    Returns
    -------
    (..., n, n) array
    """
    return matfun.sqrtm(x)


def invsqrtm(x: Any, /) -> Any:
    """Inverse of the principal square root; see `bed.invsqrtm`."""
    return matfun.invsqrtm(x)


def sqrtm_invsqrtm(x: Any, /) -> SqrtmInvsqrtmResult:
    """Both, from one decomposition; see `bed.sqrtm_invsqrtm`."""
    return cast(SqrtmInvsqrtmResult, matfun.sqrtm_invsqrtm(x))


def logm(x: Any, /) -> Any:
    """Principal logarithm; see `bed.logm`."""
    return matfun.logm(x)


def expm(x: Any, /) -> Any:
    """Exponential; see `bed.expm`."""
    return matfun.expm(x)


def powm(x: Any, p: float, /) -> Any:
    """Real power; see `bed.powm`."""
    return matfun.powm(x, p)


def absm(x: Any, /) -> Any:
    """Absolute value; see `bed.absm`."""
    return matfun.absm(x)


def signm(x: Any, /) -> Any:
    """Matrix sign; see `bed.signm`."""
    return matfun.signm(x)


def clampm(x: Any, /, min: float | None = None, max: float | None = None) -> Any:
    """Eigenvalues limited to an interval; see `bed.clampm`."""
    return matfun.clampm(x, min, max)


def funm(x: Any, f: Callable, /) -> Any:
    """A function that the caller writes; see `bed.funm`."""
    return _funm.funm(x, f)
