"""The solvers under the names and with the arguments of `jax.numpy.linalg`.

Code that calls ``jnp.linalg.eigh`` or ``jnp.linalg.eigvalsh`` can call these instead.
They return JAX arrays, whatever they are given. Nothing of JAX is imported before the
first call.

The one difference from `bed.eigh` is what is read of a matrix: `bed.eigh` reads one
triangle, these read the mean of both unless ``symmetrize_input=False``. So do the
functions of matrices, `sqrtm` and others, which are those of `bed` but for that.
"""

from collections.abc import Callable
from typing import Any

from . import _eigh, _funm, matfun
from ._dispatch.dtypes import compute_dtype
from ._dispatch.normalize import raise_unless_square

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

_OLDEST = (0, 10)
_INSTALL = (
    "pip install 'batched-ed[jax]', with Python 3.11 or newer, as JAX has from 0.10 on"
)


def eigh(
    a: Any, UPLO: str | None = None, symmetrize_input: bool = True, **options: Any
) -> Any:
    """Eigenvalues and eigenvectors of a batch of symmetric or Hermitian matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        What `jax.numpy.asarray` takes, traced arrays included, with a dtype that
        `bed.eigh` takes.
    UPLO : {"L", "U"}, optional
        The triangle that is read where `symmetrize_input` is False. By default "L".
    symmetrize_input : bool, optional
        Solve ``(a + aᴴ) / 2``, so that both triangles count, as `jax.numpy.linalg.eigh`
        does. For a Hermitian matrix of normal numbers this changes nothing.
    **options
        `return_info`, `check`, `driver` and whatever else `bed.eigh` has by keyword. Of
        `b`, too, both triangles count with `symmetrize_input`.

    Returns
    -------
    eigenvalues : jax.Array, shape (..., n), real
        Ascending.
    eigenvectors : jax.Array, shape (..., n, n)
        Column ``[..., :, i]`` belongs to eigenvalue ``[..., i]``.
    status : jax.Array, shape (...), int32
        Only with ``return_info=True``; see `bed.eigh`.

    Raises
    ------
    numpy.linalg.LinAlgError, TypeError, ValueError
        As `bed.eigh`. Also ValueError for ``check="hermitian"`` together with
        `symmetrize_input`, which would leave nothing to find.
    ImportError
        JAX is not installed, or older than 0.10.

    Notes
    -----
    NaN and infinities in either triangle make the matrix fail with `symmetrize_input`,
    as both triangles are read. The gradient is that of `jax.numpy.linalg.eigh`, at
    matrices that are not Hermitian too.

    Where eigenvalues coincide, it is finite, and right for a loss of the eigenvalues
    alone or of projectors on whole eigenspaces. For a loss that mixes eigenvalues and
    eigenvectors, such as that of a matrix function V f(w) Vᴴ, and for second
    derivatives, it lacks the part inside the eigenspace, but for its diagonal:
    `bed.jax.sqrtm` and the other functions of matrices, and `bed.jax.funm`, have it.

    Results have the device, the sharding and the commitment that those of
    `jax.numpy.linalg.eigh` have. On the CPU, NUMBA_NUM_THREADS says how many threads
    solve a batch; XLA's own settings do not count.

    Examples
    --------
    >>> import bed.jax
    >>> w, v = bed.jax.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> w.shape, v.shape
    ((2,), (2, 2))
    """
    a, options = _given(a, symmetrize_input, options)
    return _eigh.eigh(a, UPLO or "L", **options)


def eigvalsh(
    a: Any,
    UPLO: str | None = "L",
    *,
    symmetrize_input: bool = True,
    **options: Any,
) -> Any:
    """Eigenvalues of a batch of symmetric or Hermitian matrices.

    Parameters, errors and notes are those of `eigh`.

    Returns
    -------
    eigenvalues : jax.Array, shape (..., n), real
        Ascending. With ``return_info=True`` a named tuple ``(eigenvalues, status)``.

    Examples
    --------
    >>> import bed.jax
    >>> bed.jax.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).tolist()
    [1.0, 3.0]
    """
    a, options = _given(a, symmetrize_input, options)
    return _eigh.eigvalsh(a, UPLO or "L", **options)


def sqrtm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Principal square root of positive semidefinite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    symmetrize_input : bool, optional
        As for `eigh`.
    **options
        What `bed.sqrtm` has: `floor`, `return_info`, `check`, `driver`, and `UPLO`,
        which counts where `symmetrize_input` is False.

    Returns
    -------
    result : jax.Array, shape (..., n, n)
        With ``return_info=True`` a named tuple ``(result, status)``.

    See Also
    --------
    bed.sqrtm : with domain, derivatives and notes.

    Examples
    --------
    >>> import bed.jax
    >>> bed.jax.sqrtm([[4.0, 0.0], [0.0, 9.0]]).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return _function(matfun.sqrtm, a, symmetrize_input, options)


def invsqrtm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Inverse of the principal square root; see `sqrtm` and `bed.invsqrtm`."""
    return _function(matfun.invsqrtm, a, symmetrize_input, options)


def sqrtm_invsqrtm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Both, from one decomposition; see `sqrtm` and `bed.sqrtm_invsqrtm`."""
    return _function(matfun.sqrtm_invsqrtm, a, symmetrize_input, options)


def logm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Principal logarithm; see `sqrtm` and `bed.logm`."""
    return _function(matfun.logm, a, symmetrize_input, options)


def expm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Exponential; see `sqrtm` and `bed.expm`."""
    return _function(matfun.expm, a, symmetrize_input, options)


def powm(a: Any, p: float, symmetrize_input: bool = True, **options: Any) -> Any:
    """Real power; see `sqrtm` and `bed.powm`."""
    return _function(matfun.powm, a, symmetrize_input, options, p)


def absm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Absolute value; see `sqrtm` and `bed.absm`."""
    return _function(matfun.absm, a, symmetrize_input, options)


def signm(a: Any, symmetrize_input: bool = True, **options: Any) -> Any:
    """Matrix sign; see `sqrtm` and `bed.signm`."""
    return _function(matfun.signm, a, symmetrize_input, options)


def clampm(
    a: Any,
    min: float | None = None,
    max: float | None = None,
    symmetrize_input: bool = True,
    **options: Any,
) -> Any:
    """Eigenvalues limited to an interval; see `sqrtm` and `bed.clampm`."""
    return _function(matfun.clampm, a, symmetrize_input, options, min, max)


def funm(
    a: Any,
    f: Callable,
    df: Callable | None = None,
    d2f: Callable | None = None,
    symmetrize_input: bool = True,
    **options: Any,
) -> Any:
    """A function that the caller writes; see `sqrtm` and `bed.funm`."""
    return _function(_funm.funm, a, symmetrize_input, options, f, df, d2f)


def _function(function, a, symmetrize, options, *parameters):
    a, options = _given(a, symmetrize, options)
    return function(a, *parameters, **options)


def _jax():
    """JAX, which is not imported before it is needed."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"bed.jax needs JAX: {_INSTALL}") from error
    if jax.__version_info__ < _OLDEST:
        raise ImportError(f"bed.jax does not know JAX {jax.__version__}: {_INSTALL}")
    return jax


def _given(a, symmetrize, options):
    """The matrices that the solver is given, b among its options."""
    check = options.get("check")
    if options.get("b") is not None:
        options = {**options, "b": _read(options["b"], symmetrize, check)}
    return _read(a, symmetrize, check), options


def _read(a, symmetrize, check):
    """Matrices as an array of JAX."""
    jax = _jax()
    jnp = jax.numpy
    a = jnp.asarray(a)
    if not symmetrize:
        return a
    if check == "hermitian":
        raise ValueError(
            "check='hermitian' finds nothing in matrices that are symmetrised before: "
            "pass symmetrize_input=False"
        )
    raise_unless_square(a.shape)
    dtype = jax.dtypes.canonicalize_dtype(compute_dtype(a.dtype))
    a = a.astype(dtype)
    mirrored = jnp.conj(jnp.swapaxes(a, -1, -2))
    # Halved first, because the sum could overflow. XLA flushes subnormal numbers, also
    # halves of normal ones: what is equal already is left as it is.
    return jnp.where(a == mirrored, a, a / 2 + mirrored / 2)
