"""`bed.funm`: a function of matrices that the caller writes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ._dispatch import matfun as dispatch
from ._dispatch.interop import library_of
from ._status import MatrixFunctionInfoResult


def funm(
    a: Any,
    f: Callable,
    df: Callable | None = None,
    d2f: Callable | None = None,
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Any real function of symmetric and Hermitian matrices: V diag(f(w)) Vᴴ.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.sqrtm`, with `UPLO`, `check`, `return_info` and `driver`.
    f : callable
        Takes an array of real numbers, of the library of `a` and of any shape, and
        returns one of the same shape, entry by entry. (With JAX it is traced with a
        number, an array without axes.)
    df, d2f : callable, optional
        Its first and second derivatives, as f. What is not given is found by the
        library that f is written in, where it is needed.

    Returns
    -------
    result : shape (..., n, n)
        Hermitian to the last bit. With ``return_info=True`` a named tuple ``(result,
        status)``: the status is 4 where f is NaN at an eigenvalue, and all of the
        result is, and 3 where it is infinite.

    Raises
    ------
    TypeError, ValueError
        What f returns is no real array of the shape and library that it was given.
        Besides what `bed.sqrtm` raises.
    NotImplementedError
        torch records a program (torch.compile, export, jit.trace and others): it would
        not see that f is differentiated. The named functions are operators there.

    Notes
    -----
    Derivatives are as those of `bed.sqrtm`. f[a, b] is a quotient where the eigenvalues
    are far apart, as far as f is smooth, else the mean of f′ between them; second ones
    likewise: see ``bed._derivative.funm``. For sqrt, log, exp and tanh that has lost at
    most 131 units in the last place. f has to be smooth, and to have derivatives, also
    between the eigenvalues: at a kink no rule is right. Where f closes over tensors
    that require a gradient, they get it. In torch the matrix comes first in second
    derivatives with respect to both; what has no rule is refused.

    Examples
    --------
    >>> import bed, numpy as np
    >>> bed.funm(np.array([[0.0, np.pi], [np.pi, 0.0]]), np.cos).round(12) + 0.0
    array([[-1.,  0.],
           [ 0., -1.]])
    """
    for name, function in (("f", f), ("df", df), ("d2f", d2f)):
        if not callable(function) and (name == "f" or function is not None):
            raise TypeError(f"{name} must be a function of numbers, got {function!r}")
    library = library_of(a)
    if library.name in ("torch", "jax"):  # f may close over what is differentiated
        solve = _autograd(library.name).funm
        result, status = solve(a, UPLO, check, driver, f, df, d2f)
    else:
        result, status = dispatch.funm(library, a, UPLO, check, driver, f)
    return MatrixFunctionInfoResult(result, status) if return_info else result


def _autograd(library: str) -> ModuleType:
    """Imported at the first call that needs it."""
    if library == "torch":
        from .autograd.torch import funm as for_torch

        return for_torch
    from .autograd.jax import funm as for_jax

    return for_jax
