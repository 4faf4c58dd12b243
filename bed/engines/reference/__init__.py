"""The paper's algorithm in array-namespace code, written to be read."""

from .eigh import eigh
from .eigh_vjp import eigh_vjp
from .extremal import eigh_extremal, extremal_pays
from .generalized import eigh_generalized
from .spectral import spectral, spectral_product
from .spectral_vjp import spectral_vjp
from .stats import EighStats

__all__ = [
    "EighStats",
    "eigh",
    "eigh_extremal",
    "eigh_generalized",
    "eigh_vjp",
    "extremal_pays",
    "spectral",
    "spectral_product",
    "spectral_vjp",
]
