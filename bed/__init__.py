"""bed: batched eigendecomposition of small symmetric and Hermitian matrices."""

from . import autograd as autograd
from . import jax as jax
from . import linalg as linalg
from ._config import show_config
from ._eigh import eigh, eigvalsh
from ._policy import explain, warmup
from ._status import EighInfoResult, EighResult, EigvalshInfoResult, Status
from ._version import __version__

__all__ = [
    "EighInfoResult",
    "EighResult",
    "EigvalshInfoResult",
    "Status",
    "__version__",
    "eigh",
    "eigvalsh",
    "explain",
    "show_config",
    "warmup",
]
