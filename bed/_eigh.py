"""`bed.eigh` and `bed.eigvalsh`: what they promise, and one call to what does it."""

from types import ModuleType
from typing import Any

from ._derivative.method import normalize_method
from ._dispatch import solve
from ._dispatch.arrange import ASCENDING, RAW, arrange, normalize_arrangement
from ._dispatch.interop import library_of
from ._generalized import generalized
from ._status import EighInfoResult, EighResult, EigvalshInfoResult


def eigh(
    a: Any,
    UPLO: str = "L",
    *,
    b: Any = None,
    order: str = ASCENDING,
    signs: str = RAW,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
    gradient: str = "exact",
    degree: int = 9,
    check_phase: bool = False,
) -> EighResult | EighInfoResult:
    """Eigenvalues and eigenvectors of a batch of symmetric or Hermitian matrices.

    Finds A = V diag(w) Vᴴ for every matrix of the batch. With `b`, of the generalised
    problem: A V = B V diag(w), with Vᴴ B V = I.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        NumPy, CuPy, torch or JAX array, anything with ``__dlpack__``, or nested lists.
        float32, float64, complex64 and complex128 are computed as they are, float16 and
        bfloat16 in float32, integers and bool in float64. Any strides; never written.
    UPLO : {"L", "U"}, optional
        The triangle that is read. The other one and the imaginary part of the diagonal
        are ignored, whatever they hold.
    b : array_like, shape (..., n, n), optional
        Positive definite matrices B, of which the same triangle is read. Leading axes
        of `a` and `b` are broadcast, and dtypes are promoted; both must be in memory of
        the same kind.
    order : {"ascending", "descending", "magnitude"}, optional
        Of the eigenvalues, and of their eigenvectors. ``"magnitude"``: the largest |λ|
        first; of equal ones the smaller eigenvalue, which is the negative one.
    signs : {"raw", "max"}, optional
        Eigenvectors are determined up to a sign, or a phase if they are complex.
        ``"raw"`` (default): as they are found. ``"max"``: such that the entry of
        largest magnitude of each is positive; of those within 8·n·eps of the largest
        it is the first one.
    check : bool or "hermitian", optional
        False (default): nothing is raised for numerical reasons, and a GPU is not
        waited for. True: wait, and raise if any matrix failed. ``"hermitian"``: also
        read the other triangle, and raise if a matrix differs from its conjugate
        transpose by more than rounding.
    return_info : bool, optional
        Also return the status of every matrix.
    driver : str, optional
        Name of the engine, see `bed.show_config`. By default chosen by size and device,
        see `bed.explain`.
    gradient : str, optional
        What stands for 1/(λⱼ − λᵢ) in the derivative of the eigenvectors: ``"exact"``,
        or one of the approximations ``"taylor"``, ``"pade"``, ``"power_iteration"`` and
        ``"truncated"``, which are bounded where eigenvalues nearly coincide and wrong
        by as much. ``bed._derivative.gaps`` has their formulas, bounds and errors.
    degree : int, optional
        Of ``"taylor"`` and ``"power_iteration"``.
    check_phase : bool, optional
        Look in the derivative whether the loss depends on the phases of complex
        eigenvectors, which are arbitrary: it has no derivative then. What is seen is
        the first order, at the phases that came out. torch raises RuntimeError in
        backward, after waiting for the device; JAX, where traced code cannot raise,
        gives NaN as the gradient of such a matrix.

    Returns
    -------
    eigenvalues : shape (..., n), real
        Ascending, or as `order` says.
    eigenvectors : shape (..., n, n)
        Column ``[..., :, i]`` belongs to eigenvalue ``[..., i]``.
    status : shape (...), int32
        Only with ``return_info=True``. 0: solved. 1: NaN or Inf in the input. 2: no
        convergence. 3: an eigenvalue overflows the dtype and is ±inf. 5: `b` is not
        positive definite. With 1, 2 and 5 all of the matrix's eigenvalues and
        eigenvectors are NaN.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` or `b` is not a stack of square matrices, or `check` found failures: the
        message names the first ten by batch index and reason. For torch tensors it is a
        `torch.linalg.LinAlgError` too.
    TypeError
        The dtype is not accepted, or `a` and `b` are of different libraries and one of
        them is differentiated.
    ValueError
        Unknown `UPLO`, `order`, `signs`, `check`, `driver` or `gradient`, or a `degree`
        below zero. Shapes or memory of `a` and `b` do not fit together.
    ImportError
        The array or the engine needs a package that is not installed.

    See Also
    --------
    eigvalsh : eigenvalues alone.

    Notes
    -----
    All arrays are of the library and on the device of `a`.

    Residual, departure from orthogonality and error of the eigenvalues stay below
    8·n·eps, relative to the largest entry of each matrix; an eigenvalue below the
    normal range is right to a step of the subnormal numbers. A matrix that fails leaves
    its neighbours untouched, and the result for a matrix does not depend, bit for bit,
    on the batch it came in (except with ``driver="reference"``).

    torch tensors are differentiated, by backward and forward mode, as often as asked
    for, under ``torch.func`` and inside ``torch.compile``. The gradient is that of a
    matrix varied within the Hermitian ones, whatever triangle is read: it is Hermitian,
    and both its triangles are filled, as with ``torch.linalg.eigh``. The same holds for
    JAX arrays under ``grad``, ``jvp``, ``vmap`` and ``jit``, on the CPU and on CUDA
    devices; `bed.jax` has the names and arguments of `jax.numpy.linalg`.

    Where eigenvalues coincide, derivatives are finite. First ones are right there for a
    loss of eigenvalues alone, and for one of eigenvectors alone that does not depend on
    the basis of their space or on phases. A loss that mixes both, such as a function
    V f(w) Vᴴ, and second derivatives are not determined by the gradients with respect
    to w and V: what comes out lacks the part inside the repeated space but for its
    diagonal. `bed.sqrtm` and the other functions of matrices have it: take the
    derivative of the function of A itself, and not through its eigenvectors. A matrix
    that failed has gradient zero if the loss leaves it out, else NaN.

    With ``signs="max"`` phases do not depend on how the eigenvectors were found, and
    derivatives are those of the vectors as they are returned: a loss may depend on the
    phases. Where two entries compete for the largest there is none.

    With `b` the problem is reduced by a Cholesky factor of it, L: to L⁻¹ A L⁻ᴴ. In
    units of 8·n·eps, residuals |A x − λ B x| stay below κ (|A| + |λ| |B|) |x|, errors
    of eigenvalues below |A| |B⁻¹|, and the departure of Vᴴ B V from I below κ, the
    condition of B. For an ill-conditioned B the small eigenvalues are lost, as in
    LAPACK. Units do not matter: matrices are scaled by powers of two, each row and
    column of B by its own. Derivatives are with respect to both matrices. What is said
    of them here holds, but that they contain the lengths of eigenvectors, which follow
    from B.

    On the CPU, NUMBA_NUM_THREADS threads work on a batch, or as many as the process may
    use cores; for torch tensors no more than ``torch.get_num_threads()``.

    Householder tridiagonalisation, then QR iteration with Wilkinson shifts and
    shrinkage as in Song, Sebe and Wang, "Batch-efficient EigenDecomposition for Small
    and Medium Matrices", ECCV 2022, section 3.

    Examples
    --------
    >>> import bed, numpy as np
    >>> w, v = bed.eigh(np.array([[[2.0, 1.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, -3.0]]]))
    >>> w
    array([[ 1.,  3.],
           [-3.,  0.]])

    >>> w, v = bed.eigh([[2.0, -1.0], [-1.0, 2.0]], order="descending", signs="max")
    >>> w, v.round(3)
    (array([3., 1.]), array([[ 0.707,  0.707],
           [-0.707,  0.707]]))

    Vibrations of two masses, 1 and 4, between springs:

    >>> stiffness, mass = [[2.0, -1.0], [-1.0, 2.0]], np.diag([1.0, 4.0])
    >>> bed.eigh(stiffness, b=mass).eigenvalues
    array([0.34861218, 2.15138782])
    """
    method = normalize_method(gradient, degree, check_phase)
    library = library_of(a)
    as_found = order is ASCENDING and signs is RAW
    arrangement = None if as_found else normalize_arrangement(order, signs)
    if b is not None:
        options = UPLO, check, driver, arrangement, True
        w, v, status = generalized(library, a, b, *options, method)
    elif library.traces(a) or library.spreads(a):
        w, v, status = _autograd(library.name).eigh(a, UPLO, check, driver, method)
        if arrangement is not None:
            w, v = arrange(w, v, arrangement)
    elif arrangement is None:
        w, v, status = solve.eigh(library, a, UPLO, check, driver)
    else:
        options = UPLO, check, driver, arrangement, True
        w, v, status = solve.eigh_arranged(library, a, *options)
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def eigvalsh(
    a: Any,
    UPLO: str = "L",
    *,
    b: Any = None,
    order: str = ASCENDING,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Eigenvalues of a batch of symmetric or Hermitian matrices.

    Parameters, errors and promises are those of `eigh`, also of `b`. The derivative of
    eigenvalues is always exact.

    Returns
    -------
    eigenvalues : shape (..., n), real
        Ascending, or as `order` says. With ``return_info=True`` a named tuple
        ``(eigenvalues, status)``.

    Examples
    --------
    >>> import bed
    >>> bed.eigvalsh([[2, 1], [1, 2]])
    array([1., 3.])
    >>> bed.eigvalsh([[2, 1], [1, 2]], b=[[2, 0], [0, 2]], order="descending")
    array([1.5, 0.5])
    """
    library = library_of(a)
    arrangement = None if order is ASCENDING else normalize_arrangement(order)
    if b is not None:
        options = UPLO, check, driver, arrangement, False
        w, _, status = generalized(library, a, b, *options)
    elif library.traces(a) or library.spreads(a):
        w, status = _autograd(library.name).eigvalsh(a, UPLO, check, driver)
        if arrangement is not None:
            w, _ = arrange(w, None, arrangement)
    elif arrangement is None:
        w, _, status = solve.eigh(library, a, UPLO, check, driver, False)
    else:
        options = UPLO, check, driver, arrangement, False
        w, _, status = solve.eigh_arranged(library, a, *options)
    return EigvalshInfoResult(w, status) if return_info else w


def _autograd(library: str) -> ModuleType:
    """Imported at the first call that needs it."""
    if library == "torch":
        from .autograd.torch import eigh as for_torch

        return for_torch
    from .autograd.jax import eigh as for_jax

    return for_jax
