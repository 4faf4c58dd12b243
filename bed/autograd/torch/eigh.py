"""The solvers as torch differentiates and compiles them.

`bed.eigh` comes here by itself with a tensor that torch follows; there is no need to
import this. Backward and forward mode are `bed._derivative.eigh`, in torch operations on the saved
outputs, so that torch differentiates them again.

There are two ways in. An `autograd.Function` has every derivative, and a body that
`torch.compile` cannot look into. Registered operators are what it can put in a graph,
and have no forward mode; they are used while compiling, and only then.
"""

import torch
from torch.autograd import forward_ad

from ..._derivative.eigh import depends_on_phase, eigh_jvp, eigh_vjp
from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.interop.torch import LIBRARY
from ..._status import name_failures

# Computed in another dtype than they come in; the conversion is torch's, and takes the
# gradient back to the dtype of the input.
_WIDENED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


def eigh(a: torch.Tensor, uplo, check, driver, method: Method):
    """`bed.eigh` for tensors that torch differentiates or traces: ``(w, v, status)``.

    The gradient is that of a matrix varied within the Hermitian ones, whatever triangle
    is read: it is Hermitian and fills both triangles, as that of `torch.linalg.eigh`.
    The status has no derivative. Writing into the eigenvalues or eigenvectors before
    backward raises in backward, as torch does for its own functions.
    """
    a = _widened(a)
    if not torch.compiler.is_compiling():
        return _Eigh.apply(a, (uplo, check, driver), method)
    _refuse_forward_mode(forward_ad.unpack_dual(a).tangent is not None)
    if method.check_phase:
        raise NotImplementedError(
            "check_phase=True cannot raise inside torch.compile, where there are no "
            "values to look at: check outside the compiled function"
        )
    return _eigh_operator(a, uplo, str(check), driver, method.gradient, method.degree)


def eigvalsh(a: torch.Tensor, uplo, check, driver):
    """`bed.eigvalsh` for such tensors: ``(w, status)``.

    The eigenvectors are computed too, because the derivative of the eigenvalues is made
    of them. Writing into the eigenvalues is allowed.
    """
    a = _widened(a)
    needs_gradient = a.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling() and not needs_gradient:
        _refuse_forward_mode(forward_ad.unpack_dual(a).tangent is not None)
        return _eigvalsh_operator(a, uplo, str(check), driver)
    w, _, status = eigh(a, uplo, check, driver, Method())
    return w.clone(), status  # the other w is saved for backward


def _widened(a):
    return a.to(_WIDENED.get(a.dtype, a.dtype))


def _refuse_forward_mode(refuse: bool):
    """Raise where an operator would drop the tangent and say nothing."""
    if refuse:
        raise NotImplementedError(
            "bed has no forward mode inside torch.compile: take the derivative in "
            "reverse mode, or outside the compiled function"
        )


def _full_precision(x):
    """Keep an autocast around the call of backward out of its products."""
    return torch.autocast(x.device.type, enabled=False)


def _vjp(w, v, grad_w, grad_v, gradient, degree):
    if grad_w is None and grad_v is None:
        return None
    with _full_precision(v):
        return eigh_vjp(w, v, grad_w, grad_v, gradient=gradient, degree=degree)


class _Eigh(torch.autograd.Function):
    """``(a, (uplo, check, driver), method)`` to ``(w, v, status)``."""

    @staticmethod
    def forward(a, options, method):
        del method
        return solve.eigh(LIBRARY, a, *options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        w, v, status = output
        ctx.method = inputs[-1]
        ctx.mark_non_differentiable(status)
        # A loss of the eigenvalues alone then has no term with 1/(wⱼ − wᵢ) at all.
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, v)
        ctx.save_for_forward(w, v)

    @staticmethod
    def backward(ctx, grad_w, grad_v, _):
        w, v = ctx.saved_tensors
        gradient, degree, check_phase = ctx.method
        if check_phase and grad_v is not None and v.is_complex():
            grad_v = _PhaseChecked.apply(v.detach(), grad_v)
        return _vjp(w, v, grad_w, grad_v, gradient, degree), None, None

    @staticmethod
    def jvp(ctx, da, *_):
        w, v = ctx.saved_tensors
        gradient, degree, _ = ctx.method
        # torch switches forward mode off around `jvp`. An outer level of torch.func
        # needs it: without, the second derivative by forward over forward is wrong in
        # silence.
        with _full_precision(v), forward_ad._set_fwd_grad_enabled(True):
            return *eigh_jvp(w, v, da, gradient=gradient, degree=degree), None

    @staticmethod
    def vmap(info, in_dims, a, *options):
        """The mapped axis becomes one more leading axis."""
        del info
        return _Eigh.apply(a.movedim(in_dims[0], 0), *options), (0, 0, 0)


class _PhaseChecked(torch.autograd.Function):
    """``(v, grad_v)`` to ``grad_v``, unless the loss depends on phases.

    A function of its own, because only inside one can values be looked at under vmap.
    """

    @staticmethod
    def forward(v, grad_v):
        depends = depends_on_phase(v, grad_v)
        if depends.any():
            failed = [tuple(index) for index in depends.nonzero().tolist()]
            raise RuntimeError(
                "the loss depends on the phases of the eigenvectors, which are "
                "arbitrary, and has no derivative: " + name_failures(failed)
            )
        return grad_v.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient

    @staticmethod
    def jvp(ctx, _, tangent):
        return None if tangent is None else tangent.clone()

    @staticmethod
    def vmap(info, in_dims, *arguments):
        moved = [
            x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(arguments, in_dims, strict=True)
        ]
        return _PhaseChecked.apply(*moved), 0


# An operator has one type for each argument; for `check` it is a string.
_CHECKS = {str(check): check for check in (False, True, "hermitian")}


def _in_dual_level():
    """Whether an argument may have a tangent; inside an operator it cannot be asked."""
    return forward_ad._current_level >= 0


@torch.library.custom_op("bed::eigh", mutates_args=())
def _eigh_operator(
    a: torch.Tensor, uplo: str, check: str, driver: str, gradient: str, degree: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    del gradient, degree
    _refuse_forward_mode(_in_dual_level())
    return solve.eigh(LIBRARY, a, uplo, _CHECKS.get(check, check), driver)


@torch.library.custom_op("bed::eigvalsh", mutates_args=())
def _eigvalsh_operator(
    a: torch.Tensor, uplo: str, check: str, driver: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """For tensors without gradient."""
    _refuse_forward_mode(_in_dual_level())
    options = uplo, _CHECKS.get(check, check), driver
    w, _, status = solve.eigh(LIBRARY, a, *options, eigenvectors=False)
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


def _save(ctx, inputs, output):
    *_, gradient, degree = inputs
    ctx.method = gradient, degree
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[:2])


def _gradients(ctx, grad_w, grad_v, _):
    """Gradients with respect to the arguments of the operator; None is zero."""
    w, v = ctx.saved_tensors
    return _vjp(w, v, grad_w, grad_v, *ctx.method), None, None, None, None, None


_eigh_operator.register_autograd(_gradients, setup_context=_save)
