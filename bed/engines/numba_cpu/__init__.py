"""The compiled CPU engine: what `driver="auto"` picks for small host arrays.

The files of the solver work on blocks: one matrix in each lane of a SIMD vector. What a
vector is stands in `_simd`, its complex twin in `_complex`, arrays of both in
`_vector_array`, and where their memory comes from in `_memory`; `_workspace`, `_load`
and `_store` lead from a batch to blocks and back.
"""

from ._cache import kept_on_disk
from ._stages import eigh_tridiagonal, tridiagonalize
from .eigh import eigh, prepared
from .eigh_vjp import eigh_vjp
from .extremal import eigh_extremal, extremal_pays
from .generalized import eigh_generalized
from .spectral import spectral, spectral_product
from .spectral_vjp import spectral_vjp

__all__ = [
    "eigh",
    "eigh_extremal",
    "eigh_generalized",
    "eigh_tridiagonal",
    "eigh_vjp",
    "extremal_pays",
    "kept_on_disk",
    "prepared",
    "spectral",
    "spectral_product",
    "spectral_vjp",
    "tridiagonalize",
]
