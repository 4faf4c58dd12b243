"""The generalised problem for tensors that torch differentiates or records.

As `eigh` and `_operators` beside this file, for two matrices: a function that has every
derivative, and an operator for whatever records a program, whose derivative it is.
Before either, matrices are brought to common leading axes, and to complex numbers if
one of them is complex: torch adds up what that makes of their gradients.
"""

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from ..._derivative.eigh import without_unused
from ..._derivative.generalized import eigh_generalized_jvp, eigh_generalized_vjp
from ..._derivative.method import Method
from ..._dispatch import solve
from ..._dispatch.interop.torch import LIBRARY, LinAlgError, recorded
from ..._dispatch.normalize import broadcast_leading, raise_unless_square
from ._function import below_autograd, full_precision
from ._operators import CHECKS, computed_dtype, outputs_of, raise_unless_options
from ._phase import PhaseChecked, all_mapped
from .eigh import word


def eigh(a, b, uplo, check, driver, method: Method, eigenvectors=True):
    """`bed.eigh` with `b`, for such tensors: ``(w, v, status)``.

    The eigenvectors are computed in any case: the derivative is made of them.
    """
    a, b = _together(a, b)
    if not (recorded(a) or recorded(b)):
        w, v, status = Pairs.apply(a, b, uplo, check, driver, method)
    else:
        if method.check_phase:
            raise NotImplementedError(
                "check_phase=True cannot raise inside torch.compile and what else "
                "records a program, where there are no values to look at: check "
                "outside of it"
            )
        options = uplo, word(check), driver, *method[:2]
        w, v, status = torch.ops.bed.eigh_generalized(a, b, *options)
    return (w, v, status) if eigenvectors else (w.clone(), None, status)


def _together(a, b):
    """Of common leading axes, both real or both complex."""
    raise_unless_square(a.shape, LinAlgError)
    raise_unless_square(b.shape, LinAlgError)
    leading = broadcast_leading(a.shape, b.shape)
    if a.is_complex() != b.is_complex():
        wider = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(wider), b.to(wider)
    n = a.shape[-1]
    return a.expand(*leading, n, n), b.expand(*leading, n, n)


class _Rules:
    """What both functions below have in common: all but how they are computed."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, _, _, _, ctx.method, *_ = inputs
        w, v, status = output
        ctx.dtypes = a.dtype, b.dtype
        ctx.mark_non_differentiable(status)
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
        options = {"gradient": gradient, "degree": degree}
        with full_precision(v):
            gradients = eigh_generalized_vjp(w, v, grad_w, grad_v, **options)
        of_a, of_b = (
            g.to(dtype) for g, dtype in zip(gradients, ctx.dtypes, strict=True)
        )
        return of_a, of_b, *(None,) * (len(ctx.needs_input_grad) - 2)

    @staticmethod
    def jvp(ctx, da, db, *_):
        w, v = ctx.saved_tensors
        gradient, degree, _ = ctx.method
        # torch switches forward mode off around `jvp`, and outer levels need it.
        with full_precision(v), forward_ad._set_fwd_grad_enabled(True):
            da, db = (
                torch.zeros_like(v) if x is None else x.to(v.dtype) for x in (da, db)
            )
            w, v = without_unused(w, v, da, db)
            options = {"gradient": gradient, "degree": degree}
            return *eigh_generalized_jvp(w, v, da, db, **options), None


class Pairs(_Rules, torch.autograd.Function):
    """``(a, b, uplo, check, driver, method)`` to ``(w, v, status)``, at once."""

    @staticmethod
    def forward(a, b, uplo, check, driver, method):
        del method
        return solve.eigh_generalized((LIBRARY, LIBRARY), a, b, uplo, check, driver)

    @staticmethod
    def vmap(info, in_dims, a, b, *options):
        a, b = _mapped_first(info, in_dims, a, b)
        return Pairs.apply(a, b, *options), (0, 0, 0)


class OperatorPairs(_Rules, torch.autograd.function._SingleLevelFunction):
    """The same by the operator below autograd, for the operator's own derivative."""

    @staticmethod
    def forward(a, b, uplo, check, driver, method, keys):
        options = uplo, check, driver, method.gradient, method.degree
        # torch switches both modes off around `forward`; outer levels need them.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            operator = torch.ops.bed.eigh_generalized
            return below_autograd(operator, keys, a, b, *options)


def _mapped_first(info, in_dims, *matrices):
    """The mapped axis becomes one more leading axis of both."""
    matrices = all_mapped(info, in_dims, matrices)
    for x in matrices:
        raise_unless_square(x.shape[1:], LinAlgError)
    return matrices


def _solve(a, b, uplo="L", check="False", driver="auto", gradient="exact", degree=9):
    del gradient, degree
    options = uplo, CHECKS.get(check, check), driver
    return solve.eigh_generalized((LIBRARY, LIBRARY), a, b, *options)


def _autograd(
    keys, a, b, uplo="L", check="False", driver="auto", gradient="exact", degree=9
):
    with enable_single_level_autograd_function():
        method = Method(gradient, degree)
        return OperatorPairs.apply(a, b, uplo, check, driver, method, keys)


def _empty(a, b, uplo="L", check="False", driver="auto", *_):
    """Outputs without values, for tracing; what is wrong is told as with values."""
    raise_unless_options(uplo, check, driver)
    dtype = torch.promote_types(computed_dtype(a), computed_dtype(b))
    return outputs_of(a, dtype)


def _mapped(info, in_dims, a, b, *options):
    a, b = _mapped_first(info, in_dims, a, b)
    return torch.ops.bed.eigh_generalized(a, b, *options), (0, 0, 0)


_LIBRARY = torch.library.Library("bed", "FRAGMENT")
_LIBRARY.define(
    'eigh_generalized(Tensor a, Tensor b, str uplo="L", str check="False", '
    'str driver="auto", str gradient="exact", int degree=9) -> '
    "(Tensor, Tensor, Tensor)"
)
for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("eigh_generalized", _solve, _device)
_LIBRARY.impl("eigh_generalized", _autograd, "Autograd", with_keyset=True)
torch.library.register_fake("bed::eigh_generalized", _empty, lib=_LIBRARY)
torch.library.register_vmap("bed::eigh_generalized", _mapped, lib=_LIBRARY)
