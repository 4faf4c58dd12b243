"""The fused CUDA engine: one launch per batch and step, no workspace, no waiting."""

from .eigh import eigh
from .spectral import spectral, spectral_product
from .spectral_vjp import eigh_vjp, spectral_vjp

__all__ = ["eigh", "eigh_vjp", "spectral", "spectral_product", "spectral_vjp"]
