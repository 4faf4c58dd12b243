"""The gradient of the decomposition, from w and v.

See the contract in `bed.engines`; the mathematics are in `bed._derivative.eigh`.
"""

import numpy as np

from bed._derivative import eigh as derivative
from bed.engines._float_mode import default_float_mode

from .spectral import c_ordered
from .spectral_vjp import filled


@np.errstate(all="ignore")
@default_float_mode()
def eigh_vjp(w, v, grad_w, grad_v, *, out=None):
    """The gradient of a loss from those with respect to w and v.

    Parameters
    ----------
    w : (batch, n) real array
    v : (batch, n, n) array
    grad_w : (batch, n) real array or None
    grad_v : (batch, n, n) array or None
    out : (batch, n, n) array, optional
        To fill.

    Returns
    -------
    (batch, n, n) array, Hermitian
        Zero where all of the gradients are, NaN where w is.
    """
    given = [c_ordered(x) for x in (grad_w, grad_v) if x is not None]
    by_w = None if grad_w is None else given[0]
    by_v = None if grad_v is None else given[-1]
    gradient = derivative.eigh_vjp(c_ordered(w), c_ordered(v), by_w, by_v)
    return filled(gradient, out, *given)
