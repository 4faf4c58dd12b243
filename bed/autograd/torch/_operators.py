"""The solvers as operators that torch can write into a program.

Every tracer of torch but eager autograd records operators and what they return, and
none sees what is written into memory behind its back. An operator has one type for each
argument; for `check` it is a string.

The derivative is registered as a function of its own, not by `register_autograd` of
torch's custom operators: what that makes has no forward mode, and does not go through
torch.func inside torch.compile.
"""

import torch
from torch._functorch.utils import enable_single_level_autograd_function

from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.dtypes import WIDENED, compute_dtype, unsupported
from ..._dispatch.interop.torch import LIBRARY, LinAlgError
from ..._dispatch.normalize import (
    normalize_uplo,
    raise_unless_check,
    raise_unless_square,
)
from ...engines import known
from ._function import OperatorEigh, below_autograd, mapped_first

CHECKS = {str(check): check for check in (False, True, "hermitian")}

_LIBRARY = torch.library.Library("bed", "DEF")
_OPTIONS = 'Tensor a, str uplo="L", str check="False", str driver="auto"'
_LIBRARY.define(
    f'eigh({_OPTIONS}, str gradient="exact", int degree=9) -> (Tensor, Tensor, Tensor)'
)
_LIBRARY.define(f"eigvalsh({_OPTIONS}) -> (Tensor, Tensor)")


def _eigh(a, uplo="L", check="False", driver="auto", gradient="exact", degree=9):
    del gradient, degree
    return solve.eigh(LIBRARY, a, uplo, CHECKS.get(check, check), driver)


def _eigvalsh(a, uplo="L", check="False", driver="auto"):
    options = uplo, CHECKS.get(check, check), driver
    w, _, status = solve.eigh(LIBRARY, a, *options, False)
    return w, status


def _eigh_autograd(
    keys, a, uplo="L", check="False", driver="auto", gradient="exact", degree=9
):
    with enable_single_level_autograd_function():
        return OperatorEigh.apply(
            a, uplo, check, driver, Method(gradient, degree), keys
        )


def _eigvalsh_autograd(keys, a, uplo="L", check="False", driver="auto"):
    """The eigenvectors are computed where the derivative is to be made of them."""
    if _differentiated(a):
        w, _, status = torch.ops.bed.eigh(a, uplo, check, driver)
        return w.clone(), status  # the other w is saved for backward
    return below_autograd(torch.ops.bed.eigvalsh, keys, a, uplo, check, driver)


def _differentiated(a) -> bool:
    if a.requires_grad and torch.is_grad_enabled():
        return True
    # There is one level. `forward_ad.unpack_dual` does not see it in compiled programs.
    return torch._VF._unpack_dual(a, level=0).tangent is not None


def shapes_of(a, uplo="L", check="False", driver="auto", *_):
    """Outputs without values, for tracing; what is wrong is told as with values."""
    raise_unless_options(uplo, check, driver)
    raise_unless_square(a.shape, LinAlgError)
    return outputs_of(a, computed_dtype(a))


def raise_unless_options(uplo, check, driver):
    """Raise for what is no option of a solver."""
    normalize_uplo(uplo)
    raise_unless_check(CHECKS.get(check, check))
    if driver != "auto":
        known(driver)


def computed_dtype(a) -> torch.dtype:
    """What a tensor is computed in."""
    name = str(a.dtype).removeprefix("torch.")
    try:
        return getattr(torch, compute_dtype(WIDENED.get(name, name)).name)
    except TypeError:
        raise unsupported(a.dtype) from None


def outputs_of(a, dtype: torch.dtype):
    """The triple ``(w, v, status)`` of matrices like `a`, in another dtype."""
    return (
        a.new_empty(a.shape[:-1], dtype=dtype.to_real()),
        a.new_empty(a.shape, dtype=dtype),
        a.new_empty(a.shape[:-2], dtype=torch.int32),
    )


def _empty_values(a, *options):
    w, _, status = shapes_of(a, *options)
    return w, status


def _eigh_mapped(info, in_dims, a, *options):
    del info
    return torch.ops.bed.eigh(mapped_first(a, in_dims[0]), *options), (0, 0, 0)


def _eigvalsh_mapped(info, in_dims, a, *options):
    del info
    return torch.ops.bed.eigvalsh(mapped_first(a, in_dims[0]), *options), (0, 0)


for _name, _kernel, _autograd, _shapes, _mapped in (
    ("eigh", _eigh, _eigh_autograd, shapes_of, _eigh_mapped),
    ("eigvalsh", _eigvalsh, _eigvalsh_autograd, _empty_values, _eigvalsh_mapped),
):
    for _device in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _kernel, _device)
    _LIBRARY.impl(_name, _autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"bed::{_name}", _shapes, lib=_LIBRARY)
    torch.library.register_vmap(f"bed::{_name}", _mapped, lib=_LIBRARY)

eigh_operator = torch.ops.bed.eigh
eigvalsh_operator = torch.ops.bed.eigvalsh
