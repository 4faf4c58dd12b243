"""The CUDA engine in Python: one kernel for each stage, in Python, by Numba."""

from .eigh import eigh, eigh_tridiagonal, tridiagonalize
from .spectral import spectral, spectral_product
from .spectral_vjp import eigh_vjp, spectral_vjp

__all__ = [
    "eigh",
    "eigh_tridiagonal",
    "eigh_vjp",
    "spectral",
    "spectral_product",
    "spectral_vjp",
    "tridiagonalize",
]
