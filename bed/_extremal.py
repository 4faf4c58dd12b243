"""`bed.eigh_extremal`: what it promises, and one call to what does it."""

from types import ModuleType
from typing import Any

from ._dispatch import solve
from ._dispatch.interop import library_of
from ._status import EighInfoResult, EighResult


def eigh_extremal(
    a: Any,
    k: int = 1,
    which: str = "largest",
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> EighResult | EighInfoResult:
    """A few eigenpairs from an end of the spectrum of symmetric or Hermitian matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.eigh`.
    k : int, optional
        How many pairs of each matrix, from 1 to n.
    which : {"largest", "smallest"}, optional
        The algebraically largest or smallest eigenvalues, not those largest in
        magnitude.
    UPLO, check, return_info, driver
        As for `bed.eigh`.

    Returns
    -------
    eigenvalues : shape (..., k), real
        Ascending, of either end: with ``which="largest"`` the largest is the last one.
        These are the last or first k of `bed.eigh`, as those of `scipy.linalg.eigh`
        with ``subset_by_index=[n - k, n - 1]`` or ``[0, k - 1]``.
    eigenvectors : shape (..., n, k)
        Column ``[..., :, i]`` belongs to eigenvalue ``[..., i]``. May be a view of all.
    status : shape (...), int32
        Only with ``return_info=True``; see `bed.eigh`. An overflow counts only if it is
        of one of the eigenvalues returned.

    Raises
    ------
    numpy.linalg.LinAlgError, TypeError, ImportError
        As `bed.eigh`.
    ValueError
        `k` is not a whole number from 1 to n, or unknown `which`, `UPLO`, `check` or
        `driver`.

    See Also
    --------
    eigh : all pairs.

    Notes
    -----
    All arrays are of the library and on the device of `a`.

    Promises are those of `bed.eigh`, orthogonality within clusters included. The
    eigenvalues are the same as there up to rounding, not to the last bit. Time is saved
    by the engine ``"numba_cpu"``. Where n is below 4·k + 2, where two of the
    eigenvalues asked for coincide, and in most other engines, all are computed.

    The derivative uses the gaps between the eigenvalues that are returned and all
    others: it is right, whatever eigenvalues coincide among the others. Where they
    coincide among those returned, or with the first that is not, what `bed.eigh` says
    holds. If a derivative may be asked for, or if the call is traced, all pairs are
    computed. Second derivatives are those of `bed.eigh` too: right where all
    eigenvalues are apart.

    Bisection, Rayleigh quotients and twisted factorisations of the tridiagonal matrix:
    Golub and Van Loan, "Matrix Computations", 4th edition, section 8.4; Parlett and
    Dhillon, "Fernando's solution to Wilkinson's problem", Linear Algebra and its
    Applications 267, 1997.

    Examples
    --------
    >>> import bed, numpy as np
    >>> w, v = bed.eigh_extremal(np.diag([3.0, 1.0, 2.0]), k=2)
    >>> w
    array([2., 3.])
    >>> v.shape
    (3, 2)
    """
    library = library_of(a)
    if library.traces(a) or library.spreads(a):
        traced = _autograd(library.name).eigh_extremal
        w, v, status = traced(a, k, which, UPLO, check, driver)
    else:
        w, v, status = solve.eigh_extremal(library, a, k, which, UPLO, check, driver)
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def _autograd(library: str) -> ModuleType:
    """Imported at the first call that needs it."""
    if library == "torch":
        from .autograd.torch import extremal as for_torch

        return for_torch
    from .autograd.jax import extremal as for_jax

    return for_jax
