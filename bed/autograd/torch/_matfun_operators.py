"""Functions of matrices as operators that torch can write into a program.

As `_operators` has the solvers: see there.
"""

import torch
from torch._functorch.utils import enable_single_level_autograd_function

from ..._dispatch import matfun
from ..._dispatch.interop.torch import LIBRARY
from ..._functions import Function, Spectral
from ._function import mapped_first
from ._matfun_function import OperatorSpectral, OperatorSpectralVjp
from ._operators import CHECKS, shapes_of
from ._phase import all_mapped

_LIBRARY = torch.library.Library("bed", "FRAGMENT")
_FUNCTIONS = "int[] functions, float[] numbers"
_LIBRARY.define(
    f"spectral(Tensor a, str uplo, str check, str driver, {_FUNCTIONS}) -> Tensor[]"
)
_LIBRARY.define(
    f"spectral_vjp(Tensor a, Tensor w, Tensor v, Tensor g, {_FUNCTIONS}, str driver)"
    " -> Tensor"
)


def _decoded(functions, numbers) -> tuple[Spectral, ...]:
    """What `encoded` was given."""
    return tuple(
        Spectral(Function(code), *numbers[3 * i : 3 * i + 3])
        for i, code in enumerate(functions)
    )


def _spectral(a, uplo, check, driver, functions, numbers):
    decoded = _decoded(functions, numbers)
    check = CHECKS.get(check, check)
    return list(matfun.spectral(LIBRARY, a, uplo, check, driver, decoded, True))


def _spectral_vjp(a, w, v, g, functions, numbers, driver):
    (function,) = _decoded(functions, numbers)
    return matfun.spectral_vjp(LIBRARY, w, v, g, function, driver)


def _spectral_autograd(keys, a, uplo, check, driver, functions, numbers):
    with enable_single_level_autograd_function():
        decoded = _decoded(functions, numbers)
        return list(OperatorSpectral.apply(a, uplo, check, driver, decoded, keys))


def _spectral_vjp_autograd(keys, a, w, v, g, functions, numbers, driver):
    with enable_single_level_autograd_function():
        (function,) = _decoded(functions, numbers)
        return OperatorSpectralVjp.apply(a, w, v, g, function, driver, keys)


def _empty(a, uplo, check, driver, functions, numbers):
    """Outputs without values, for tracing."""
    del numbers
    w, v, status = shapes_of(a, uplo, check, driver)
    return [*(torch.empty_like(v) for _ in functions), w, v, status]


def _empty_vjp(a, w, v, g, functions, numbers, driver):
    return torch.empty_like(v, memory_format=torch.contiguous_format)


def _spectral_mapped(info, in_dims, a, *options):
    outputs = torch.ops.bed.spectral(mapped_first(a, in_dims[0]), *options)
    return outputs, [0] * len(outputs)


def _spectral_vjp_mapped(info, in_dims, *arguments):
    tensors = all_mapped(info, in_dims, arguments[:4])
    return torch.ops.bed.spectral_vjp(*tensors, *arguments[4:]), 0


for _name, _kernel, _autograd, _shapes, _mapped in (
    ("spectral", _spectral, _spectral_autograd, _empty, _spectral_mapped),
    (
        "spectral_vjp",
        _spectral_vjp,
        _spectral_vjp_autograd,
        _empty_vjp,
        _spectral_vjp_mapped,
    ),
):
    for _device in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _kernel, _device)
    _LIBRARY.impl(_name, _autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"bed::{_name}", _shapes, lib=_LIBRARY)
    torch.library.register_vmap(f"bed::{_name}", _mapped, lib=_LIBRARY)

spectral_operator = torch.ops.bed.spectral
