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
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from ..._derivative.eigh import _conjugate_transpose as adjoint
from ..._derivative.eigh import _hermitian_part as hermitian_part
from ..._derivative.funm import differences_of, second_differences_of
from ..._derivative.matfun import _turned as turned
from ..._derivative.matfun import product_jvp, product_second
from ..._derivative.method import Method
from ..._dispatch import matfun as dispatch
from ..._dispatch.dtypes import compute_dtype
from ..._dispatch.interop import library_of
from ..._functions import Function, Spectral
from ..._status import Status
from ...engines import real_dtype
from ._failed import nan_where_failed
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
    given = _Given(f, df, d2f, real_dtype(dtype))
    parameters = given.parameters
    f_of = given.with_parameters(parameters)[0]
    values = jax.lax.stop_gradient(f_of(w))
    w = jnp.where(jnp.isnan(values).any(-1)[..., None], jnp.nan, w)
    status = _status(status, values)
    if check:
        raise_on_failure(a, uplo, check, status)
    safe, _ = _safe(w, v)
    result = _function(given, driver, x, w, v, f_of(safe), *parameters)
    return result, status


def _status(status, values):
    bad = jnp.isinf(values).any(-1) * int(Status.OVERFLOW)
    bad = jnp.where(jnp.isnan(values).any(-1), int(Status.DOMAIN), bad)
    return jnp.where(status == int(Status.OK), bad.astype(status.dtype), status)


class _Given:
    """f, f′ and f″ as functions of a number and of what f closes over.

    In the array of a mapped function each of these may have leading axes in common with
    the numbers; `with_parameters` is told how many.
    """

    def __init__(self, f, df, d2f, dtype):
        def one(function):
            def cast(x):
                y = jnp.asarray(function(x))
                if y.shape:
                    raise ValueError(
                        f"f and its derivatives must return a number for a number, "
                        f"got an array of shape {y.shape}"
                    )
                return y.astype(dtype)

            return cast

        f = one(f)
        df = jax.grad(f) if df is None else one(df)
        d2f = jax.grad(df) if d2f is None else one(d2f)
        number = jax.ShapeDtypeStruct((), dtype)
        self._traced = [jax.make_jaxpr(g)(number) for g in (f, df, d2f)]
        self.parameters = [x for traced in self._traced for x in traced.consts]

    def with_parameters(self, parameters, mapped=None):
        """The three as functions of arrays."""
        parameters = list(parameters)
        mapped = [0] * len(parameters) if mapped is None else list(mapped)
        functions = []
        for traced in self._traced:
            count = len(traced.consts)
            own, axes = parameters[:count], mapped[:count]
            del parameters[:count], mapped[:count]
            functions.append(partial(_elementwise, traced.jaxpr, own, axes))
        return functions

    def first(self, w, parameters, mapped=None):
        f, df, _ = self.with_parameters(parameters, mapped)
        return differences_of(w, f, df)


def _elementwise(jaxpr, parameters, mapped, x):
    def of_number(x, *parameters):
        (y,) = jaxpr_as_fun(ClosedJaxpr(jaxpr, list(parameters)))(x)
        return y

    function = of_number
    for axis in reversed(range(x.ndim)):
        axes = [0 if axis < many else None for many in mapped]
        function = jax.vmap(function, in_axes=(0, *axes))
    return function(x, *parameters)


def _safe(w, v):
    """One and zero for those of matrices that failed."""
    failed = jnp.isnan(w).any(-1)
    return jnp.where(failed[..., None], 1, w), jnp.where(failed[..., None, None], 0, v)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _function(given, driver, a, w, v, values, *parameters):
    """V diag(values) Vᴴ, and NaN where w is."""
    del given, driver, parameters
    none = jnp.zeros((*w.shape, w.shape[-1]), values.dtype)
    found = _values_p.bind(a, w, v, values, none)
    return jnp.where(jnp.isnan(w).any(-1)[..., None, None], jnp.nan, found)


@_function.defjvp
def _function_tangents(given, driver, primals, tangents):
    """The parameters move f(w) as well, and so only L follows from them here."""
    a, w, v, _, *parameters = primals
    da, _, _, dvalues, *dparameters = tangents
    failed = jnp.isnan(w).any(-1)

    def first(*parameters):
        found = given.first(_safe(w, v)[0], parameters)
        return jnp.where(failed[..., None, None], jnp.nan, found)

    if parameters:
        differences, moved = jax.jvp(first, parameters, dparameters)
    else:
        differences = first()
        moved = jnp.zeros_like(differences)
    options = {"given": given, "driver": driver, "mapped": (0,) * len(parameters)}
    (slope,) = _vjp_p.bind(a, w, v, da, differences, *parameters, **options)
    dvalues = nan_where_failed(failed, dvalues)
    along = nan_where_failed(failed, _values_p.bind(a, w, v, dvalues, moved))
    return _function(given, driver, *primals), slope + along


# Of (a, w, v, x, l) to V diag(x) Vᴴ, whose first differences are l; linear in both.
_values_p = Primitive("bed_funm_values")

# Its transpose, of (a, w, v, g) to [x, l].
_transposed_p = Primitive("bed_funm_values_transposed")
_transposed_p.multiple_results = True

# Of (a, w, v, t, l, *parameters) to a list of one array, as `bed_spectral_vjp`.
_vjp_p = Primitive("bed_funm_vjp")
_vjp_p.multiple_results = True

# Of (a, w, v, z, t, *parameters), as `bed_spectral_second`.
_second_p = Primitive("bed_funm_second")


def _like_matrices(a, w, v, *_, **__):
    del a, w
    return placed(v, [(v.shape, v.dtype)])


@jax.custom_jvp
def _refused(a, w, v):
    """w and v, for what is not differentiated with respect to the matrix again."""
    del a
    return w, v


@_refused.defjvp
def _refuse(primals, tangents):
    raise NotImplementedError(
        "third derivatives of bed.funm with respect to its matrix and to what f closes "
        "over are not known to bed"
    )


@jax.jit
def _values(a, w, v, x, differences):
    del a, differences
    _, v = _safe(w, v)
    with jax.default_matmul_precision("highest"):
        return hermitian_part((v * x[..., None, :].astype(v.dtype)) @ adjoint(v))


def _values_tangents(primals, tangents):
    a, w, v, _, differences = primals
    da, _, _, *moved = tangents
    found = _values_p.bind(*primals)
    slopes = []
    if any(type(d) is not ad.Zero for d in moved):
        slopes.append(_values_p.bind(a, w, v, *map(ad.instantiate_zeros, moved)))
    if type(da) is not ad.Zero:
        slopes.append(_product(a, w, v, da, differences))
    return found, sum(slopes[1:], slopes[0])


def _product(a, w, v, t, differences):
    """V (L ∘ T̂) Vᴴ of differences whose function is not known."""
    _, v = _safe(*_refused(a, w, v))
    with jax.default_matmul_precision("highest"):
        return product_jvp(v, t, differences)


def _values_transpose(cotangent, a, w, v, x, differences):
    if type(cotangent) is ad.Zero:
        return [None] * 5
    found = _transposed_p.bind(a, w, v, jnp.conj(cotangent))
    linear = [ad.is_undefined_primal(y) for y in (x, differences)]
    wanted = [y if one else None for y, one in zip(found, linear, strict=True)]
    return [None, None, None, *wanted]


@jax.jit
def _transposed(a, w, v, g):
    del a
    _, v = _safe(w, v)
    with jax.default_matmul_precision("highest"):
        g = jnp.real(turned(v, g))
    return [jnp.diagonal(g, axis1=-2, axis2=-1), jnp.zeros_like(g)]


def _transposed_tangents(primals, tangents):
    """The matrix moves what is asked of the differences alone."""
    a, w, v, g = primals
    da, _, _, dg = tangents
    found = _transposed_p.bind(*primals)
    slopes = [jnp.zeros_like(x) for x in found]
    if type(dg) is not ad.Zero:
        slopes = _transposed_p.bind(a, w, v, dg)
    if type(da) is not ad.Zero:
        _, v = _safe(*_refused(a, w, v))
        with jax.default_matmul_precision("highest"):
            product = jnp.conj(turned(v, g)) * turned(v, da)
        slopes = [slopes[0], slopes[1] + jnp.real(product)]
    return found, slopes


def _transposed_transpose(cotangents, a, w, v, g):
    del g
    cotangents = map(ad.instantiate_zeros, cotangents)
    return None, None, None, jnp.conj(_values_p.bind(a, w, v, *cotangents))


def _vjp_now(a, w, v, t, differences, *parameters, given, driver, mapped):
    del parameters, given, mapped
    with jax.ensure_compile_time_eval():
        arrays = [jnp.asarray(x) for x in (w, v, t, differences)]
    library = library_of(v)
    if any(library.spreads(x) for x in arrays):
        with jax.disable_jit(False):
            return _vjp_spread(a, *arrays, driver)
    *arrays, differences = arrays
    function = Spectral(Function.IDENTITY)
    return [dispatch.spectral_vjp(library, *arrays, function, driver, differences)]


@partial(jax.jit, static_argnums=5)
def _vjp_spread(a, w, v, t, differences, driver):
    options = {"given": None, "driver": driver, "mapped": ()}
    return _vjp_p.bind(a, w, v, t, differences, **options)


def _vjp_lowered(context, *operands, device, driver, given, mapped):
    del given, mapped
    context = context.replace(avals_in=context.avals_in[:5])
    function = Spectral(Function.IDENTITY)
    options = {"device": device, "driver": driver, "function": function}
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
        slopes.append(_product(a, w, v, t, moved))
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
        _refuse((), ())
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


def _mapped(primitive, arguments, axes, *, mapped=(), **options):
    """The mapped axis becomes one more leading axis, of parameters where it is one."""
    count = len(arguments) - len(mapped)
    arrays, depths, parameters = arguments[:count], [], []
    size = next(
        x.shape[axis]
        for x, axis in zip(arguments, axes, strict=True)
        if axis is not None
    )
    arrays = [
        batching.bdim_at_front(x, axis, size)
        for x, axis in zip(arrays, axes[:count], strict=True)
    ]
    for x, axis, depth in zip(arguments[count:], axes[count:], mapped, strict=True):
        front = axis is not None or depth > 0
        parameters.append(batching.bdim_at_front(x, axis, size) if front else x)
        depths.append(depth + 1 if front else 0)
    if "given" in options:
        options["mapped"] = tuple(depths)
    found = primitive.bind(*arrays, *parameters, **options)
    return found, [0] * len(found) if primitive.multiple_results else 0


@_values_p.def_abstract_eval
def _values_output(*arrays):
    return _like_matrices(*arrays)[0]


@_second_p.def_abstract_eval
def _second_output(*arrays, **_):
    return _like_matrices(*arrays)[0]


@_transposed_p.def_abstract_eval
def _transposed_outputs(a, w, v, g):
    del a, g
    return placed(v, [(w.shape, w.dtype), (v.shape, w.dtype)])


@_vjp_p.def_abstract_eval
def _vjp_outputs(*arrays, **_):
    return _like_matrices(*arrays)


_RULES = {
    _values_p: (_values, _values_tangents, _values_transpose),
    _transposed_p: (_transposed, _transposed_tangents, _transposed_transpose),
    _vjp_p: (_vjp_now, _vjp_tangents, _vjp_transpose),
    _second_p: (_second_value, _second_tangents, _second_transpose),
}
for _primitive, (_now, _tangents, _transpose) in _RULES.items():
    _primitive.def_impl(_now)
    ad.primitive_jvps[_primitive] = _tangents
    ad.primitive_transposes[_primitive] = _transpose
    batching.primitive_batchers[_primitive] = partial(_mapped, _primitive)
    if _primitive is not _vjp_p:
        _lowered = mlir.lower_fun(_now, multiple_results=_primitive.multiple_results)
        mlir.register_lowering(_primitive, _lowered)
for _platform, _rule in lowerings(_vjp_now, call=xla.VJP_CALL, lower=_vjp_lowered):
    mlir.register_lowering(_vjp_p, _rule, platform=_platform)
