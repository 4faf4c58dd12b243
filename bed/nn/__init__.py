"""Layers of torch on decompositions of covariances: ``import bed.nn``.

Whitening of a batch, pooling of second order, and whitening with colouring; the same as
pure functions are in `bed.nn.functional`. Needs torch, which ``import bed`` does not.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("bed.nn needs torch: pip install torch") from error

from . import functional as functional
from ._convert import convert_zca
from .covariance_pooling import CovariancePooling
from .wct import WCT
from .whitening import ZCAWhitening1d, ZCAWhitening2d

__all__ = [
    "WCT",
    "CovariancePooling",
    "ZCAWhitening1d",
    "ZCAWhitening2d",
    "convert_zca",
    "functional",
]
