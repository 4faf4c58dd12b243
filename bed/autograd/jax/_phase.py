"""A watch on eigenvectors under JAX: does the loss depend on their phases?

The identity, but for reverse mode: where the cotangent says that the loss changes with
the phases of a matrix's eigenvectors, all of it becomes NaN. That passes through jit,
vmap and second derivatives, on every device, where an exception would not.
"""

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..._derivative.eigh import depends_on_phase
from ._failed import at_front

# Of the eigenvectors as constants, and of what is passed on: they, or their tangent.
_watch_p = Primitive("bed_watch_phase")


def phase_checked(v: jax.Array) -> jax.Array:
    """Eigenvectors (..., n, n) whose cotangent is NaN if it depends on their phases."""
    return _watch_p.bind(jax.lax.stop_gradient(v), v)


@_watch_p.def_impl
@_watch_p.def_abstract_eval
def _identity(v, x):
    del v
    return x


def _tangent(primals, tangents):
    (v, x), (_, dx) = primals, tangents
    zero = type(dx) is ad.Zero
    return _watch_p.bind(v, x), dx if zero else _watch_p.bind(v, dx)


def _transpose(cotangent, v, x):
    del x
    if type(cotangent) is ad.Zero:
        return None, cotangent
    # JAX's cotangent of a complex number is the conjugate of the gradient.
    depends = depends_on_phase(v, jnp.conj(cotangent))[..., None, None]
    return None, jnp.where(depends, jnp.nan, cotangent)


def _mapped(arguments, axes):
    return _watch_p.bind(*at_front(arguments, axes)), 0


ad.primitive_jvps[_watch_p] = _tangent
ad.primitive_transposes[_watch_p] = _transpose
batching.primitive_batchers[_watch_p] = _mapped
mlir.register_lowering(_watch_p, lambda context, v, x: [x])
