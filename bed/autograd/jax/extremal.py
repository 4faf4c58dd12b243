"""Pairs from an end of the spectrum, under JAX's jit, grad, vmap and jvp.

They are a part of all pairs, and no gap between two eigenvalues that are not returned
counts: `bed._derivative.eigh` multiplies it by zero.
"""

import jax
import jax.numpy as jnp

from ..._derivative.method import Method
from ..._dispatch.normalize import normalize_extremal, raise_unless_square
from ..._status import Status
from ...engines import ends_at
from .eigh import eigh


def eigh_extremal(a: jax.Array, k, which, uplo, check, driver):
    """`bed.eigh_extremal` for traced arrays: ``(w, v, status)``."""
    raise_unless_square(a.shape)
    n = a.shape[-1]
    part = ends_at(n, normalize_extremal(k, which, n), which)
    w, v, status = eigh(a, uplo, check, driver, Method())
    w, v = w[..., part], v[..., part]
    fits = ~jnp.isinf(jax.lax.stop_gradient(w)).any(-1)
    overflow = status == int(Status.OVERFLOW)
    return w, v, jnp.where(overflow & fits, jnp.int32(Status.OK), status)
