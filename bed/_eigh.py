"""The public solvers: normalise, choose, run, wrap. Nothing numeric happens here."""

from collections.abc import Callable
from typing import Any

from . import _interop
from ._normalize import normalize, normalize_rule, normalize_uplo
from ._policy import choose
from ._status import (
    EighInfoResult,
    EighResult,
    EigvalshInfoResult,
    Status,
    raise_on_failure,
)
from ._symmetry import raise_on_asymmetry
from .engines import allocate

# Name of a library to what gives its module in `bed.autograd`, with the functions
# `decompose(a, uplo, check, driver, rule) -> (w, v, status)` and
# `values(a, uplo, check, driver) -> (w, status)`. Filled in there, because this file is
# below that one.
DIFFERENTIABLE: dict[str, Callable] = {}


def eigh(
    a: Any,
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
    gradient: str = "exact",
    degree: int = 9,
    check_phase: bool = False,
) -> EighResult | EighInfoResult:
    """Eigenvalues and eigenvectors of a batch of symmetric or Hermitian matrices.

    Finds A = V diag(w) Vᴴ for every matrix of the batch.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        NumPy, CuPy, torch or JAX array, anything with ``__dlpack__``, or nested lists.
        float32, float64, complex64 and complex128 are computed as they are, float16 and
        bfloat16 in float32, integers and bool in float64. Any strides; never written.
    UPLO : {"L", "U"}, optional
        The triangle that is read. The other one and the imaginary part of the diagonal
        are ignored, whatever they hold.
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
        by as much. `bed._gradients` has their formulas, bounds and errors.
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
        Ascending.
    eigenvectors : shape (..., n, n)
        Column ``[..., :, i]`` belongs to eigenvalue ``[..., i]``.
    status : shape (...), int32
        Only with ``return_info=True``. 0: solved. 1: NaN or Inf in the input. 2: no
        convergence. 3: an eigenvalue overflows the dtype and is ±inf. With 1 and 2 all
        of the matrix's eigenvalues and eigenvectors are NaN.

    All arrays are of the library and on the device of `a`.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` is not a stack of square matrices, or `check` found failures: the message
        names the first ten by batch index and reason.
    TypeError
        The dtype is not accepted.
    ValueError
        Unknown `UPLO`, `check`, `driver` or `gradient`, or a `degree` below zero.
    ImportError
        The array or the engine needs a package that is not installed.

    See Also
    --------
    eigvalsh : eigenvalues alone.

    Notes
    -----
    Residual, departure from orthogonality and error of the eigenvalues stay below
    8·n·eps, relative to the largest entry of each matrix. A matrix that fails leaves
    its neighbours untouched, and the result for a matrix does not depend, bit for bit,
    on the batch it came in (except with ``driver="reference"``).

    torch tensors are differentiated, by backward and forward mode, as often as asked
    for, and under ``torch.func``; inside ``torch.compile`` by backward alone. The
    gradient is that of a matrix varied within the Hermitian ones, whatever triangle is
    read: it is Hermitian, and both its triangles are filled, as with
    ``torch.linalg.eigh``. It is finite where eigenvalues coincide, and right there for
    a loss that does not depend on which basis of their space, and which phases, the
    eigenvectors have. The same holds for JAX arrays under ``grad``, ``jvp``, ``vmap``
    and ``jit``, on the CPU and on CUDA devices; `bed.jax` has the names and arguments
    of `jax.numpy.linalg`.

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
    """
    rule = normalize_rule(gradient, degree, check_phase)
    if library := _interop.followed_by(a):
        differentiable = DIFFERENTIABLE[library]().decompose
        w, v, status = differentiable(a, UPLO, check, driver, rule)
    else:
        w, v, status = solve(a, UPLO, check, driver)
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def eigvalsh(
    a: Any,
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """Eigenvalues of a batch of symmetric or Hermitian matrices.

    Parameters, errors and promises are those of `eigh`. The derivative of eigenvalues
    is always exact.

    Returns
    -------
    eigenvalues : shape (..., n), real
        Ascending. With ``return_info=True`` a named tuple ``(eigenvalues, status)``.

    Examples
    --------
    >>> import bed
    >>> bed.eigvalsh([[2, 1], [1, 2]])
    array([1., 3.])
    """
    if library := _interop.followed_by(a):
        w, status = DIFFERENTIABLE[library]().values(a, UPLO, check, driver)
    else:
        w, _, status = solve(a, UPLO, check, driver, eigenvectors=False)
    return EigvalshInfoResult(w, status) if return_info else w


def solve(a, uplo, check, driver, *, eigenvectors=True):
    """The triple ``(w, v, status)`` in the caller's library, without derivatives."""
    uplo = normalize_uplo(uplo)
    if check not in (False, True, "hermitian"):
        raise ValueError(f"check must be False, True or 'hermitian', got {check!r}")
    received = _interop.receive(a)
    with received.running():
        w, v, status = _run(received, uplo, check, driver, eigenvectors)
        if v is not None:
            v = received.give_back_vectors(v)
        return received.give_back(w), v, received.give_back(status)


def _run(received, uplo, check, driver, eigenvectors):
    """Outputs as `received.empty` makes them, filled, with the caller's axes."""
    problem = normalize(received)
    leading, n, dtype = problem.leading, problem.n, problem.dtype
    engine = choose(
        n, dtype, received.device, eigenvectors=eigenvectors, driver=driver
    ).engine
    a = problem.array_for(engine)
    # With the caller's axes from the beginning: to torch, a view is not a new tensor.
    outputs = allocate(received.empty, (*leading, n), dtype, eigenvectors=eigenvectors)
    if check == "hermitian":
        raise_on_asymmetry(problem.a.astype(dtype, copy=False), leading)
    *_, status = opened = received.open_batch(outputs, leading)
    if a.size:
        engine.load()(a, uplo, eigenvectors=eigenvectors, out=opened)
    else:
        status[...] = int(Status.OK)
    if check:
        raise_on_failure(_interop.to_host(status).reshape(leading))
    return outputs
