"""Pairs from an end of the spectrum, for tensors that torch differentiates or records.

They are a part of all pairs. With X = Vᴴ V̄ the gradient of `bed._derivative.eigh` holds
F ∘ (X − Xᴴ), and X has the columns of those alone that are returned: no gap between two
others counts, as F is finite.
"""

import torch

from ..._derivative.method import Method
from ..._dispatch.interop.torch import LinAlgError
from ..._dispatch.normalize import normalize_extremal, raise_unless_square
from ..._status import Status
from ...engines import ends_at
from .eigh import eigh


def eigh_extremal(a: torch.Tensor, k, which, uplo, check, driver):
    """`bed.eigh_extremal` for such tensors: ``(w, v, status)``."""
    raise_unless_square(a.shape, LinAlgError)
    n = a.shape[-1]
    part = ends_at(n, normalize_extremal(k, which, n), which)
    w, v, status = eigh(a, uplo, check, driver, Method())
    w, v = w[..., part], v[..., part]
    fits = (status == Status.OVERFLOW) & ~w.detach().isinf().any(-1)
    return w, v, status.masked_fill(fits, Status.OK)
