"""The solvers as a custom call of XLA: engines work in XLA's memory, on its stream.

What an engine allocates besides (`cusolver` does, for large matrices) comes from CuPy,
out of the memory of the GPU that JAX has left.
"""

import math
import warnings
from contextlib import ExitStack
from functools import cache, partial

import jax
import numpy as np
from jax.interpreters import mlir

from ...._dispatch.dtypes import compute_dtype
from ...._dispatch.interop import Received
from ...._dispatch.interop.cupy import foreign_stream
from ...._dispatch.policy import choose
from ...._dispatch.solve import eigh_received
from ....engines import get, real_dtype
from . import ffi

# This name and those of the attributes are part of compiled programs, which JAX may
# keep on disk until another version of bed runs them.
TARGET = "bed_eigh"


def lower(context, operand, *, uplo, driver, eigenvectors, device="cuda"):
    """Lowering rule of the primitive: a custom call between conversions of the dtype.

    The device of `choose` is also that of the memory that the handler gets.
    """
    (a,) = context.avals_in
    dtype = compute_dtype(a.dtype)
    choose(a.shape[-1], dtype, device, driver=driver)  # tells a wrong name now
    real = real_dtype(dtype)
    dtypes = (real, dtype, np.dtype("i4")) if eigenvectors else (real, np.dtype("i4"))
    avals = context.avals_out
    results = [
        jax.ShapeDtypeStruct(x.shape, d) for x, d in zip(avals, dtypes, strict=True)
    ]

    def solve(a):
        call = jax.ffi.ffi_call(TARGET, results)
        # Integers are computed in float64 even where JAX has none.
        with jax.enable_x64(True):
            found = call(_converted(a, dtype), uplo=uplo, driver=driver)
            return [_converted(x, y.dtype) for x, y in zip(found, avals, strict=True)]

    return mlir.lower_fun(solve, multiple_results=True)(context, operand)


def _converted(x, dtype):
    return x if x.dtype == dtype else jax.lax.convert_element_type(x, dtype)


@cache
def problem(platform: str) -> str | None:
    """Why the handler cannot be used on a platform, or None, once it is registered.

    Parameters
    ----------
    platform : {"cuda", "cpu"}
    """
    try:
        if platform == "cuda":
            get("raw_cuda").load()  # needs CuPy, and says how to get it
            # A CUDA plugin that is still to be loaded asks for the version then, where
            # a refusal would break JAX. XLA on the CPU, of the same release, asks now.
            if reason := problem("cpu"):
                return reason
        jax.ffi.register_ffi_target(
            TARGET,
            jax.ffi.pycapsule(HANDLERS[platform]),
            platform={"cuda": "CUDA"}.get(platform, platform),
        )
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


def _solve_host(call: ffi.Call) -> None:
    _solve(call, "cpu", _host_array)


def _solve_cuda(call: ffi.Call) -> None:
    import cupy

    number = call.device()
    with ExitStack() as stack:
        stack.enter_context(cupy.cuda.Device(number))
        stack.enter_context(foreign_stream(call.stream(), number))
        _solve(call, "cuda", partial(_device_array, cupy, number))


def _solve(call: ffi.Call, device: str, array) -> None:
    """Fill the results of a call; `array` makes arrays of what is in XLA's memory."""
    (a,), results = call.arguments(), call.results()
    options = call.attributes()
    opened = array(a.address, a.shape, a.dtype)
    outputs = iter(results)  # in the order in which outputs are allocated

    def empty(shape, dtype):
        del shape, dtype  # XLA has allocated just these
        x = next(outputs)
        return array(x.address, x.shape, x.dtype)

    eigh_received(
        Received(opened, device, empty),
        options["uplo"],
        False,
        options["driver"],
        eigenvectors=len(results) == 3,  # values, vectors, status
    )


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


HANDLERS = {
    "cpu": ffi.handler(_solve_host),
    "cuda": ffi.handler(_solve_cuda),
}
