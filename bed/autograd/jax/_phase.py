"""A watch on eigenvectors under JAX: does the loss depend on their phases?

The identity, but for reverse mode: where the cotangent says that the loss changes with
the phases of a matrix's eigenvectors, all of it becomes NaN. That passes through jit,
vmap and second derivatives, on every device, where an exception would not.
"""

import jax
import jax.numpy as jnp
from jax.interpreters import ad, mlir

from ..._derivative.eigh import depends_on_phase
from ._linear import linear_primitive

# Of the eigenvectors as constants, and of what is passed on: they, or their tangent.
_watch_p = linear_primitive("bed_watch_phase")


def phase_checked(v: jax.Array) -> jax.Array:
    """Eigenvectors (..., n, n) whose cotangent is NaN if it depends on their phases."""
    return _watch_p.bind(jax.lax.stop_gradient(v), v)


@_watch_p.def_impl
@_watch_p.def_abstract_eval
def _identity(v, x):
    del v
    return x


def _transpose(cotangent, v, x):
    del x
    if type(cotangent) is ad.Zero:
        return None, cotangent
    # JAX's cotangent of a complex number is the conjugate of the gradient.
    depends = depends_on_phase(v, jnp.conj(cotangent))[..., None, None]
    return None, jnp.where(depends, jnp.nan, cotangent)


ad.primitive_transposes[_watch_p] = _transpose
mlir.register_lowering(_watch_p, lambda context, v, x: [x])
