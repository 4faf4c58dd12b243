"""What bed has of the array API standard's `linalg` extension.

Code that is written against ``xp.linalg`` can be pointed here: the functions take one
positional array of any library that bed knows and read its lower triangle.

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
