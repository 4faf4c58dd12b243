"""S^½ and S^-½ of covariances, exact or as the literature approximates them."""

from typing import Any

import torch

from .. import eigh, invsqrtm, sqrtm
from .._derivative.method import normalize_method

# Eigenvalues below n·eps of the largest are what rounding left, and are lifted to it.
FLOOR = 1.0


def root(a: Any, gradient: str = "exact", degree: int = 9, driver: str = "auto"):
    """S^½ of (..., n, n) tensors; see `inverse_root`."""
    if gradient == "exact":
        return sqrtm(a, floor=FLOOR, driver=driver)
    return _composed(a, torch.sqrt, gradient, degree, driver)


def inverse_root(
    a: Any, gradient: str = "exact", degree: int = 9, driver: str = "auto"
):
    """S^-½ of (..., n, n) tensors.

    With another gradient than ``"exact"`` it is composed of eigenvalues and
    eigenvectors, and differentiated through these.
    """
    if gradient == "exact":
        return invsqrtm(a, floor=FLOOR, driver=driver)
    return _composed(a, torch.rsqrt, gradient, degree, driver)


def _composed(a, function, gradient, degree, driver):
    w, v, *_ = eigh(a, gradient=gradient, degree=degree, driver=driver)
    n = w.shape[-1]
    bound = FLOOR * n * torch.finfo(w.dtype).eps * w.detach().abs().amax(-1, True)
    return (v * function(w.maximum(bound))[..., None, :]) @ v.mT


def newton_schulz(a, iterations: int):
    """An approximation of S^½, of matrices that are not zero.

    The coupled iteration on S/tr S, as in P. Li, J. Xie, Q. Wang, Z. Gao, "Towards
    Faster Training of Global Covariance Pooling Networks by Iterative Matrix Square
    Root Normalization", CVPR 2018.
    """
    trace = a.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    y = a / trace
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    z = identity.expand_as(y)
    for _ in range(iterations):
        step = (3 * identity - z @ y) / 2
        y, z = y @ step, step @ z
    return y * trace.sqrt()


def raise_unless_method(gradient: Any, degree: Any) -> None:
    """Options of a gradient are looked at when a layer is made."""
    normalize_method(gradient, degree, False)
