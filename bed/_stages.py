"""The two stages of the decomposition as public functions of their own."""

import math
from typing import Any

import numpy as np

from . import _interop
from ._normalize import compute_dtype, converted, normalize, normalize_uplo
from ._policy import choose_stage
from ._status import (
    EighInfoResult,
    EighResult,
    EigvalshInfoResult,
    Status,
    TridiagonalizeResult,
    raise_on_failure,
)
from .engines import allocate, allocate_reduced


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
        Name of an engine with this stage: ``"numba_cpu"`` for host arrays, ``"staged"``
        for arrays in GPU memory.

    Returns
    -------
    d : shape (..., n), real
        Diagonal of T.
    e : shape (..., n - 1), real
        The couplings T[i, i + 1] = T[i + 1, i], of either sign.
    q : shape (..., n, n)

    A matrix with NaN or Inf has NaN in all three.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` is not a stack of square matrices.
    TypeError
        The dtype is not accepted, or torch or JAX follows the array: this function has
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
    uplo = normalize_uplo(UPLO)
    _refuse_to_follow("bed.tridiagonalize", a)
    received = _interop.receive(a)
    with received.running():
        problem = normalize(received)
        leading, n, dtype = problem.leading, problem.n, problem.dtype
        engine = choose_stage("tridiagonalize", n, dtype, received.device, driver)
        d, e, q = outputs = allocate_reduced(received.empty, (*leading, n), dtype)
        if problem.a.size:
            a = converted(problem.a, dtype)
            engine(a, uplo, out=received.open_batch(outputs, leading))
        return TridiagonalizeResult(
            received.give_back(d), received.give_back(e), received.give_back_vectors(q)
        )


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
        The couplings beside the diagonal. Leading axes are broadcast against those of
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

    All arrays are of the library of `d`.

    Raises
    ------
    numpy.linalg.LinAlgError
        `check` found failures: the message names the first ten.
    TypeError
        A dtype is not accepted, or torch or JAX follows an array: this function has no
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
    _refuse_to_follow("bed.eigh_tridiagonal", d, e)
    received, others = _interop.receive(d), _interop.receive(e)
    with received.running():
        d, e, leading = _joined(received, others)
        n, dtype, wanted = d.shape[1], d.dtype, not eigvals_only
        engine = choose_stage("eigh_tridiagonal", n, dtype, received.device, driver)
        outputs = allocate(received.empty, (*leading, n), dtype, eigenvectors=wanted)
        *_, status = opened = received.open_batch(outputs, leading)
        if d.size:
            engine(d, e, eigenvectors=wanted, out=opened)
        else:
            status[...] = int(Status.OK)
        if check:
            raise_on_failure(_interop.to_host(status).reshape(leading))
        w, v, status = (None if x is None else received.give_back(x) for x in outputs)
    if eigvals_only:
        return EigvalshInfoResult(w, status) if return_info else w
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def _joined(received, others):
    """Diagonals (batch, n) and couplings (batch, n - 1) in one dtype; leading axes."""
    d, e = received.array, others.array
    if received.device != others.device:
        raise ValueError(
            "d and e must be in the same memory, got d in "
            f"{received.device} memory and e in {others.device} memory"
        )
    if d.ndim < 1 or e.ndim < 1 or e.shape[-1] != max(d.shape[-1] - 1, 0):
        raise ValueError(
            "expected d of shape (..., n) and e of shape (..., n - 1), got "
            f"{d.shape} and {e.shape}"
        )
    dtype = np.result_type(compute_dtype(d.dtype), compute_dtype(e.dtype))
    if dtype.kind == "c":
        raise TypeError(f"d and e must be real, got {d.dtype} and {e.dtype}")
    try:
        leading = np.broadcast_shapes(d.shape[:-1], e.shape[:-1])
    except ValueError:
        raise ValueError(
            f"the leading axes of d {d.shape} and e {e.shape} do not broadcast"
        ) from None
    d, e = (
        converted(
            np.broadcast_to(x, (*leading, x.shape[-1])).reshape(
                (math.prod(leading), x.shape[-1])
            ),
            dtype,
        )
        for x in (d, e)
    )
    return d, e, leading


def _refuse_to_follow(name: str, *arrays) -> None:
    for a in arrays:
        if library := _interop.followed_by(a):
            raise TypeError(
                f"{name} has no derivative and is not traced, and {library} follows "
                "this array: detach it, or use bed.eigh, which is differentiated"
            )
