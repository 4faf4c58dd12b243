"""Derivatives of functions of matrices, from w and v.

See the contract in `bed.engines`; the mathematics are in `bed._derivative`.
"""

import numpy as np
from array_api_compat import array_namespace, device

from bed._derivative import divided_differences
from bed._derivative.matfun import product_jvp
from bed.engines._float_mode import default_float_mode

from .eigh import hermitian
from .spectral import c_ordered


@np.errstate(all="ignore")
@default_float_mode()
def spectral_vjp(w, v, g, function, differences=None, *, out=None):
    """V (L ∘ (Vᴴ herm(g) V)) Vᴴ: the gradient of ⟨g, f(A)⟩, and Df(A)[g].

    Parameters
    ----------
    w : (batch, n) real array
    v, g : (batch, n, n) arrays
    function : Spectral
        Its first divided differences are L.
    differences : (batch, n, n) real array, optional
        L, if given, symmetric.
    out : (batch, n, n) array, optional
        To fill.

    Returns
    -------
    (batch, n, n) array, Hermitian
        Zero where all of g is, NaN where w has NaN or is outside of the domain.
    """
    w, v, g = c_ordered(w), c_ordered(v), c_ordered(g)
    if differences is None:
        differences = divided_differences.first(function, w)
    else:
        xp = array_namespace(w, differences)
        x, _ = divided_differences.arguments(function, w)
        lost = xp.isnan(x)[:, :, None]  # all of a matrix
        differences = xp.where(lost, xp.nan, c_ordered(differences))
    gradient = product_jvp(v, g, differences)
    return filled(gradient, out, g)


def filled(gradient, out, *cotangents):
    """The output: zero where the cotangents of a matrix are."""
    xp = array_namespace(gradient)
    if out is None:
        out = xp.empty_like(gradient)
    used = xp.zeros(gradient.shape[0], dtype=xp.bool, device=device(gradient))
    for x in cotangents:
        used = used | xp.any(x != 0, axis=tuple(range(1, x.ndim)))
    out[...] = xp.where(used[:, None, None], hermitian(gradient), 0)
    return out
