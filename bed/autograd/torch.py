"""The solvers as torch differentiates and compiles them.

`bed.eigh` comes here by itself with a tensor that torch follows; there is no need to
import this. Backward and forward mode are `bed._vjp`, in torch operations on the saved
outputs, so that torch differentiates them again.

There are two ways in. An `autograd.Function` has every derivative, and a body that
`torch.compile` cannot look into. Registered operators are what it can put in a graph,
and have no forward mode; they are used while compiling, and only then.
"""

from typing import Any

import torch
from torch.autograd import forward_ad

from .._eigh import solve
from .._status import EighInfoResult, EighResult, EigvalshInfoResult
from .._vjp import eigh_jvp, eigh_vjp

# Computed in another dtype than they come in; the conversion is torch's, and takes the
# gradient back to the dtype of the input.
_WIDENED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


def eigh(
    a: torch.Tensor,
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> EighResult | EighInfoResult:
    """`bed.eigh` for tensors that torch differentiates or traces.

    The gradient is that of a matrix varied within the Hermitian ones, whatever triangle
    is read: it is Hermitian and fills both triangles, as that of `torch.linalg.eigh`.
    The status has no derivative. Writing into the eigenvalues or eigenvectors before
    backward raises in backward, as torch does for its own functions.
    """
    w, v, status = _decompose(_widened(a), UPLO, check, driver)
    return EighInfoResult(w, v, status) if return_info else EighResult(w, v)


def eigvalsh(
    a: torch.Tensor,
    UPLO: str = "L",
    *,
    check: bool | str = False,
    return_info: bool = False,
    driver: str = "auto",
) -> Any:
    """`bed.eigvalsh` for tensors that torch differentiates or traces; see `eigh`.

    The eigenvectors are computed too, because the derivative of the eigenvalues is made
    of them. Writing into the eigenvalues is allowed.
    """
    a = _widened(a)
    needs_gradient = a.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling() and not needs_gradient:
        _refuse_forward_mode(forward_ad.unpack_dual(a).tangent is not None)
        w, status = _eigvalsh_operator(a, UPLO, str(check), driver)
    else:
        w, _, status = _decompose(a, UPLO, check, driver)
        w = w.clone()  # the other one is saved for backward
    return EigvalshInfoResult(w, status) if return_info else w


def _widened(a):
    return a.to(_WIDENED.get(a.dtype, a.dtype))


def _decompose(a, uplo, check, driver):
    if torch.compiler.is_compiling():
        _refuse_forward_mode(forward_ad.unpack_dual(a).tangent is not None)
        return _eigh_operator(a, uplo, str(check), driver)
    return _Eigh.apply(a, uplo, check, driver)


def _refuse_forward_mode(refuse: bool):
    """Raise where an operator would drop the tangent and say nothing."""
    if refuse:
        raise NotImplementedError(
            "bed has no forward mode inside torch.compile: take the derivative in "
            "reverse mode, or outside the compiled function"
        )


def _forward_mode(w, v, da):
    # torch switches forward mode off around `jvp`. An outer level of torch.func needs
    # it: without, the second derivative by forward over forward is wrong in silence.
    with _full_precision(v), forward_ad._set_fwd_grad_enabled(True):
        return eigh_jvp(w, v, da)


def _full_precision(x):
    """Keep an autocast around the call of backward out of its products."""
    return torch.autocast(x.device.type, enabled=False)


def _save(ctx, inputs, output):
    """Save what `_gradients` takes."""
    del inputs
    # A loss of the eigenvalues alone then has no term with 1/(wⱼ − wᵢ) at all.
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[:2])


def _gradients(ctx, grad_w, grad_v, _):
    """Gradients with respect to ``(a, uplo, check, driver)``; None is zero."""
    if grad_w is None and grad_v is None:
        return None, None, None, None
    w, v = ctx.saved_tensors
    with _full_precision(v):
        return eigh_vjp(w, v, grad_w, grad_v), None, None, None


class _Eigh(torch.autograd.Function):
    """``(a, uplo, check, driver)`` to ``(w, v, status)``."""

    @staticmethod
    def forward(a, uplo, check, driver):
        return solve(a, uplo, check, driver)

    @staticmethod
    def setup_context(ctx, inputs, output):
        w, v, status = output
        ctx.mark_non_differentiable(status)
        ctx.save_for_forward(w, v)
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx, *gradients):
        return _gradients(ctx, *gradients)

    @staticmethod
    def jvp(ctx, da, *_):
        w, v = ctx.saved_tensors
        return *_forward_mode(w, v, da), None

    @staticmethod
    def vmap(info, in_dims, a, *options):
        """The mapped axis becomes one more leading axis."""
        del info
        return _Eigh.apply(a.movedim(in_dims[0], 0), *options), (0, 0, 0)


# An operator has one type for each argument; for `check` it is a string.
_CHECKS = {str(check): check for check in (False, True, "hermitian")}


def _in_dual_level():
    """Whether an argument may have a tangent; inside an operator it cannot be asked."""
    return forward_ad._current_level >= 0


@torch.library.custom_op("bed::eigh", mutates_args=())
def _eigh_operator(
    a: torch.Tensor, uplo: str, check: str, driver: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _refuse_forward_mode(_in_dual_level())
    return solve(a, uplo, _CHECKS.get(check, check), driver)


@torch.library.custom_op("bed::eigvalsh", mutates_args=())
def _eigvalsh_operator(
    a: torch.Tensor, uplo: str, check: str, driver: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """For tensors without gradient."""
    _refuse_forward_mode(_in_dual_level())
    options = uplo, _CHECKS.get(check, check), driver
    w, _, status = solve(a, *options, eigenvectors=False)
    return w, status


@_eigh_operator.register_fake
def _empty(a, *_):
    """Outputs without values, for tracing."""
    dtype = a.dtype if a.is_floating_point() or a.is_complex() else torch.float64
    return (
        a.new_empty(a.shape[:-1], dtype=dtype.to_real()),
        a.new_empty(a.shape, dtype=dtype),
        a.new_empty(a.shape[:-2], dtype=torch.int32),
    )


@_eigvalsh_operator.register_fake
def _empty_values(a, *options):
    w, _, status = _empty(a, *options)
    return w, status


@_eigh_operator.register_vmap
def _eigh_mapped(info, in_dims, a, *options):
    del info
    return _eigh_operator(a.movedim(in_dims[0], 0), *options), (0, 0, 0)


@_eigvalsh_operator.register_vmap
def _eigvalsh_mapped(info, in_dims, a, *options):
    del info
    return _eigvalsh_operator(a.movedim(in_dims[0], 0), *options), (0, 0)


_eigh_operator.register_autograd(_gradients, setup_context=_save)
