"""The two stages of the decomposition as public functions of their own."""

from typing import Any

from ._dispatch import solve
from ._dispatch.interop import Library, library_of
from ._status import (
    EighInfoResult,
    EighResult,
    EigvalshInfoResult,
    TridiagonalizeResult,
)


def tridiagonalize(
    a: Any, UPLO: str = "L", *, driver: str = "auto"
) -> TridiagonalizeResult:
    """Reduce symmetric or Hermitian matrices to real tridiagonal ones.

    Finds A = Q T Qᴴ for every matrix of the batch, with Q orthogonal (unitary) and T
    real, symmetric and tridiagonal: d on its diagonal, e beside it.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.eigh`.
    UPLO : {"L", "U"}, optional
        The triangle that is read.
    driver : str, optional
        Name of an engine with this stage: ``"numba_cpu"`` for host arrays,
        ``"numba_cuda"`` for arrays in GPU memory.

    Returns
    -------
    d : shape (..., n), real
        Diagonal of T.
    e : shape (..., n - 1), real
        Off-diagonal of T: T[i, i + 1] = T[i + 1, i], of either sign.
    q : shape (..., n, n)

    A matrix with NaN or Inf has NaN in all three.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` is not a stack of square matrices.
    TypeError
        The dtype is not accepted, or torch or JAX traces the array: this function has
        no derivative.
    ValueError
        Unknown `UPLO` or `driver`.
    ImportError
        The array or the engine needs a package that is not installed.

    See Also
    --------
    eigh_tridiagonal : the second stage.

    Notes
    -----
    Householder reflections with the symmetric rank-2 update: Song, Sebe and Wang,
    ECCV 2022, section 3.1; Golub and Van Loan, "Matrix Computations", 4th edition,
    algorithm 8.3.1. Residual and departure from orthogonality stay below 8·n·eps,
    relative to the largest entry of each matrix.

    Examples
    --------
    >>> import bed, numpy as np
    >>> a = np.array([[4.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    >>> d, e, q = bed.tridiagonalize(a)
    >>> t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    >>> bool(np.allclose(q @ t @ q.T, a))
    True
    """
    library = _untraced("bed.tridiagonalize", a)
    return TridiagonalizeResult(*solve.tridiagonalize(library, a, UPLO, driver))


def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    *,
    check: bool = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Eigenvalues and eigenvectors of a batch of real symmetric tridiagonal matrices.

    Parameters
    ----------
    d : array_like, shape (..., n), real
        Diagonals. Arrays and dtypes as for `bed.eigh`, but not complex.
    e : array_like, shape (..., n - 1), real
        Off-diagonals. Leading axes are broadcast against those of
        `d`; both must be in memory of the same kind.
    eigvals_only : bool, optional
        Return the eigenvalues alone.
    check, return_info : bool, optional
        As for `bed.eigh`.
    driver : str, optional
        As for `tridiagonalize`.

    Returns
    -------
    eigenvalues : shape (..., n), real
        Ascending.
    eigenvectors : shape (..., n, n), real
        As columns. Left out with ``eigvals_only=True``.
    status : shape (...), int32
        Only with ``return_info=True``; see `bed.eigh`.

    Raises
    ------
    numpy.linalg.LinAlgError
        `check` found failures: the message names the first ten.
    TypeError
        A dtype is not accepted, or torch or JAX traces an array: this function has no
        derivative.
    ValueError
        Shapes or memory of `d` and `e` do not fit together, or unknown `driver`.
    ImportError
        The array or the engine needs a package that is not installed.

    See Also
    --------
    tridiagonalize : the first stage.
    scipy.linalg.eigh_tridiagonal : for one matrix.

    Notes
    -----
    All arrays are of the library of `d`.

    Implicit QR iteration with Wilkinson shifts and shrinkage: Song, Sebe and Wang,
    ECCV 2022, section 3.2; Golub and Van Loan, "Matrix Computations", 4th edition,
    algorithm 8.3.3. Errors stay below 8·n·eps, relative to the largest entry of each
    matrix.

    Examples
    --------
    >>> import bed, numpy as np
    >>> w, v = bed.eigh_tridiagonal(np.array([[0.0, 0.0], [5.0, 5.0]]), [[3.0], [4.0]])
    >>> w
    array([[-3.,  3.],
           [ 1.,  9.]])
    """
    libraries = tuple(_untraced("bed.eigh_tridiagonal", x) for x in (d, e))
    wanted = not eigvals_only
    w, v, status = solve.eigh_tridiagonal(libraries, d, e, check, driver, wanted)
    if eigvals_only:
        return EigvalshInfoResult(w, status) if return_info else w
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def _untraced(name: str, a) -> Library:
    """The library of an array that nothing traces."""
    library = library_of(a)
    if library.traces(a):
        raise TypeError(
            f"{name} has no derivative and is not traced, and {library.name} follows "
            "this array: detach it, or use bed.eigh, which is differentiated"
        )
    return library
