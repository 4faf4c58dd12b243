"""The decomposition as a function that torch differentiates.

Backward and forward mode are `bed._derivative`, in torch operations on the saved
outputs, so that torch differentiates them again.
"""

import torch
from torch.autograd import forward_ad

from ..._derivative.eigh import eigh_jvp, eigh_vjp, without_unused
from ..._dispatch import matfun, solve
from ..._dispatch.interop.torch import LIBRARY, LinAlgError
from ..._dispatch.normalize import raise_unless_square
from ._phase import PhaseChecked


class _Rules:
    """What both functions below have in common: all but how they are computed."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, _, ctx.driver, ctx.method, *_ = inputs
        w, v, status = output
        ctx.dtype = a.dtype  # of the gradient; halves are computed in float32
        ctx.mark_non_differentiable(status)
        # A loss of the eigenvalues alone then has no term with 1/(wⱼ − wᵢ) at all.
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, v)
        ctx.save_for_forward(w, v)

    @staticmethod
    def backward(ctx, grad_w, grad_v, _):
        w, v = ctx.saved_tensors
        gradient, degree, check_phase = ctx.method
        if grad_w is None and grad_v is None:
            return (None,) * len(ctx.needs_input_grad)
        if check_phase and grad_v is not None and v.is_complex():
            grad_v = PhaseChecked.apply(v.detach(), grad_v)
        if gradient == "exact" and at_once(w, v, grad_w, grad_v):
            g = matfun.eigh_vjp(LIBRARY, w, v, grad_w, grad_v, ctx.driver)
        else:
            with full_precision(v):
                g = eigh_vjp(w, v, grad_w, grad_v, gradient=gradient, degree=degree)
        return g.to(ctx.dtype), *(None,) * (len(ctx.needs_input_grad) - 1)

    @staticmethod
    def jvp(ctx, da, *_):
        w, v = ctx.saved_tensors
        gradient, degree, _ = ctx.method
        # torch switches forward mode off around `jvp`. An outer level of torch.func
        # needs it: without, the second derivative by forward over forward is wrong in
        # silence.
        with full_precision(v), forward_ad._set_fwd_grad_enabled(True):
            da = da.to(v.dtype)
            w, v = without_unused(w, v, da)
            return *eigh_jvp(w, v, da, gradient=gradient, degree=degree), None


class Eigh(_Rules, torch.autograd.Function):
    """``(a, uplo, check, driver, method)`` to ``(w, v, status)``, at once."""

    @staticmethod
    def forward(a, uplo, check, driver, method):
        del method
        return solve.eigh(LIBRARY, a, uplo, check, driver)

    @staticmethod
    def vmap(info, in_dims, a, *options):
        """The mapped axis becomes one more leading axis."""
        del info
        return Eigh.apply(mapped_first(a, in_dims[0]), *options), (0, 0, 0)


class OperatorEigh(_Rules, torch.autograd.function._SingleLevelFunction):
    """The same by the operator below autograd.

    For the operator's own derivative, which is asked for at one level of torch.func at
    a time; a `torch.autograd.Function` would begin with all of them again.
    """

    @staticmethod
    def forward(a, uplo, check, driver, method, keys):
        options = uplo, check, driver, method.gradient, method.degree
        # torch switches both modes off around `forward`; outer levels need them.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return below_autograd(torch.ops.bed.eigh, keys, a, *options)


def mapped_first(a, axis):
    """A tensor with the mapped axis as the first of its leading axes."""
    a = a.movedim(axis, 0)
    raise_unless_square(a.shape[1:], LinAlgError)
    return a


def below_autograd(operator, keys, *arguments):
    """Call an operator from its derivative, which was dispatched with these keys."""
    with torch._C._AutoDispatchBelowAutograd():
        keys = keys & torch._C._after_autograd_keyset
        return operator.default.redispatch(keys, *arguments)


def at_once(*tensors) -> bool:
    """Whether a derivative of these is asked for once, and of values that are there.

    If not, it is made of torch's operations, or is a function that torch knows.
    """
    return not any(
        x is not None
        and (LIBRARY.traces(x) or torch._C._dispatch_keys(x).has(_BATCHED))
        for x in tensors
    )


# Of `torch.autograd.grad(is_grads_batched=True)`, which knows operations alone.
_BATCHED = torch._C._dispatch_key_parse("Batched")


def full_precision(x):
    """Keep an autocast around the call of backward out of its products."""
    return torch.autocast(x.device.type, enabled=False)
