"""Functions of matrices under JAX's jit, grad, vmap, jvp, and what these compose to.

Three primitives, as that of `eigh` beside this file: the functions f(A) of a matrix,
the derivative D f(A)[T] of one of them, V (L ∘ (Vᴴ T V)) Vᴴ, and D²f(A)[Z, T], which is
the derivative of that. These are linear in T and in Z, and each is its own transpose,
but for JAX's conjugates. Eigenvalues and eigenvectors are constants to all, which is
what keeps them exact where eigenvalues coincide; `attached` gives them derivatives for
third ones, which are those of functions that JAX knows.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..._derivative.divided_differences import values
from ..._derivative.matfun import spectral_second
from ..._derivative.method import Method
from ..._dispatch import matfun as dispatch
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ...engines import real_dtype
from ._failed import nan_where_failed
from ._linear import _at_front as at_front
from .eigh import _differentials as differentials
from .eigh import _opened as opened
from .eigh import _raise_on_failure as raise_on_failure
from .eigh import lowerings, placed
from .xla import matfun as xla


def spectral(a: jax.Array, uplo, check, driver, functions):
    """``(*results, status)`` of functions, from one decomposition.

    dtypes, checks, meshes, failures and exports are as for `eigh` beside this file; the
    custom calls are ``bed_spectral`` and ``bed_spectral_vjp``.
    """
    x, uplo = opened(a, uplo, check)
    options = {"uplo": uplo, "driver": driver, "functions": tuple(functions)}
    found = _spectral_p.bind(x, keep=len(functions) > 1, **options)
    results, status = found[: len(functions)], found[-1]
    if check:
        raise_on_failure(a, uplo, check, status)
    return *results, status


# Of one array (..., n, n) to the results, w and v if they are kept, and the status. Of
# more than one function they are kept.
_spectral_p = Primitive("bed_spectral")
_spectral_p.multiple_results = True

# Of (a, w, v, t) to a list of one array.
_vjp_p = Primitive("bed_spectral_vjp")
_vjp_p.multiple_results = True

# Of (a, w, v, z, t) to one array.
_second_p = Primitive("bed_spectral_second")


@_spectral_p.def_impl
def _spectral_now(a, *, uplo, driver, functions, keep):
    library = library_of(a)
    if library.spreads(a):
        options = uplo, driver, functions, keep
        with jax.disable_jit(False):
            return _spectral_spread(a, *options)
    results = dispatch.spectral(library, a, uplo, False, driver, functions, keep)
    return [x for x in results if x is not None]


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _spectral_spread(a, uplo, driver, functions, keep):
    """For arrays with parts on several devices: each solves what it has."""
    options = {"uplo": uplo, "driver": driver, "functions": functions}
    return _spectral_p.bind(a, keep=keep, **options)


@_vjp_p.def_impl
def _vjp_now(a, w, v, t, *, function, driver):
    with jax.ensure_compile_time_eval():
        w, v, t = (jnp.asarray(x) for x in (w, v, t))
    library = library_of(v)
    if any(library.spreads(x) for x in (w, v, t)):
        with jax.disable_jit(False):
            return _vjp_spread(a, w, v, t, function, driver)
    return [dispatch.spectral_vjp(library, w, v, t, function, driver)]


@partial(jax.jit, static_argnums=(4, 5))
def _vjp_spread(a, w, v, t, function, driver):
    return _vjp_p.bind(a, w, v, t, function=function, driver=driver)


@_spectral_p.def_abstract_eval
def _outputs(a, *, functions, keep, **_):
    dtype = jax.dtypes.canonicalize_dtype(compute_dtype(a.dtype))
    matrices = (a.shape, dtype)
    kept = [(a.shape[:-1], real_dtype(dtype)), matrices] if keep else []
    status = (a.shape[:-2], np.dtype("i4"))
    return placed(a, [*[matrices] * len(functions), *kept, status])


@_vjp_p.def_abstract_eval
def _vjp_outputs(a, w, v, t, **_):
    del a, w, t
    return placed(v, [(v.shape, v.dtype)])


def _tangents(primals, tangents, *, functions, keep, driver, **options):
    options = {**options, "functions": functions, "driver": driver}
    (a,), (da,) = primals, tangents
    *results, w, v, status = _spectral_p.bind(a, keep=True, **options)
    slopes = [derivative(a, w, v, da, f, driver) for f in functions]
    constants = [w, v, status] if keep else [status]
    zeros = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in constants]
    return [*results, *constants], [*slopes, *zeros]


def derivative(a, w, v, t, function, driver):
    """The derivative in the direction t, itself differentiable in a and t."""
    (found,) = _vjp_p.bind(a, w, v, t, function=function, driver=driver)
    return found


def _vjp_tangents(primals, tangents, *, function, driver):
    a, w, v, t = primals
    da, _, _, dt = tangents
    found = derivative(a, w, v, t, function, driver)
    slopes = []
    if type(dt) is not ad.Zero:
        slopes.append(derivative(a, w, v, dt, function, driver))
    if type(da) is not ad.Zero:
        slopes.append(_second_p.bind(a, w, v, da, t, function=function))
    return [found], [sum(slopes[1:], slopes[0])]


def _vjp_transpose(cotangents, a, w, v, t, **options):
    """⟨G, D f(A)[T]⟩ = ⟨D f(A)[G], T⟩, where JAX has conj(G) for G."""
    del t
    (g,) = cotangents
    if type(g) is not ad.Zero:
        g = jnp.conj(derivative(a, w, v, jnp.conj(g), **options))
    return None, None, None, g


def _second(w, v, z, t, function):
    failed = jnp.any(~jnp.isfinite(values(function, w)), axis=-1)

    def second(w, v, z):
        return spectral_second(w, v, z, t, function, added_up)

    return without_failed(second, failed, w, v, z, t)


def without_failed(second, failed, w, v, z, t):
    """``second(w, v, z)``: NaN of what failed, but zero where z or t is zero."""
    unused = ~jnp.any(t != 0, axis=(-1, -2))
    left_out = failed | unused
    # In the domain of every function, and then multiplied by zero.
    w = jnp.where(left_out[..., None], 1, w)
    v = jnp.where(left_out[..., None, None], 0, v)
    failed = failed & ~unused
    with jax.default_matmul_precision("highest"):
        found = second(w, v, nan_where_failed(failed, z))
    return nan_where_failed(failed, found)


def added_up(add, total, n):
    """A loop that is compiled once, whatever the size of the matrices."""
    return jax.lax.scan(lambda total, k: (add(total, k), None), total, jnp.arange(n))[0]


@_second_p.def_abstract_eval
def _second_output(a, w, v, *_, **__):
    del a, w
    return placed(v, [(v.shape, v.dtype)])[0]


@_second_p.def_impl
@partial(jax.jit, static_argnames="function")
def _second_value(a, w, v, z, t, *, function):
    del a
    return _second(w, v, z, t, function)


def _second_tangents(primals, tangents, *, function):
    a, w, v, z, t = primals
    da, _, _, dz, dt = tangents
    found = _second_p.bind(*primals, function=function)
    slopes = []
    if type(dz) is not ad.Zero:
        slopes.append(_second_p.bind(a, w, v, dz, t, function=function))
    if type(dt) is not ad.Zero:  # it is symmetric in z and t
        slopes.append(_second_p.bind(a, w, v, dt, z, function=function))
    if type(da) is not ad.Zero:

        def of_matrix(a):
            values, vectors = attached(a, w, v)
            return _second(values, vectors, z, t, function)

        slopes.append(jax.jvp(of_matrix, (a,), (da,))[1])
    return found, sum(slopes[1:], slopes[0])


def _second_transpose(cotangent, a, w, v, z, t, *, function):
    """⟨G, D²f(A)[Z, T]⟩ = ⟨D²f(A)[G, T], Z⟩."""
    del z
    if type(cotangent) is not ad.Zero:
        g = jnp.conj(cotangent)
        cotangent = jnp.conj(_second_p.bind(a, w, v, g, t, function=function))
    return None, None, None, cotangent, None


@jax.custom_jvp
def attached(a, w, v):
    """w and v, with the derivatives of `bed.eigh`."""
    del a
    return w, v


@attached.defjvp
def _attached_tangents(primals, tangents):
    w, v = attached(*primals)
    with jax.default_matmul_precision("highest"):
        return (w, v), differentials(w, v, tangents[0], Method())


def _mapped(arguments, axes, **options):
    """Of `jax.vmap`: the mapped axis becomes one more leading axis."""
    results = _spectral_p.bind(*at_front(arguments, axes), **options)
    return results, [0] * len(results)


def _vjp_mapped(arguments, axes, **options):
    return _vjp_p.bind(*at_front(arguments, axes), **options), [0]


def _second_mapped(arguments, axes, **options):
    return _second_p.bind(*at_front(arguments, axes), **options), 0


ad.primitive_jvps[_spectral_p] = _tangents
batching.primitive_batchers[_spectral_p] = _mapped

ad.primitive_jvps[_vjp_p] = _vjp_tangents
ad.primitive_transposes[_vjp_p] = _vjp_transpose
batching.primitive_batchers[_vjp_p] = _vjp_mapped

ad.primitive_jvps[_second_p] = _second_tangents
ad.primitive_transposes[_second_p] = _second_transpose
batching.primitive_batchers[_second_p] = _second_mapped

for _platform, _rule in lowerings(_spectral_now, call=xla.CALL, lower=xla.lower):
    mlir.register_lowering(_spectral_p, _rule, platform=_platform)
for _platform, _rule in lowerings(_vjp_now, call=xla.VJP_CALL, lower=xla.lower_vjp):
    mlir.register_lowering(_vjp_p, _rule, platform=_platform)
mlir.register_lowering(_second_p, mlir.lower_fun(_second_value, multiple_results=False))
