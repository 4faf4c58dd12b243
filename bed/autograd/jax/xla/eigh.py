"""The solvers as a custom call of XLA: engines work in XLA's memory, on its stream.

XLA and its partitioner are told which axes are the batch: each device solves the part
of the batch that it has, and matrices that are split are put together before.

What an engine allocates besides (`cusolver` does, for large matrices) comes from CuPy,
out of the memory of the GPU that JAX has left.
"""

import math
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial

import jax
import numpy as np
from jax.interpreters import mlir

from ...._dispatch.dtypes import compute_dtype
from ...._dispatch.interop import Received
from ...._dispatch.interop.cupy import foreign_stream
from ...._dispatch.policy import choose
from ...._dispatch.solve import eigh_generalized_received, eigh_received
from ....engines import get, real_dtype
from ....engines._float_mode import default_float_mode
from . import ffi

# This name and those of the attributes are part of compiled programs, which JAX may
# keep on disk until another version of bed runs them.
TARGET = "bed_eigh"


def lower(context, *operands, device, **options):
    """Lowering rule of a primitive: a custom call between conversions of the dtype.

    Of one array, or of two of one shape and dtype. The device of `choose` is also that
    of the memory that the handler gets.
    """
    a = context.avals_in[0]
    dtype = compute_dtype(a.dtype)
    choose(a.shape[-1], dtype, device, driver=options["driver"])  # tells a wrong name
    if a.dtype != dtype or context.avals_out[0].dtype != real_dtype(dtype):
        solve = partial(_solve_converted, context.primitive, context.avals_out, options)
        return mlir.lower_fun(solve, multiple_results=True)(context, *operands)
    # The handler sees what results there are, and is not differentiated.
    attributes = {name: options[name] for name in ("uplo", "driver")}
    partition = _partition(context.avals_in, context.avals_out)
    rule = jax.ffi.ffi_lowering(TARGET, extra_attributes=partition)
    return rule(context, *operands, **attributes)


def _solve_converted(primitive, avals_out, options, *operands):
    """Integers are computed in float64 even where JAX has none."""
    with jax.enable_x64(True):
        converted = [
            jax.lax.convert_element_type(a, compute_dtype(a.dtype)) for a in operands
        ]
        found = primitive.bind(*converted, **options)
        return [
            jax.lax.convert_element_type(x, y.dtype)
            for x, y in zip(found, avals_out, strict=True)
        ]


def _partition(operands, results):
    """Attributes of a call that say which axes devices may have parts of.

    The first tells the partitioner, which knows the target, how many axes are batch;
    the second tells Shardy how shardings pass through: a factor for each axis of the
    batch, and others, to be whole, for those of the matrices.
    """
    a, batch = operands[-1], operands[-1].ndim - 2  # the last are matrices
    if not all(isinstance(size, int) for size in a.shape):
        return None  # exported with sizes that are not known
    attributes = {
        "mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": str(batch)})
    }
    if jax.config.jax_use_shardy_partitioner:
        sizes, mappings = list(a.shape[:batch]), []
        for x in (*operands, *results):
            factors = [*range(batch), *range(len(sizes), len(sizes) + x.ndim - batch)]
            sizes += x.shape[batch:]
            mappings.append("[" + ", ".join(_factor(k) for k in factors) + "]")
        given, made = mappings[: len(operands)], mappings[len(operands) :]
        named = ", ".join(f"{_factor(k)}={size}" for k, size in enumerate(sizes))
        whole = ", ".join(_factor(k) for k in range(batch, len(sizes)))
        attributes["sdy.sharding_rule"] = mlir.ir.Attribute.parse(
            f"#sdy.op_sharding_rule<({', '.join(given)})->({', '.join(made)}) "
            f"{{{named}}} "
            f"need_replication={{{whole}}}>"
        )
    return attributes


def _factor(k: int) -> str:
    """Shardy's names of factors: i to z, then z_1, z_2, …"""
    return chr(ord("i") + k) if k < 18 else f"z_{k - 17}"


@dataclass(frozen=True, eq=False)
class CustomCall:
    """What XLA knows a custom call by, and its handler on each platform."""

    target: str
    cpu: Callable
    cuda: Callable


@cache
def problem(platform: str, call: CustomCall | None = None) -> str | None:
    """Why the handler cannot be used on a platform, or None, once it is registered.

    Parameters
    ----------
    platform : {"cuda", "cpu"}
    call : CustomCall, optional
        By default that of the solvers.
    """
    call = call or CALL
    try:
        if platform == "cuda":
            get("raw_cuda").load()  # needs CuPy, and says how to get it
            # A CUDA plugin that is still to be loaded asks for the version then, where
            # a refusal would break JAX. XLA on the CPU, of the same release, asks now.
            if reason := problem("cpu", call):
                return reason
        jax.ffi.register_ffi_target(
            call.target,
            ffi.capsule(getattr(call, platform)),
            platform={"cuda": "CUDA"}.get(platform, platform),
        )
        jax.ffi.register_ffi_target_as_batch_partitionable(call.target)
    except Exception as error:  # of XLA, of a CuPy without its libraries
        return f"{type(error).__name__}: {error}"
    return None


def warn_of_copies(reason: str) -> None:
    """Say that a program that is being compiled will leave the device, and why."""
    warnings.warn(
        "bed cannot work on the GPU under jax.jit, and each call will copy to the host "
        f"and back: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )


def _on_host(solve, call: ffi.Call) -> None:
    # XLA calls from threads that flush subnormal numbers, which changes bits.
    with default_float_mode():
        solve(call, "cpu", _host_array)


def _on_cuda(solve, call: ffi.Call) -> None:
    import cupy

    number = call.device()
    with ExitStack() as stack:
        stack.enter_context(cupy.cuda.Device(number))
        stack.enter_context(foreign_stream(call.stream(), number))
        solve(call, "cuda", partial(_device_array, cupy, number))


def _solve(call: ffi.Call, device: str, array) -> None:
    """Fill the results of a call; `array` makes arrays of what is in XLA's memory."""
    arguments, results = call.arguments(), call.results()
    options = call.attributes()
    opened = [array(a.address, a.shape, a.dtype) for a in arguments]
    outputs = iter(results)  # in the order in which outputs are allocated

    def empty(shape, dtype):
        del shape, dtype  # XLA has allocated just these
        x = next(outputs)
        return array(x.address, x.shape, x.dtype)

    received, *others = (Received(a, device=device, empty=empty) for a in opened)
    # Without a check; values, vectors and status, or no vectors.
    how = options["uplo"], False, options["driver"], len(results) == 3
    if others:
        eigh_generalized_received(received, others[0], *how)
    else:
        eigh_received(received, *how)


class _HostMemory:
    """Foreign memory as NumPy asks for it."""

    def __init__(self, address, shape, dtype):
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def _host_array(address, shape, dtype):
    if not math.prod(shape):
        return np.empty(shape, dtype)  # XLA may have no address for it
    return np.asarray(_HostMemory(address, shape, dtype))


def _device_array(cupy, number, address, shape, dtype):
    size = math.prod(shape) * dtype.itemsize
    memory = cupy.cuda.UnownedMemory(address, size, None, number)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


def custom_call(target: str, solve: Callable) -> CustomCall:
    """One that calls a function like `_solve`, and is known to XLA on the CPU."""
    host, cuda = partial(_on_host, solve), partial(_on_cuda, solve)
    call = CustomCall(target, ffi.handler(host), ffi.handler(cuda))
    problem("cpu", call)  # registered now, for programs that were compiled elsewhere
    return call


CALL = custom_call(TARGET, _solve)
