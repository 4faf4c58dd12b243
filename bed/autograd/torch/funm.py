"""Functions of matrices that a caller writes, for tensors that torch differentiates.

As `_matfun_function`, with the first divided differences of f as a tensor. They are
made when f is called, where f may close over what torch differentiates or maps.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from ..._derivative.eigh import _conjugate_transpose as adjoint
from ..._derivative.eigh import _hermitian_part as hermitian_part
from ..._derivative.eigh import without_unused
from ..._derivative.funm import differences_of, second_differences_of
from ..._derivative.matfun import product_jvp, product_second
from ..._derivative.method import EXACT
from ..._dispatch import matfun
from ..._dispatch.interop.torch import LIBRARY, recorded
from ..._functions import IDENTITY
from ._function import at_once, full_precision
from ._matfun_function import Attached, primal
from ._phase import all_mapped
from .eigh import eigh


def funm(a: torch.Tensor, uplo, check, driver, f, df, d2f):
    """``(result, status)`` of `bed.funm`."""
    if recorded(a):
        raise NotImplementedError(
            "bed.funm cannot be recorded by torch.compile and what else records a "
            "program, which would not see how f is differentiated: use a named "
            "function, such as bed.powm, or call it outside of what is recorded"
        )
    hermitian = "hermitian" if check == "hermitian" else False
    w, v, status = eigh(a.detach(), uplo, hermitian, driver, EXACT)
    w, v = w.detach(), v.detach()
    values = matfun.values_of(f, w)
    if not (LIBRARY.traces(a) or LIBRARY.traces(values)):
        result, found = matfun.product(LIBRARY, values, v, IDENTITY, driver)
        return result, matfun.with_values(LIBRARY, status, found, check)
    # Where f has no value its differences have none, nor has the derivative.
    w = torch.where(values.isnan().any(-1, keepdim=True), torch.nan, w)
    given = _Given(f, df or _derivative_of(f), driver, d2f)
    differences = differences_of(w, f, given.df)
    result, found = _Funm.apply(a, w, v, values.to(w.dtype), differences, given)
    return result, matfun.with_values(LIBRARY, status, found, check)


class _Given(NamedTuple):
    """What is differentiated, and by which engine."""

    f: Callable
    df: Callable
    driver: str
    d2f: Callable | None = None

    def second(self, w):
        """Of k, the second differences f[wᵢ, wₖ, wⱼ]."""
        d2f = self.d2f or _derivative_of(self.df)
        return lambda k: second_differences_of(w, k, self.f, self.df, d2f)


def _derivative_of(f):
    """f′, of a function that takes an array entry by entry."""

    def df(x):
        _, pulled_back = torch.func.vjp(f, x)
        return pulled_back(torch.ones_like(x))[0]

    return df


class _Funm(torch.autograd.Function):
    """``(a, w, v, values, differences, given)`` to V diag(values) Vᴴ and a status."""

    @staticmethod
    def forward(a, w, v, values, differences, given):
        return matfun.product(LIBRARY, values, v, IDENTITY, given.driver)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.given = inputs
        ctx.dtype = inputs[0].dtype
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx, g, _):
        a, w, v, values, differences = ctx.saved_tensors
        by_a = by_values = None
        if g is not None and ctx.needs_input_grad[0]:
            by_a = _applied(a, w, v, g.to(v.dtype), differences, ctx.given)
            by_a = by_a.to(ctx.dtype)
        if g is not None and ctx.needs_input_grad[3]:
            by_values = _Diagonal.apply(a, w, v, g).to(values.dtype)
        return by_a, None, None, by_values, None, None

    @staticmethod
    def jvp(ctx, da, dw, dv, dvalues, *_):
        a, w, v, _, differences = ctx.saved_tensors
        total = torch.zeros_like(v)
        with forward_ad._set_fwd_grad_enabled(True), full_precision(v):
            a, differences = primal(a), primal(differences)
            if da is not None:
                da = da.to(v.dtype)
                total = total + _applied(a, w, v, da, differences, ctx.given)
            if dvalues is not None:
                total = total + _with_diagonal(v, dvalues)
        return total, None

    @staticmethod
    def vmap(info, in_dims, *arguments):
        *tensors, given = arguments
        return _Funm.apply(*all_mapped(info, in_dims, tensors), given), (0, 0)


class _Diagonal(torch.autograd.Function):
    """The diagonal of Vᴴ herm(G) V, of ``(a, w, v, g)``: the gradient of f(w)."""

    @staticmethod
    def forward(a, w, v, g):
        del a
        with full_precision(v):
            _, v = without_unused(w, v, g)
            return torch.real(v.conj() * (hermitian_part(g.to(v.dtype)) @ v)).sum(-2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, v, g = inputs
        ctx.dtype = g.dtype
        ctx.save_for_backward(v)
        ctx.save_for_forward(v)

    @staticmethod
    def backward(ctx, gradient):
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(
                "what f closes over has a gradient, which is not differentiated again "
                "with respect to the matrix: detach it, or differentiate with respect "
                "to the matrix first and to the parameters then"
            )
        (v,) = ctx.saved_tensors
        return None, None, None, _with_diagonal(v, gradient).to(ctx.dtype)

    @staticmethod
    def jvp(ctx, da, dw, dv, dg):
        raise NotImplementedError(
            "forward mode over the gradient of what f closes over is not known"
        )

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _Diagonal.apply(*all_mapped(info, in_dims, arguments)), 0


class _FunmVjp(torch.autograd.Function):
    """V (L ∘ (Vᴴ herm(G) V)) Vᴴ of ``(a, w, v, g, differences, given)``."""

    @staticmethod
    def forward(a, w, v, g, differences, given):
        return matfun.spectral_vjp(
            LIBRARY, w, v, g, IDENTITY, given.driver, differences
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.given = inputs
        ctx.dtype = inputs[0].dtype
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx, z):
        a, w, v, g, differences = ctx.saved_tensors
        by_a = by_g = by_differences = None
        if z is not None and ctx.needs_input_grad[0]:
            by_a = _second(a, w, v, z, g, ctx.given).to(ctx.dtype)
        if z is not None and ctx.needs_input_grad[3]:
            by_g = _applied(a, w, v, z, differences, ctx.given)
        if z is not None and ctx.needs_input_grad[4]:
            with full_precision(v):
                x, y = (adjoint(v) @ hermitian_part(each) @ v for each in (z, g))
                by_differences = torch.real(x.conj() * y).to(differences.dtype)
        return by_a, None, None, by_g, by_differences, None

    @staticmethod
    def jvp(ctx, da, dw, dv, dg, ddifferences, _):
        a, w, v, g, differences = ctx.saved_tensors
        total = torch.zeros_like(v)
        with forward_ad._set_fwd_grad_enabled(True), full_precision(v):
            a, g, differences = primal(a), primal(g), primal(differences)
            if da is not None:
                total = total + _second(a, w, v, da.to(v.dtype), g, ctx.given)
            if dg is not None:
                total = total + _applied(a, w, v, dg, differences, ctx.given)
            if ddifferences is not None:
                total = total + product_jvp(v, g, ddifferences)
        return total

    @staticmethod
    def vmap(info, in_dims, *arguments):
        *tensors, given = arguments
        return _FunmVjp.apply(*all_mapped(info, in_dims, tensors), given), 0


def _with_diagonal(v, x):
    """V diag(x) Vᴴ."""
    return hermitian_part((v * x[..., None, :]) @ adjoint(v))


def _applied(a, w, v, g, differences, given):
    """The derivative in the direction g, differentiable."""
    if at_once(a, w, v, g, differences):
        return matfun.spectral_vjp(
            LIBRARY, w, v, g, IDENTITY, given.driver, differences
        )
    if any(LIBRARY.traces(x) for x in (a, g, differences)):
        return _FunmVjp.apply(a, w, v, g, differences, given)
    with full_precision(v):  # many gradients at once, see `at_once`
        _, v = without_unused(w, v, g)
        return product_jvp(v, g, differences)


def _second(a, w, v, z, g, given):
    """D²f(A)[Z, G]."""
    with full_precision(v):
        if torch.is_grad_enabled():
            w, v = Attached.apply(a, w, v)
        w, v = without_unused(w, v, z)
        return product_second(v, z, g, given.second(w))
