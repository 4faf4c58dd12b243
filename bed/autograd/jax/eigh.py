"""The solvers under JAX's jit, grad, vmap, jvp, and what these compose to.

One primitive does the work. Outside `jax.jit` it solves concrete arrays as `bed.eigh`
does, without copies and on the device they are on. Under `jax.jit` it becomes a call
back to the host on the CPU, and on CUDA a custom call that solves in XLA's memory, on
XLA's stream (`xla/eigh.py`). It solves any leading axes, so that `jax.vmap` only adds
one. Its derivative is `eigh_jvp` of `bed._derivative`: linear in the tangent, so that
JAX transposes it for reverse mode, and made of functions that JAX knows, so that it is
differentiated again for second derivatives.

`bed.eigh` comes here by itself with a traced array; there is no need to import this.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import zero_from_primal
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ..._derivative.eigh import eigh_jvp
from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ..._dispatch.normalize import normalize_uplo, raise_unless_square
from ..._dispatch.policy import choose
from ...engines import real_dtype
from ._phase import phase_checked
from .xla import eigh as xla


def eigh(a: jax.Array, uplo, check, driver, method: Method):
    """`bed.eigh` for traced arrays, under jit, grad, vmap, jvp: ``(w, v, status)``.

    float16 and bfloat16 are computed in float32, and the gradient is theirs again. The
    bits are those of a call with concrete arrays.

    Raises
    ------
    ValueError
        Besides what `bed.eigh` raises: `check` is not False. A function that is traced
        has no values to look at.
    NotImplementedError
        ``jax.jit`` for another platform than the CPU and CUDA, when it compiles.

    Warns
    -----
    RuntimeWarning
        ``jax.jit`` on CUDA could not register its handler with XLA, for the reason that
        is told: what is compiled copies to the host, solves there, and copies back.

    Notes
    -----
    The gradient is that of a matrix varied within the Hermitian ones, whatever triangle
    is read: it is Hermitian and fills both triangles, as torch's. ``jnp.linalg.eigh``
    has the same gradient at a Hermitian matrix; at others its results differ, because
    it reads the mean of both triangles by default, as `bed.jax.eigh` does. As always in
    JAX, the gradient with respect to a complex matrix is the conjugate of torch's.

    It is finite where eigenvalues coincide, and right there for a loss that does not
    depend on the choice of eigenvectors, of their basis in a repeated eigenspace or of
    their phases. A matrix that failed has NaN as gradient; its neighbours keep theirs.
    """
    a, uplo = _checked(a, uplo, check)
    if not jnp.issubdtype(a.dtype, jnp.inexact):  # has no derivative
        return _solve(a, uplo, driver, eigenvectors=True)
    w, v, status = _decompose(a, uplo, driver, method)
    if method.check_phase and jnp.iscomplexobj(v):
        v = phase_checked(v)
    return w, v, status


def eigvalsh(a: jax.Array, uplo, check, driver):
    """`bed.eigvalsh` for traced arrays: ``(w, status)``.

    The eigenvectors are computed when a derivative is taken, and only then.
    """
    a, uplo = _checked(a, uplo, check)
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return _values(a, uplo, driver)
    return _solve(a, uplo, driver, eigenvectors=False)


def _checked(a, uplo, check):
    """The array in the dtype that is computed in, and the triangle."""
    a = jnp.asarray(a)
    uplo = normalize_uplo(uplo)
    if check is not False:
        raise ValueError(
            f"check={check!r} cannot raise under jax.jit, grad or vmap, where there "
            "are no values to look at: pass return_info=True and read the status"
        )
    raise_unless_square(a.shape)
    dtype = compute_dtype(a.dtype)
    # Integers stay, and are converted where float64 exists.
    inexact = jnp.issubdtype(a.dtype, jnp.inexact)
    return (a.astype(dtype) if inexact else a), uplo


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _decompose(a, uplo, driver, method):
    return _solve(a, uplo, driver, eigenvectors=True)


@_decompose.defjvp
def _decompose_jvp(uplo, driver, method, primals, tangents):
    (w, v, status) = _decompose(*primals, uplo, driver, method)
    (da,) = tangents
    dw, dv = _differentials(w, v, da, method)
    return (w, v, status), (dw, dv, zero_from_primal(status))


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _values(a, uplo, driver):
    return _solve(a, uplo, driver, eigenvectors=False)


@_values.defjvp
def _values_jvp(uplo, driver, primals, tangents):
    (w, v, status) = _decompose(*primals, uplo, driver, Method())
    (da,) = tangents
    dw, _ = _differentials(w, v, da, Method())
    return (w, status), (dw, zero_from_primal(status))


def _differentials(w, v, da, method):
    # A GPU multiplies float32 with 10 bits by default, and gradients would show it.
    with jax.default_matmul_precision("highest"):
        return eigh_jvp(w, v, da, gradient=method.gradient, degree=method.degree)


# XLA calls back from threads that flush subnormal numbers to zero, which changes bits
# of the result. This thread does not: a thread inherits the mode of the one that starts
# it, and so it is started here, by giving it something to do.
_HOST = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bed-jax")
_HOST.submit(int).result()

# The primitive: one array (..., n, n) and static options to a list of arrays.
_solve_p = Primitive("bed_eigh")
_solve_p.multiple_results = True


def _solve(a, uplo, driver, *, eigenvectors):
    options = {"uplo": uplo, "driver": driver, "eigenvectors": eigenvectors}
    return tuple(_solve_p.bind(a, **options))


@_solve_p.def_impl
def _solve_now(a, *, uplo, driver, eigenvectors):
    """For concrete arrays, which also grad and vmap arrive at outside jit."""
    results = solve.eigh(
        library_of(a), a, uplo, False, driver, eigenvectors=eigenvectors
    )
    return [x for x in results if x is not None]


@_solve_p.def_abstract_eval
def _outputs(a, *, uplo, driver, eigenvectors):
    del uplo, driver
    dtype = jax.dtypes.canonicalize_dtype(compute_dtype(a.dtype))
    real = real_dtype(dtype)
    shapes = [(a.shape[:-1], real), (a.shape, dtype), (a.shape[:-2], np.dtype("i4"))]
    if not eigenvectors:
        del shapes[1]
    return [a.update(shape=s, dtype=d, weak_type=False) for s, d in shapes]


def _call_back(context, operand, *, driver, **options):
    """For `jax.jit` on the CPU.

    `jax.pure_callback` does the same, but makes a JAX array of the argument before, and
    waits for it in XLA's own thread: with one core and large arrays, for ever.
    """
    (a,) = context.avals_in
    # A wrong name is told when it compiles.
    choose(a.shape[-1], compute_dtype(a.dtype), "cpu", driver=driver)

    def call(a):
        # From integers comes float64, which JAX converts if it has none.
        return _HOST.submit(_solve_now, a, driver=driver, **options).result()

    results, _, _ = mlir.emit_python_callback(
        context,
        call,
        None,  # no token: nothing but the results comes of it
        [operand],
        context.avals_in,
        context.avals_out,
        has_side_effect=False,
        returns_token=False,
    )
    return results


def _refuse(context, *_, **__):
    platforms = ", ".join(context.module_context.platforms)
    raise NotImplementedError(
        f"bed does not run under jax.jit on {platforms}: compile for the CPU or CUDA"
    )


def _call_in_place(context, operand, **options):
    """For `jax.jit` on CUDA: a custom call, or if XLA refuses it, the call back."""
    if reason := xla.problem("cuda"):
        xla.warn_of_copies(reason)
        return _call_back(context, operand, **options)
    return xla.lower(context, operand, **options)


mlir.register_lowering(_solve_p, _refuse)
mlir.register_lowering(_solve_p, _call_back, platform="cpu")
mlir.register_lowering(_solve_p, _call_in_place, platform="cuda")


def _solve_mapped(arguments, axes, **options):
    """Of `jax.vmap`: the mapped axis becomes one more leading axis."""
    results = _solve_p.bind(jnp.moveaxis(arguments[0], axes[0], 0), **options)
    return results, [0] * len(results)


batching.primitive_batchers[_solve_p] = _solve_mapped
