"""Functions of matrices, and their derivatives, as functions that torch differentiates.

The derivative is a function of its own, with its own derivative: D²f(A)[Z, G] in torch
operations. Eigenvalues and eigenvectors are constants to both, which is what keeps them
exact where eigenvalues coincide; `Attached` gives them derivatives for third ones.
"""

import torch
from torch.autograd import forward_ad

from ..._derivative.eigh import eigh_jvp, eigh_vjp, without_unused
from ..._derivative.matfun import spectral_jvp, spectral_second, without_failed
from ..._dispatch import matfun
from ..._dispatch.interop.torch import LIBRARY, recorded
from ._function import at_once, below_autograd, full_precision, mapped_first
from ._phase import all_mapped


class _Rules:
    """What the functions below have in common: all but how f(A) is computed."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, _, ctx.driver, ctx.functions, *_ = inputs
        *_, w, v, status = output
        ctx.dtype = a.dtype  # of the gradient; halves are computed in float32
        ctx.mark_non_differentiable(w, v, status)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, w, v)
        ctx.save_for_forward(a, w, v)

    @staticmethod
    def backward(ctx, *gradients):
        a, w, v = ctx.saved_tensors
        others = (None,) * (len(ctx.needs_input_grad) - 1)
        total = None
        for g, function in zip(gradients, ctx.functions, strict=False):
            if g is not None:
                part = derivative(a, w, v, g, function, ctx.driver)
                total = part if total is None else total + part
        return None if total is None else total.to(ctx.dtype), *others

    @staticmethod
    def jvp(ctx, da, *_):
        a, w, v = ctx.saved_tensors
        # torch switches forward mode off around `jvp`, which outer levels need.
        with forward_ad._set_fwd_grad_enabled(True):
            a, da = primal(a), da.to(v.dtype)
            found = [derivative(a, w, v, da, f, ctx.driver) for f in ctx.functions]
        return *found, None, None, None


class Spectral(_Rules, torch.autograd.Function):
    """``(a, uplo, check, driver, functions)`` to ``(*results, w, v, status)``."""

    @staticmethod
    def forward(a, uplo, check, driver, functions):
        return matfun.spectral(LIBRARY, a, uplo, check, driver, functions, True)

    @staticmethod
    def vmap(info, in_dims, a, *options):
        del info
        outputs = Spectral.apply(mapped_first(a, in_dims[0]), *options)
        return outputs, (0,) * len(outputs)


class OperatorSpectral(_Rules, torch.autograd.function._SingleLevelFunction):
    """The same by the operator below autograd; see `_function.OperatorEigh`."""

    @staticmethod
    def forward(a, uplo, check, driver, functions, keys):
        options = uplo, check, driver, *encoded(functions)
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            operator = torch.ops.bed.spectral
            return tuple(below_autograd(operator, keys, a, *options))


class _VjpRules:
    """Of V (L ∘ (Vᴴ G V)) Vᴴ, for ``(a, w, v, g, function, driver)``."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, w, v, g, ctx.function, ctx.driver, *_ = inputs
        ctx.dtypes = a.dtype, g.dtype
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, w, v, g)
        ctx.save_for_forward(a, w, v, g)

    @staticmethod
    def backward(ctx, z):
        a, w, v, g = ctx.saved_tensors
        others = (None,) * (len(ctx.needs_input_grad) - 4)
        if z is None:
            return None, None, None, None, *others
        by_a = by_g = None
        if ctx.needs_input_grad[0]:
            by_a = second_derivative(a, w, v, z, g, ctx.function).to(ctx.dtypes[0])
        if ctx.needs_input_grad[3]:
            by_g = derivative(a, w, v, z, ctx.function, ctx.driver).to(ctx.dtypes[1])
        return by_a, None, None, by_g, *others

    @staticmethod
    def jvp(ctx, da, dw, dv, dg, *_):
        a, w, v, g = ctx.saved_tensors
        total = torch.zeros_like(v)
        with forward_ad._set_fwd_grad_enabled(True):
            a, g = primal(a), primal(g)
            if dg is not None:
                dg = dg.to(v.dtype)
                total = total + derivative(a, w, v, dg, ctx.function, ctx.driver)
            if da is not None:
                da = da.to(v.dtype)
                total = total + second_derivative(a, w, v, da, g, ctx.function)
        return total


class SpectralVjp(_VjpRules, torch.autograd.Function):
    """At once."""

    @staticmethod
    def forward(a, w, v, g, function, driver):
        del a
        return matfun.spectral_vjp(LIBRARY, w, v, g, function, driver)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        tensors = all_mapped(info, in_dims, arguments[:4])
        return SpectralVjp.apply(*tensors, *arguments[4:]), 0


class OperatorSpectralVjp(_VjpRules, torch.autograd.function._SingleLevelFunction):
    """By the operator below autograd."""

    @staticmethod
    def forward(a, w, v, g, function, driver, keys):
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            options = *encoded((function,)), driver
            operator = torch.ops.bed.spectral_vjp
            return below_autograd(operator, keys, a, w, v, g, *options)


class Attached(torch.autograd.Function):
    """``(a, w, v)`` to w and v, with the derivatives of `bed.eigh`."""

    @staticmethod
    def forward(a, w, v):
        del a
        return w.clone(), v.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dtype = inputs[0].dtype
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx, grad_w, grad_v):
        w, v = ctx.saved_tensors
        if grad_w is None and grad_v is None:
            return None, None, None
        with full_precision(v):
            return eigh_vjp(w, v, grad_w, grad_v).to(ctx.dtype), None, None

    @staticmethod
    def jvp(ctx, da, *_):
        w, v = ctx.saved_tensors
        with full_precision(v), forward_ad._set_fwd_grad_enabled(True):
            da = da.to(v.dtype)
            return eigh_jvp(*without_unused(w, v, da), da)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return Attached.apply(*all_mapped(info, in_dims, arguments)), (0, 0)


def primal(x):
    """What was saved of an input, without the tangent that `jvp` is given."""
    return forward_ad.unpack_dual(x).primal


def derivative(a, w, v, g, function, driver):
    """The derivative in the direction g, or the gradient of ⟨g, f⟩; differentiable."""
    g = g.to(v.dtype)
    if at_once(a, w, v, g):
        return matfun.spectral_vjp(LIBRARY, w, v, g, function, driver)
    if recorded(v) or recorded(g) or recorded(a):
        return torch.ops.bed.spectral_vjp(a, w, v, g, *encoded((function,)), driver)
    if LIBRARY.traces(a) or LIBRARY.traces(g):
        return SpectralVjp.apply(a, w, v, g, function, driver)
    with full_precision(v):  # many gradients at once, see `at_once`
        w, v = without_failed(w, v, function, g)
        return spectral_jvp(w, v, g, function)


def second_derivative(a, w, v, z, g, function):
    """D²f(A)[Z, G], in torch operations."""
    with full_precision(v):
        z, g = z.to(v.dtype), g.to(v.dtype)
        if torch.is_grad_enabled():
            w, v = Attached.apply(a, w, v)
        w, v = without_failed(w, v, function, z, g)
        return spectral_second(w, v, z, g, function)


def encoded(functions) -> tuple[list[int], list[float]]:
    """What an operator has of functions: their numbers, and three floats of each."""
    numbers = [x for function in functions for x in function[1:]]
    return [int(function[0]) for function in functions], numbers
