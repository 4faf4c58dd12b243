"""Functions of matrices that a caller writes, under JAX: f(A) = V diag(f(w)) Vᴴ.

As `matfun` beside this file, with first differences L of f that are an array. What f
closes over, its parameters, has a derivative too: of f(w) it is that of JAX, and with
ḟ and L̇ the derivatives of f(w) and of L,

    F(A)˙ = V diag(ḟ) Vᴴ,    D[V diag(ḟ) Vᴴ][Z] = V (L̇ ∘ Ẑ) Vᴴ = (D F(A)[Z])˙,

so that mixed second derivatives are as exact as those of the matrix. Third ones that
parameters have a part in are refused.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..._derivative.funm import second_differences_of
from ..._derivative.matfun import product_second
from ..._derivative.method import Method
from ..._dispatch import matfun as dispatch
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ..._functions import IDENTITY
from ..._status import Status
from ...engines import real_dtype
from ._failed import nan_where_failed
from ._given import Given
from ._values import product, refuse, safe, values_of
from .eigh import _opened as opened
from .eigh import _raise_on_failure as raise_on_failure
from .eigh import _solve as solve
from .eigh import lowerings, placed
from .matfun import added_up, attached, without_failed
from .xla import matfun as xla


def funm(a: jax.Array, uplo, check, driver, f, df=None, d2f=None):
    """``(result, status)`` of a function of numbers, and of its derivatives.

    f is called with a number, a JAX array without axes, and may close over arrays that
    JAX differentiates. What is not given of its derivatives is JAX's derivative.

    The status is 4 where f is NaN at an eigenvalue, and 3 where it is infinite. Else as
    for `spectral` in `matfun`.
    """
    x, uplo = opened(a, uplo, check)
    dtype = jax.dtypes.canonicalize_dtype(compute_dtype(a.dtype))
    x = x.astype(dtype)
    constant = jax.lax.stop_gradient(x)
    w, v, status = solve(constant, uplo, driver, Method(), eigenvectors=True)
    given = Given(f, df, d2f, real_dtype(dtype))
    parameters = given.parameters
    f_of = given.with_parameters(parameters)[0]
    values = jax.lax.stop_gradient(f_of(w))
    w = jnp.where(jnp.isnan(values).any(-1)[..., None], jnp.nan, w)
    status = _status(status, values)
    if check:
        raise_on_failure(a, uplo, check, status)
    values = f_of(safe(w, v)[0])
    result = _function(given, driver, x, w, v, values, *parameters)
    return result, status


def _status(status, values):
    bad = jnp.where(jnp.isinf(values).any(-1), int(Status.OVERFLOW), int(Status.OK))
    bad = jnp.where(jnp.isnan(values).any(-1), int(Status.DOMAIN), bad)
    return jnp.where(status == int(Status.OK), bad.astype(status.dtype), status)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _function(given, driver, a, w, v, values, *parameters):
    """V diag(values) Vᴴ, and NaN where w is."""
    del given, driver, parameters
    none = jnp.zeros((*w.shape, w.shape[-1]), values.dtype)
    found = values_of(a, w, v, values, none)
    return jnp.where(jnp.isnan(w).any(-1)[..., None, None], jnp.nan, found)


def _function_tangents(given, driver, primals, tangents):
    """The parameters move f(w) as well, and so only L follows from them here."""
    a, w, v, _, *parameters = primals
    da, _, _, dvalues, *dparameters = tangents
    failed = jnp.isnan(w).any(-1)

    def first(*parameters):
        return given.first(safe(w, v)[0], parameters)

    slopes = []
    if type(da) is not SymbolicZero:
        options = {"given": given, "driver": driver, "mapped": (0,) * len(parameters)}
        arrays = a, w, v, da, first(*parameters)
        slopes += _vjp_p.bind(*arrays, *parameters, **options)
    if type(dvalues) is not SymbolicZero:
        dparameters = [
            np.zeros(x.shape, x.dtype) if type(x) is SymbolicZero else x
            for x in dparameters
        ]
        _, moved = jax.jvp(first, parameters, dparameters)
        along = values_of(a, w, v, nan_where_failed(failed, dvalues), moved)
        slopes.append(nan_where_failed(failed, along))
    return _function(given, driver, *primals), sum(slopes[1:], slopes[0])


_function.defjvp(_function_tangents, symbolic_zeros=True)


# Of (a, w, v, t, l, *parameters) to a list of one array, as `bed_spectral_vjp`.
_vjp_p = Primitive("bed_funm_vjp")
_vjp_p.multiple_results = True

# Of (a, w, v, z, t, *parameters), as `bed_spectral_second`.
_second_p = Primitive("bed_funm_second")


@_vjp_p.def_impl
def _vjp_now(a, w, v, t, differences, *parameters, given, driver, mapped):
    del parameters, given, mapped
    with jax.ensure_compile_time_eval():
        arrays = [jnp.asarray(x) for x in (w, v, t, differences)]
    library = library_of(v)
    if any(library.spreads(x) for x in arrays):
        with jax.disable_jit(False):
            return _vjp_spread(a, *arrays, driver)
    *arrays, differences = arrays
    return [dispatch.spectral_vjp(library, *arrays, IDENTITY, driver, differences)]


@partial(jax.jit, static_argnums=5)
def _vjp_spread(a, w, v, t, differences, driver):
    options = {"given": None, "driver": driver, "mapped": ()}
    return _vjp_p.bind(a, w, v, t, differences, **options)


def _vjp_lowered(context, *operands, device, driver, given, mapped):
    del given, mapped
    context = context.replace(avals_in=context.avals_in[:5])
    options = {"device": device, "driver": driver, "function": IDENTITY}
    return xla.lower_vjp(context, *operands[:5], **options)


def _vjp_tangents(primals, tangents, *, given, driver, mapped):
    a, w, v, t, differences, *parameters = primals
    da, _, _, dt, moved, *_ = tangents
    options = {"given": given, "driver": driver, "mapped": mapped}
    found = _vjp_p.bind(*primals, **options)
    slopes = []
    if type(dt) is not ad.Zero:
        slopes += _vjp_p.bind(a, w, v, dt, differences, *parameters, **options)
    if type(moved) is not ad.Zero:
        slopes.append(product(a, w, v, t, moved))
    if type(da) is not ad.Zero:
        options = {"given": given, "mapped": mapped}
        slopes.append(_second_p.bind(a, w, v, da, t, *parameters, **options))
    return found, [sum(slopes[1:], slopes[0])]


def _vjp_transpose(cotangents, a, w, v, t, *others, **options):
    del t
    (g,) = cotangents
    if type(g) is not ad.Zero:
        (g,) = _vjp_p.bind(a, w, v, jnp.conj(g), *others, **options)
        g = jnp.conj(g)
    return [None, None, None, g, *[None] * len(others)]


def _second(w, v, z, t, parameters, given, mapped):
    functions = given.with_parameters(parameters, mapped)

    def second(w, v, z):
        def differences(k):
            return second_differences_of(w, k, *functions)

        return product_second(v, z, t, differences, added_up)

    return without_failed(second, jnp.isnan(w).any(-1), w, v, z, t)


@_second_p.def_impl
def _second_value(a, w, v, z, t, *parameters, given, mapped):
    del a
    return _second(w, v, z, t, parameters, given, mapped)


def _second_tangents(primals, tangents, **options):
    a, w, v, z, t, *parameters = primals
    da, _, _, dz, dt, *moved = tangents
    found = _second_p.bind(*primals, **options)
    slopes = []
    if type(dz) is not ad.Zero:
        slopes.append(_second_p.bind(a, w, v, dz, t, *parameters, **options))
    if type(dt) is not ad.Zero:
        slopes.append(_second_p.bind(a, w, v, dt, z, *parameters, **options))
    if any(type(d) is not ad.Zero for d in moved):
        refuse((), ())
    if type(da) is not ad.Zero:

        def of_matrix(a):
            values, vectors = attached(a, w, v)
            return _second(values, vectors, z, t, parameters, **options)

        slopes.append(jax.jvp(of_matrix, (a,), (da,))[1])
    return found, sum(slopes[1:], slopes[0])


def _second_transpose(cotangent, a, w, v, z, *others, **options):
    del z
    if type(cotangent) is not ad.Zero:
        g = jnp.conj(cotangent)
        cotangent = jnp.conj(_second_p.bind(a, w, v, g, *others, **options))
    return [None, None, None, cotangent, *[None] * len(others)]


def _mapped(primitive, arguments, axes, *, mapped, **options):
    """The mapped axis becomes one more leading axis, of parameters if they have it."""
    (size,) = {
        x.shape[axis]
        for x, axis in zip(arguments, axes, strict=True)
        if axis is not None
    }
    # How many leading axes there are; those of matrices always have one more.
    before = [*[1] * (len(arguments) - len(mapped)), *mapped]
    moved, after = [], []
    for x, axis, many in zip(arguments, axes, before, strict=True):
        front = axis is not None or many > 0
        moved.append(batching.bdim_at_front(x, axis, size) if front else x)
        after.append(many + 1 if front else 0)
    mapped = tuple(after[len(arguments) - len(mapped) :])
    found = primitive.bind(*moved, mapped=mapped, **options)
    return found, [0] if primitive.multiple_results else 0


@_second_p.def_abstract_eval
def _second_output(*arrays, **_):
    return _vjp_outputs(*arrays)[0]


@_vjp_p.def_abstract_eval
def _vjp_outputs(a, w, v, *_, **__):
    del a, w
    return placed(v, [(v.shape, v.dtype)])


ad.primitive_jvps[_vjp_p] = _vjp_tangents
ad.primitive_transposes[_vjp_p] = _vjp_transpose
batching.primitive_batchers[_vjp_p] = partial(_mapped, _vjp_p)

ad.primitive_jvps[_second_p] = _second_tangents
ad.primitive_transposes[_second_p] = _second_transpose
batching.primitive_batchers[_second_p] = partial(_mapped, _second_p)

for _platform, _rule in lowerings(_vjp_now, call=xla.VJP_CALL, lower=_vjp_lowered):
    mlir.register_lowering(_vjp_p, _rule, platform=_platform)
mlir.register_lowering(_second_p, mlir.lower_fun(_second_value, multiple_results=False))
