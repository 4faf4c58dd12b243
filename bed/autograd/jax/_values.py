"""V diag(x) Vᴴ of an array x, such as of f(w), with derivatives that are exact.

Beside x are given first differences L of whose function x has the values. They do not
enter the product, but its derivative with respect to the matrix is V (L ∘ Ẑ) Vᴴ, and
that of the transpose, Re diag(Vᴴ G V), is what is then asked of L: Re(conj(Ĝ) ∘ Ẑ).
"""

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..._derivative.eigh import _conjugate_transpose as adjoint
from ..._derivative.eigh import _hermitian_part as hermitian_part
from ..._derivative.matfun import _turned as turned
from ..._derivative.matfun import product_jvp
from ._linear import _at_front as at_front
from .eigh import placed

# Of (a, w, v, x, l) to V diag(x) Vᴴ, whose first differences are l; linear in both.
_values_p = Primitive("bed_funm_values")

# Its transpose, of (a, w, v, g) to [x, l].
_transposed_p = Primitive("bed_funm_values_transposed")
_transposed_p.multiple_results = True


def values_of(a, w, v, x, differences):
    """V diag(x) Vᴴ, linear in x and the differences; zero where w has NaN."""
    return _values_p.bind(a, w, v, x, differences)


def safe(w, v):
    """One and zero for those of matrices that failed."""
    failed = jnp.isnan(w).any(-1)
    return jnp.where(failed[..., None], 1, w), jnp.where(failed[..., None, None], 0, v)


@jax.custom_jvp
def _refused(a, w, v):
    """w and v, for what is not differentiated with respect to the matrix again."""
    del a
    return w, v


@_refused.defjvp
def refuse(primals, tangents):
    raise NotImplementedError(
        "third derivatives of bed.funm with respect to its matrix and to what f closes "
        "over are not known to bed"
    )


@jax.jit
def _values(a, w, v, x, differences):
    del a, differences
    _, v = safe(w, v)
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
        slopes.append(product(a, w, v, da, differences))
    return found, sum(slopes[1:], slopes[0])


def product(a, w, v, t, differences):
    """V (L ∘ T̂) Vᴴ of differences whose function is not known."""
    _, v = safe(*_refused(a, w, v))
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
    _, v = safe(w, v)
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
        _, v = safe(*_refused(a, w, v))
        with jax.default_matmul_precision("highest"):
            product = jnp.conj(turned(v, g)) * turned(v, da)
        slopes = [slopes[0], slopes[1] + jnp.real(product)]
    return found, slopes


def _transposed_transpose(cotangents, a, w, v, g):
    del g
    cotangents = map(ad.instantiate_zeros, cotangents)
    return None, None, None, jnp.conj(_values_p.bind(a, w, v, *cotangents))


@_values_p.def_abstract_eval
def _values_output(a, w, v, *_):
    del a, w
    return placed(v, [(v.shape, v.dtype)])[0]


@_transposed_p.def_abstract_eval
def _transposed_outputs(a, w, v, g):
    del a, g
    return placed(v, [(w.shape, w.dtype), (v.shape, w.dtype)])


def _mapped(arguments, axes):
    return _values_p.bind(*at_front(arguments, axes)), 0


def _transposed_mapped(arguments, axes):
    return _transposed_p.bind(*at_front(arguments, axes)), [0, 0]


_values_p.def_impl(_values)
ad.primitive_jvps[_values_p] = _values_tangents
ad.primitive_transposes[_values_p] = _values_transpose
batching.primitive_batchers[_values_p] = _mapped
mlir.register_lowering(_values_p, mlir.lower_fun(_values, multiple_results=False))

_transposed_p.def_impl(_transposed)
ad.primitive_jvps[_transposed_p] = _transposed_tangents
ad.primitive_transposes[_transposed_p] = _transposed_transpose
batching.primitive_batchers[_transposed_p] = _transposed_mapped
_rule = mlir.lower_fun(_transposed, multiple_results=True)
mlir.register_lowering(_transposed_p, _rule)
