"""What bed has of the array API standard's `linalg` extension.

Code that is written against ``xp.linalg`` can be pointed here: the functions take one
positional array of any library that bed knows and read its lower triangle. Beside them
stands `eigh_scriptable(a, UPLO)`, for code that `torch.jit.script` compiles.

Examples
--------
>>> import numpy as np
>>> import bed.linalg as linalg
>>> linalg.eigvalsh(np.diag([2.0, 1.0]))
array([1., 2.])
"""

from typing import Any, cast

from . import _eigh
from ._status import EighResult

__all__ = ["eigh", "eigvalsh"]


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
