"""The solvers under JAX's jit, grad, vmap, jvp, and what these compose to.

One primitive does the work. Outside `jax.jit` it solves concrete arrays as `bed.eigh`
does, without copies and on the device they are on. Under `jax.jit` it becomes a custom
call that solves in XLA's memory, on XLA's stream, and each part of a batch where it is
(`xla/eigh.py`). Arrays that are spread over devices go that way in any case. It solves
any leading axes, so that `jax.vmap` only adds one. Its derivative is `eigh_jvp` of
`bed._derivative`: linear in the tangent, so that JAX transposes it for reverse mode,
and made of functions that JAX knows, so that it is differentiated again for second
derivatives.

`bed.eigh` comes here by itself with such arrays; there is no need to import this.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from ..._derivative.eigh import eigh_jvp
from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ..._dispatch.normalize import (
    normalize_uplo,
    raise_unless_check,
    raise_unless_square,
)
from ..._dispatch.policy import choose
from ..._dispatch.symmetry import raise_on_asymmetry
from ..._status import raise_on_failure
from ...engines import real_dtype
from ...engines._float_mode import default_float_mode
from ._failed import nan_where_failed
from ._phase import phase_checked
from .xla import eigh as xla


def eigh(a: jax.Array, uplo, check, driver, method: Method):
    """`bed.eigh` for traced arrays, under jit, grad, vmap, jvp: ``(w, v, status)``.

    float16 and bfloat16 are computed in float32, and the gradient is theirs again. The
    bits are those of a call with concrete arrays.

    Raises
    ------
    ValueError
        Besides what `bed.eigh` raises: `check` is not False in a function that is
        traced, where there are no values to look at; an explicit mesh splits matrices;
        their size is symbolic.
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

    It is finite where eigenvalues coincide, and right there for a loss of the
    eigenvalues alone, or of the eigenvectors alone if it does not depend on their basis
    in a repeated eigenspace or on their phases. The first derivatives of a loss that
    mixes both, such as ⟨C, V f(w) Vᴴ⟩, and second derivatives are not determined there
    by the gradients of w and V: what comes out lacks the part inside the eigenspace,
    but for its diagonal. `bed.sqrtm` and the other functions of matrices, and
    `bed.funm`, have derivatives of their own.

    A matrix that failed has NaN as gradient, but zero where the loss leaves it out, and
    NaN as tangent, but zero where it does not move; its neighbours keep theirs.

    Arrays with parts on several devices are solved where they are, if leading axes are
    split; matrices that are split are put together first. `jax.export` needs
    ``DisabledSafetyCheck.custom_call("bed_eigh")``, and a process that runs what was
    exported has to import this module before.
    """
    x, uplo = _opened(a, uplo, check)
    w, v, status = _solve(x, uplo, driver, method, eigenvectors=True)
    if check:
        _raise_on_failure(a, uplo, check, status)
    if method.check_phase and jnp.iscomplexobj(v):
        v = phase_checked(v)
    return w, v, status


def eigvalsh(a: jax.Array, uplo, check, driver):
    """`bed.eigvalsh` for traced arrays: ``(w, status)``.

    The eigenvectors are computed when a derivative is taken, and only then.
    """
    x, uplo = _opened(a, uplo, check)
    w, status = _solve(x, uplo, driver, Method(), eigenvectors=False)
    if check:
        _raise_on_failure(a, uplo, check, status)
    return w, status


def _opened(a, uplo, check):
    """The array in the dtype that is computed in, and the triangle."""
    uplo = normalize_uplo(uplo)
    raise_unless_check(check)
    if check and isinstance(a, jax.core.Tracer):
        raise ValueError(
            f"check={check!r} cannot raise under jax.jit, grad or vmap, where there "
            "are no values to look at: pass return_info=True and read the status"
        )
    raise_unless_square(a.shape)
    if not isinstance(a.shape[-1], int):
        raise ValueError(
            f"the size of the matrices must be a number, got shape {a.shape}: only the "
            "batch can be of any size in what jax.export exports"
        )
    dtype = compute_dtype(a.dtype)
    # Integers stay, and are converted where float64 exists.
    inexact = jnp.issubdtype(a.dtype, jnp.inexact)
    return (a.astype(dtype) if inexact else a), uplo


def _raise_on_failure(a, uplo, check, status):
    """For concrete arrays, which are here because they are spread over devices."""
    leading = status.shape
    if check == "hermitian":
        matrices = np.asarray(a).reshape(math.prod(leading), *a.shape[-2:])
        dtype = compute_dtype(a.dtype)
        raise_on_asymmetry(matrices.astype(dtype), uplo, leading, a.dtype.name)
    raise_on_failure(np.asarray(status))


# The primitive: one array (..., n, n) and static options to a list of arrays.
_solve_p = Primitive("bed_eigh")
_solve_p.multiple_results = True


def _solve(a, uplo, driver, method, *, eigenvectors):
    options = {"uplo": uplo, "driver": driver, "method": method}
    return tuple(_solve_p.bind(a, eigenvectors=eigenvectors, **options))


@_solve_p.def_impl
def _solve_now(a, *, uplo, driver, eigenvectors, method):
    """For concrete arrays, which also grad and vmap arrive at outside jit."""
    library = library_of(a)
    if library.spreads(a):
        with jax.disable_jit(False):
            return _solve_spread(a, uplo, driver, eigenvectors)
    del method
    results = solve.eigh(library, a, uplo, False, driver, eigenvectors)
    return [x for x in results if x is not None]


@partial(jax.jit, static_argnums=(1, 2, 3))
def _solve_spread(a, uplo, driver, eigenvectors):
    """For arrays with parts on several devices: each solves what it has."""
    return _solve(a, uplo, driver, Method(), eigenvectors=eigenvectors)


@_solve_p.def_abstract_eval
def _outputs(a, *, eigenvectors, **_):
    dtype = jax.dtypes.canonicalize_dtype(compute_dtype(a.dtype))
    real = real_dtype(dtype)
    shapes = [(a.shape[:-1], real), (a.shape, dtype), (a.shape[:-2], np.dtype("i4"))]
    if not eigenvectors:
        del shapes[1]
    return placed(a, shapes)


def placed(a, shapes):
    """Results of shapes and dtypes that have the leading axes of a, where a is."""
    batch = a.shape[:-2]
    # Specified where a mesh has explicit axes.
    mesh, spec = a.sharding.mesh, a.sharding.spec
    if any(axis is not None for axis in spec[len(batch) :]):
        raise ValueError(
            f"matrices must not be split over devices, got the sharding {spec}: "
            "reshard to one that splits leading axes alone"
        )
    results = []
    for shape, dtype in shapes:
        whole = (None,) * (len(shape) - len(batch))
        sharding = NamedSharding(mesh, PartitionSpec(*spec[: len(batch)], *whole))
        x = a.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
        results.append(x)
    return results


def _tangents(primals, tangents, *, eigenvectors, method, **options):
    """Of eigenvalues alone, too, the eigenvectors are computed then."""
    w, v, status = _solve_p.bind(*primals, eigenvectors=True, method=method, **options)
    (da,) = tangents
    # A GPU multiplies float32 with 10 bits by default, and gradients would show it.
    with jax.default_matmul_precision("highest"):
        dw, dv = _differentials(w, v, da, method)
    none = ad.Zero(jax.typeof(status).to_tangent_aval())
    results = [(w, dw), (v, dv), (status, none)]
    if not eigenvectors:
        del results[1]
    return tuple(zip(*results, strict=True))


def _differentials(w, v, da, method):
    """Of matrices that failed, NaN or zero."""
    failed = jnp.any(jnp.isnan(w), axis=-1)
    w = jnp.where(failed[..., None], 0, w)
    v = jnp.where(failed[..., None, None], 0, v)
    da = nan_where_failed(failed, da)
    dw, dv = eigh_jvp(w, v, da, gradient=method.gradient, degree=method.degree)
    return nan_where_failed(failed, dw), nan_where_failed(failed, dv)


ad.primitive_jvps[_solve_p] = _tangents


def _call_back(solve_now, context, *operands, driver, **options):
    """For an XLA that refuses the custom call. It has all of the batch on one device.

    `jax.pure_callback` does the same, but makes a JAX array of the argument before, and
    waits for it in XLA's own thread: with one core and large arrays, for ever.
    """
    a = context.avals_in[0]
    # A wrong name is told when it compiles.
    choose(a.shape[-1], compute_dtype(a.dtype), "cpu", driver=driver)

    def call(*arrays):
        # From integers comes float64, which JAX converts if it has none.
        with default_float_mode():  # XLA's threads flush subnormal numbers
            return solve_now(*arrays, driver=driver, **options)

    results, _, _ = mlir.emit_python_callback(
        context,
        call,
        None,  # no token: nothing but the results comes of it
        operands,
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


def _call_in_place(
    solve_now,
    context,
    *operands,
    platform,
    call=None,
    lower=xla.lower,
    **options,
):
    """A custom call, or if XLA refuses it, the call back."""
    if reason := xla.problem(platform, call):
        if platform == "cuda":
            xla.warn_of_copies(reason)
        return _call_back(solve_now, context, *operands, **options)
    return lower(context, *operands, device=platform, **options)


def lowerings(solve_now, **by):
    """Platforms, None for any, and their rules to compile what `solve_now` does.

    By another custom call than that of the solvers if `call` and its rule `lower` are
    given.
    """
    yield None, _refuse
    for platform in ("cpu", "cuda"):
        yield platform, partial(_call_in_place, solve_now, platform=platform, **by)


for _platform, _rule in lowerings(_solve_now):
    mlir.register_lowering(_solve_p, _rule, platform=_platform)


def _solve_mapped(arguments, axes, **options):
    """Of `jax.vmap`: the mapped axis becomes one more leading axis."""
    results = _solve_p.bind(jnp.moveaxis(arguments[0], axes[0], 0), **options)
    return results, [0] * len(results)


batching.primitive_batchers[_solve_p] = _solve_mapped
