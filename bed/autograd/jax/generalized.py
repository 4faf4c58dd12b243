"""The generalised problem under JAX's jit, grad, vmap, jvp, and what these compose to.

A primitive of two arrays of one shape and dtype, as that of one in `eigh` beside this
file. JAX brings both there, and adds up what that makes of their derivatives.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..._derivative.generalized import eigh_generalized_jvp
from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ..._dispatch.normalize import broadcast_leading
from ._failed import nan_where_failed
from ._linear import _at_front as at_front
from ._phase import phase_checked
from .eigh import _opened as opened
from .eigh import _outputs as outputs
from .eigh import _raise_on_failure as raise_on_failure
from .eigh import lowerings


def eigh(a, b, uplo, check, driver, method: Method, eigenvectors=True):
    """`bed.eigh` with `b`, for such arrays: ``(w, v, status)``.

    Of integers, too, in a dtype that JAX has.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    (x, uplo), (y, _) = opened(a, uplo, check), opened(b, uplo, check)
    leading = broadcast_leading(x.shape, y.shape, jnp.broadcast_shapes)
    dtype = np.result_type(compute_dtype(x.dtype), compute_dtype(y.dtype))
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    shape = (*leading, *x.shape[-2:])
    x, y = (jnp.broadcast_to(m.astype(dtype), shape) for m in (x, y))
    options = {"uplo": uplo, "driver": driver, "method": method}
    found = _solve_p.bind(x, y, eigenvectors=eigenvectors, **options)
    w, v, status = found if eigenvectors else (found[0], None, found[1])
    if check:
        for m in (a, b):
            raise_on_failure(jnp.broadcast_to(m, shape), uplo, check, status)
    if method.check_phase and v is not None and jnp.iscomplexobj(v):
        v = phase_checked(v)
    return w, v, status


# Two arrays (..., n, n) and static options to a list of arrays.
_solve_p = Primitive("bed_eigh_generalized")
_solve_p.multiple_results = True


@_solve_p.def_impl
def _solve_now(a, b, *, uplo, driver, eigenvectors, method):
    """For concrete arrays, which also grad and vmap arrive at outside jit."""
    libraries = library_of(a), library_of(b)
    if any(x.spreads(m) for x, m in zip(libraries, (a, b), strict=True)):
        with jax.disable_jit(False):
            return _solve_spread(a, b, uplo, driver, eigenvectors)
    del method
    options = uplo, False, driver, eigenvectors
    results = solve.eigh_generalized(libraries, a, b, *options)
    return [x for x in results if x is not None]


@partial(jax.jit, static_argnums=(2, 3, 4))
def _solve_spread(a, b, uplo, driver, eigenvectors):
    """For arrays with parts on several devices: each solves what it has."""
    options = {"uplo": uplo, "driver": driver, "method": Method()}
    return tuple(_solve_p.bind(a, b, eigenvectors=eigenvectors, **options))


@_solve_p.def_abstract_eval
def _shapes(a, b, *, eigenvectors, **_):
    del b
    return outputs(a, eigenvectors=eigenvectors)


def _tangents(primals, tangents, *, eigenvectors, method, **options):
    """Of eigenvalues alone, too, the eigenvectors are computed then."""
    w, v, status = _solve_p.bind(*primals, eigenvectors=True, method=method, **options)
    da, db = map(ad.instantiate_zeros, tangents)
    # A GPU multiplies float32 with 10 bits by default, and gradients would show it.
    with jax.default_matmul_precision("highest"):
        dw, dv = _differentials(w, v, da, db, method)
    none = ad.Zero(jax.typeof(status).to_tangent_aval())
    results = [(w, dw), (v, dv), (status, none)]
    if not eigenvectors:
        del results[1]
    return tuple(zip(*results, strict=True))


def _differentials(w, v, da, db, method):
    """Of matrices that failed, NaN or zero."""
    failed = jnp.any(jnp.isnan(w), axis=-1)
    w = jnp.where(failed[..., None], 0, w)
    v = jnp.where(failed[..., None, None], 0, v)
    da, db = nan_where_failed(failed, da), nan_where_failed(failed, db)
    gradient, degree, _ = method
    dw, dv = eigh_generalized_jvp(w, v, da, db, gradient=gradient, degree=degree)
    return nan_where_failed(failed, dw), nan_where_failed(failed, dv)


def _mapped(arguments, axes, **options):
    """Of `jax.vmap`: the mapped axis becomes one more leading axis of both."""
    results = _solve_p.bind(*at_front(arguments, axes), **options)
    return results, [0] * len(results)


ad.primitive_jvps[_solve_p] = _tangents
batching.primitive_batchers[_solve_p] = _mapped
for _platform, _rule in lowerings(_solve_now):
    mlir.register_lowering(_solve_p, _rule, platform=_platform)
