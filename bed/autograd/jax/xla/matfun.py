"""Functions of matrices and their derivatives as custom calls of XLA, as `eigh` has it.

The functions are told in an attribute: `encoded` and `_decoded` say how.
"""

from functools import partial

import jax
from jax.interpreters import mlir

from ...._dispatch.dtypes import compute_dtype
from ...._dispatch.interop import Received
from ...._dispatch.matfun import spectral_received, spectral_vjp_received
from ...._dispatch.policy import choose
from ...._functions import Function, Spectral
from . import eigh, ffi

# These names and those of the attributes are part of compiled programs, as in `eigh`.
TARGET = "bed_spectral"
VJP_TARGET = "bed_spectral_vjp"


def lower(context, operand, *, device, uplo, driver, functions, keep):
    """Lowering rule of the function, between conversions of the dtype."""
    (a,) = context.avals_in
    dtype = compute_dtype(a.dtype)
    choose(a.shape[-1], dtype, device, driver=driver)  # tells a wrong name
    options = {"uplo": uplo, "driver": driver, "functions": functions}
    if a.dtype != dtype or context.avals_out[0].dtype != dtype:
        options["keep"] = keep
        avals = context.primitive, context.avals_out
        solve = partial(eigh._solve_converted, *avals, options)
        return mlir.lower_fun(solve, multiple_results=True)(context, operand)
    # The handler sees what results there are.
    options["functions"] = _encoded(functions)
    return _call(TARGET, context, [operand], options)


def lower_vjp(context, _, *operands, device, function, driver):
    """Lowering rule of the derivative: its first operand, the matrix, has no part."""
    v = context.avals_in[2]
    choose(v.shape[-1], v.dtype, device, driver=driver)
    options = {"driver": driver, "functions": _encoded((function,))}
    context = context.replace(avals_in=context.avals_in[1:])
    return _call(VJP_TARGET, context, operands, options)


def _call(target, context, operands, attributes):
    partition = eigh._partition(context.avals_in, context.avals_out)
    rule = jax.ffi.ffi_lowering(target, extra_attributes=partition)
    return rule(context, *operands, **attributes)


def _encoded(functions) -> str:
    """The number of each function and its parameters, to the last bit."""
    return ";".join(
        " ".join([str(int(code)), *(float(x).hex() for x in numbers)])
        for code, *numbers in functions
    )


def _decoded(text: str) -> tuple[Spectral, ...]:
    return tuple(
        Spectral(Function(int(code)), *map(float.fromhex, numbers))
        for code, *numbers in (one.split() for one in text.split(";"))
    )


def _solve(call: ffi.Call, device: str, array) -> None:
    (a,) = _received(call, device, array)
    options = call.attributes()
    functions = _decoded(options["functions"])
    keep = len(call.results()) > len(functions) + 1
    how = options["uplo"], False, options["driver"], functions, keep
    spectral_received(a, *how)


def _solve_vjp(call: ffi.Call, device: str, array) -> None:
    received = _received(call, device, array)  # w, v, g, and perhaps differences
    options = call.attributes()
    (function,) = _decoded(options["functions"])
    arrays = [x.array for x in received]
    spectral_vjp_received(received[1], arrays, function, options["driver"])


def _received(call, device, array) -> list[Received]:
    """The arguments, beside which the results are allocated, in their order."""
    outputs = iter(call.results())

    def empty(shape, dtype):
        del shape, dtype  # XLA has allocated just these
        x = next(outputs)
        return array(x.address, x.shape, x.dtype)

    return [
        Received(array(x.address, x.shape, x.dtype), device=device, empty=empty)
        for x in call.arguments()
    ]


CALL = eigh.custom_call(TARGET, _solve)
VJP_CALL = eigh.custom_call(VJP_TARGET, _solve_vjp)
