"""Functions of symmetric and Hermitian matrices, with exact derivatives.

f(A) = V diag(f(w)) Vᴴ from the decomposition A = V diag(w) Vᴴ. All functions here take
what `sqrtm` takes and promise what it promises; each says what its own domain is.
"""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ._dispatch import matfun as dispatch
from ._dispatch.interop import library_of
from ._functions import Function, Spectral
from ._status import (
    MatrixFunctionInfoResult,
    SqrtmInvsqrtmInfoResult,
    SqrtmInvsqrtmResult,
)

__all__ = [
    "absm",
    "clampm",
    "expm",
    "invsqrtm",
    "logm",
    "powm",
    "signm",
    "sqrtm",
    "sqrtm_invsqrtm",
]


def sqrtm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Principal square root of positive semidefinite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.eigh`: NumPy, CuPy, torch or JAX, any strides, never written.
        float16 and bfloat16 are computed in float32, integers in float64.
    UPLO : {"L", "U"}, optional
        The triangle that is read.
    floor : float, optional
        Eigenvalues below floor·n·eps·s, where s is the largest of their magnitudes and
        eps that of the dtype, are lifted to that. The bound counts as a constant: what
        is lifted has derivative zero. With a floor no eigenvalue is negative, and with
        one above zero none is zero unless the bound itself is.
    check : bool or "hermitian", optional
        As for `bed.eigh`; True also names the matrices outside of the domain.
    return_info : bool, optional
        Also return the status of every matrix.
    driver : str, optional
        Name of the engine, see `bed.show_config`.

    Returns
    -------
    result : shape (..., n, n)
        Hermitian to the last bit, of the library and on the device of `a`. With
        ``return_info=True`` a named tuple ``(result, status)``.
    status : shape (...), int32
        As of `bed.eigh`, and 4 where an eigenvalue is outside of the domain: with 1, 2
        and 4 the result is NaN. 3: the result is too large for the dtype.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` is not a stack of square matrices, or `check` found failures.
    TypeError
        The dtype is not accepted.
    ValueError
        Unknown `UPLO`, `check` or `driver`, or a floor that is no number from 0 on.

    Notes
    -----
    Domain: eigenvalues from 0 on. Those in [−8·n·eps·s, 0] are zeros as far as can be
    known, and count as such; positive ones are used as they are. A zero eigenvalue has
    derivatives only beside positive ones, 1/√b beside b; between two zeros, where there
    is none, zero stands for it.

    Derivatives are of the function of the matrix, not of its eigenvectors, and so are
    exact where eigenvalues coincide too: first and second ones, in torch by backward
    and forward mode, under `torch.func` and torch.compile, in JAX under grad, jvp, vmap
    and jit. Third ones are right where eigenvalues are apart. Only the Hermitian part
    of a tangent, and of a gradient, counts. A matrix that failed has gradient zero if
    the loss leaves it out, else NaN.

    The first derivative multiplies, between the eigenvectors, with the divided
    differences of f (Daleckii and Krein; N. J. Higham, Functions of Matrices, SIAM
    2008, theorem 3.11), by forms that do not cancel.

    Examples
    --------
    >>> import bed, numpy as np
    >>> bed.sqrtm(np.array([[5.0, 4.0], [4.0, 5.0]]))
    array([[2., 1.],
           [1., 2.]])
    """
    function = Spectral(Function.SQRT, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def invsqrtm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Inverse of the principal square root, as for whitening; see `sqrtm`.

    Domain: eigenvalues above 0. Covariances of few samples, or in float32, need a
    `floor`.

    Examples
    --------
    >>> import bed
    >>> bed.invsqrtm([[4.0, 0.0], [0.0, 0.25]])
    array([[0.5, 0. ],
           [0. , 2. ]])
    """
    function = Spectral(Function.INVSQRT, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def sqrtm_invsqrtm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Principal square root and its inverse, from one decomposition; see `sqrtm`.

    Returns
    -------
    sqrtm, invsqrtm : shape (..., n, n)
        A named tuple, with ``return_info=True`` of three. The status is that of the
        inverse: with a zero eigenvalue, where it is NaN, the root may be in order.

    Examples
    --------
    >>> import bed, numpy as np
    >>> root, inverse = bed.sqrtm_invsqrtm(np.diag([4.0, 16.0]))
    >>> inverse
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    floor = _floor(floor)
    pair = Spectral(Function.SQRT, floor=floor), Spectral(Function.INVSQRT, floor=floor)
    root, inverse, status = _spectral(pair, a, UPLO, check, driver)
    if return_info:
        return SqrtmInvsqrtmInfoResult(root, inverse, status)
    return SqrtmInvsqrtmResult(root, inverse)


def logm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Principal logarithm; see `sqrtm`.

    Domain: eigenvalues above 0.

    Examples
    --------
    >>> import bed, numpy as np
    >>> bed.logm(np.diag([1.0, np.e])).round(12) + 0.0
    array([[0., 0.],
           [0., 1.]])
    """
    function = Spectral(Function.LOG, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def expm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Exponential; see `sqrtm`. It has a value for every Hermitian matrix.

    Where it is too large for the dtype, entries are infinite or NaN, and the status is
    3.

    Examples
    --------
    >>> import bed, numpy as np
    >>> bed.expm(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    function = Spectral(Function.EXP, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def powm(
    a: Any,
    p: float,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Real power of matrices; see `sqrtm`.

    Parameters
    ----------
    p : float
        The exponent, one for all matrices; it is not differentiated.

    Notes
    -----
    Domain: eigenvalues from 0 on, for whole numbers p all; with p < 0 not zero. A⁰ is
    the identity, whatever A is.

    Examples
    --------
    >>> import bed, numpy as np
    >>> bed.powm(np.diag([-2.0, 4.0]), -1)
    array([[-0.5 ,  0.  ],
           [ 0.  ,  0.25]])
    """
    function = Spectral(Function.POWER, _exponent(p), floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def absm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Absolute value, (A²)^½, the Hermitian polar factor; see `sqrtm`.

    Between two zero eigenvalues zero stands for the derivative.

    Examples
    --------
    >>> import bed
    >>> bed.absm([[0.0, 2.0], [2.0, 0.0]]).round(12) + 0.0
    array([[2., 0.],
           [0., 2.]])
    """
    function = Spectral(Function.ABS, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def signm(
    a: Any,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Matrix sign: eigenvalues become −1, 0 or 1 by their sign; see `sqrtm`.

    The derivative grows without bound as the gap around zero closes, and between two
    zero eigenvalues zero stands for it.

    Examples
    --------
    >>> import bed
    >>> bed.signm([[0.0, 2.0], [2.0, 0.0]]).round(12) + 0.0
    array([[0., 1.],
           [1., 0.]])
    """
    function = Spectral(Function.SIGN, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def clampm(
    a: Any,
    min: float | None = None,
    max: float | None = None,
    UPLO: str = "L",
    *,
    floor: float | None = None,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Limit the eigenvalues to an interval; see `sqrtm`.

    ``clampm(a, 0)`` is the nearest positive semidefinite matrix in the Frobenius norm
    (N. J. Higham, Linear Algebra Appl. 103, 1988), with a positive bound the layer
    ReEig of Huang and Van Gool, AAAI 2017.

    Parameters
    ----------
    min, max : float, optional
        Its ends; None is none. The derivative is 1 at both.

    Examples
    --------
    >>> import bed
    >>> bed.clampm([[1.0, 0.0], [0.0, -2.0]], min=0)
    array([[1., 0.],
           [0., 0.]])
    """
    low = -math.inf if min is None else _number(min, "min")
    high = math.inf if max is None else _number(max, "max")
    if not low <= high:
        raise ValueError(f"min must not be above max, got {low} and {high}")
    function = Spectral(Function.CLAMP, low, high, floor=_floor(floor))
    return _apply(function, a, UPLO, check, return_info, driver)


def _apply(function: Spectral, a, uplo, check, return_info, driver):
    result, status = _spectral((function,), a, uplo, check, driver)
    return MatrixFunctionInfoResult(result, status) if return_info else result


def _spectral(functions: tuple[Spectral, ...], a, uplo, check, driver) -> tuple:
    """The results and the status."""
    library = library_of(a)
    if library.traces(a) or library.spreads(a):
        solve = _autograd(library.name).spectral
        return solve(a, uplo, check, driver, functions)
    *results, _, _, status = dispatch.spectral(
        library, a, uplo, check, driver, functions
    )
    return *results, status


def _floor(floor) -> float:
    """What `Spectral` has of it."""
    if floor is None:
        return -1.0
    number = _number(floor, "floor")
    if not 0 <= number < math.inf:
        raise ValueError(f"floor must be None or a number from 0 on, got {floor!r}")
    return number


def _exponent(p) -> float:
    number = _number(p, "p")
    if not -math.inf < number < math.inf:
        raise ValueError(f"p must be finite, got {p!r}")
    return number


def _number(x, name: str) -> float:
    """A number of Python of what may be an array of one."""
    # One of Python may be a symbol to torch, which has no attributes to look at.
    if not isinstance(x, float) and getattr(x, "requires_grad", False):
        raise ValueError(f"{name} is not differentiated: pass a number")
    if isinstance(x, bool | np.bool_ | str | bytes):
        raise ValueError(f"{name} must be a number, got {x!r}")
    try:
        number = float(x)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number, got {x!r}") from error
    if number != number:  # NaN, of a symbol too
        raise ValueError(f"{name} must be a number, got {x!r}")
    return number


def _autograd(library: str) -> ModuleType:
    """Imported at the first call that needs it."""
    if library == "torch":
        from .autograd.torch import matfun as for_torch

        return for_torch
    from .autograd.jax import matfun as for_jax

    return for_jax
