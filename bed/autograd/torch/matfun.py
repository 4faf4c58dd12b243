"""Functions of matrices for tensors that torch differentiates or records.

Two ways in, as for the solvers: see `eigh` beside this file.
"""

import torch

from ..._dispatch.interop.torch import recorded
from ._matfun_function import Spectral, encoded
from ._matfun_operators import spectral_operator
from .eigh import word


def spectral(a: torch.Tensor, uplo, check, driver, functions):
    """``(*results, status)`` of functions, from one decomposition."""
    if recorded(a):
        outputs = spectral_operator(a, uplo, word(check), driver, *encoded(functions))
    else:
        outputs = Spectral.apply(a, uplo, check, driver, functions)
    *results, _, _, status = outputs
    return *results, status
