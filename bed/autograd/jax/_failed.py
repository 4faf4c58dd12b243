"""The derivative of a matrix that failed: NaN, but zero of what is zero.

A loss that leaves such a matrix out has the cotangent zero, and must not see it. NaN·0
is NaN, and so eigenvalues and eigenvectors are replaced in the linear map between
tangents, and tangents and cotangents pass through `nan_where_failed`.
"""

import jax
import jax.numpy as jnp
from jax.interpreters import ad, mlir

from ._linear import linear_primitive

# Of what failed, true or false, and of a tangent with the same axes; linear in it.
_nan_p = linear_primitive("bed_nan_where_failed")


def nan_where_failed(failed: jax.Array, x: jax.Array) -> jax.Array:
    """NaN·x where a matrix failed, with NaN·0 = 0; elsewhere x. Its own transpose.

    Parameters
    ----------
    failed : (...) bool array
    x : array with the same leading axes
    """
    failed = failed.reshape(failed.shape + (1,) * (x.ndim - failed.ndim))
    return _nan_p.bind(jnp.broadcast_to(failed, x.shape), x)


def _value(failed, x):
    return jnp.where(failed & (x != 0), jnp.asarray(jnp.nan, x.dtype), x)


def _transpose(cotangent, failed, x):
    del x
    zero = type(cotangent) is ad.Zero
    return None, cotangent if zero else _nan_p.bind(failed, cotangent)


_nan_p.def_impl(jax.jit(_value))
_nan_p.def_abstract_eval(lambda failed, x: x)
ad.primitive_transposes[_nan_p] = _transpose
mlir.register_lowering(_nan_p, mlir.lower_fun(_value, multiple_results=False))
