"""bed: batched eigendecomposition of small symmetric and Hermitian matrices."""

from . import autograd as autograd
from . import jax as jax
from . import linalg as linalg
from ._config import show_config
from ._eigh import eigh, eigvalsh
from ._explain import explain, warmup
from ._stages import eigh_tridiagonal, tridiagonalize
from ._status import (
    EighInfoResult,
    EighResult,
    EigvalshInfoResult,
    Status,
    TridiagonalizeResult,
)
from ._version import __version__

__all__ = [
    "EighInfoResult",
    "EighResult",
    "EigvalshInfoResult",
    "Status",
    "TridiagonalizeResult",
    "__version__",
    "eigh",
    "eigh_tridiagonal",
    "eigvalsh",
    "explain",
    "show_config",
    "tridiagonalize",
    "warmup",
]
