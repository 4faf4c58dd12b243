"""bed: batched eigendecomposition of small symmetric and Hermitian matrices."""

from . import autograd as autograd
from . import jax as jax
from . import linalg as linalg
from ._config import show_config
from ._eigh import eigh, eigvalsh
from ._eigh_list import eigh_list
from ._explain import explain
from ._extremal import eigh_extremal
from ._funm import funm
from ._stages import eigh_tridiagonal, tridiagonalize
from ._status import (
    EighInfoResult,
    EighResult,
    EigvalshInfoResult,
    MatrixFunctionInfoResult,
    SqrtmInvsqrtmInfoResult,
    SqrtmInvsqrtmResult,
    Status,
    TridiagonalizeResult,
)
from ._version import __version__
from ._warmup import warmup
from .matfun import (
    absm,
    clampm,
    expm,
    invsqrtm,
    logm,
    powm,
    signm,
    sqrtm,
    sqrtm_invsqrtm,
)

__all__ = [
    "EighInfoResult",
    "EighResult",
    "EigvalshInfoResult",
    "MatrixFunctionInfoResult",
    "SqrtmInvsqrtmInfoResult",
    "SqrtmInvsqrtmResult",
    "Status",
    "TridiagonalizeResult",
    "__version__",
    "absm",
    "clampm",
    "eigh",
    "eigh_extremal",
    "eigh_list",
    "eigh_tridiagonal",
    "eigvalsh",
    "explain",
    "expm",
    "funm",
    "invsqrtm",
    "logm",
    "powm",
    "show_config",
    "signm",
    "sqrtm",
    "sqrtm_invsqrtm",
    "tridiagonalize",
    "warmup",
]
