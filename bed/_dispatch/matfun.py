"""Functions of matrices and their derivatives, for arrays of any library.

The way of `solve`, with other engine functions. Derivatives are of w and v that came
from such a call: their arrays are of one library and device, and have the same leading
axes.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from .._functions import Spectral
from .._status import Status
from ..engines import Engine, allocate, get
from .interop import Library, Received
from .normalize import array_for, normalize, normalize_uplo, raise_unless_check
from .policy import choose
from .solve import opaque, run
from .symmetry import raise_on_asymmetry

# Whose functions the engines without any are given.
LENT_BY = "reference"


@opaque
def spectral(library: Library, a, uplo, check, driver, functions, keep=False):
    """``(*results, w, v, status)`` of one or more functions, from one decomposition.

    Of those behind the first the domain is no larger: where they have no value the
    status says so. `w` and `v` are None unless they are kept.
    """
    upper = normalize_uplo(uplo)
    raise_unless_check(check)
    received = library.receive(a)
    with received.running():
        return spectral_received(received, upper, check, driver, functions, keep)


def spectral_received(received: Received, uplo, check, driver, functions, keep):
    """The same for an open array, on its device and stream."""
    a, leading, dtype = normalize(received)
    n = a.shape[-1]
    engine = choose(n, dtype, received.device, driver=driver).engine
    if check == "hermitian":
        raise_on_asymmetry(
            a.astype(dtype, copy=False), uplo, leading, received.dtype, received.error
        )
    results = [received.empty((*leading, n, n), dtype) for _ in functions]
    if keep or len(functions) > 1:
        w, v, status = allocate(received.empty, (*leading, n), dtype)
    else:
        w, v, status = None, None, received.empty(leading, np.dtype("i4"))
    outputs = (*results, w, v, status)
    a = array_for(engine, a, dtype)

    def solver(out):
        first, *others, w, v, status = out
        solve = _function_of(engine, "spectral")
        solve(a, uplo, functions[0], out=(first, w, v, status))
        for x, function in zip(others, functions[1:], strict=True):
            again = _function_of(engine, "spectral_product")
            _, lost = again(w, v, function, out=(x, status.copy()))
            status[status == Status.OK] = lost[status == Status.OK]

    outputs = run(solver, a, outputs, received, leading, check=bool(check))
    return outputs if keep else (*outputs[:-3], None, None, outputs[-1])


@opaque
def spectral_vjp(
    library: Library, w, v, g, function: Spectral, driver, differences=None
):
    """The derivative in the direction g, or the gradient of ⟨g, f⟩."""
    arrays = (w, v, g) if differences is None else (w, v, g, differences)
    solver = functools.partial(_spectral_vjp, function)
    return _from_decomposition(library, arrays, driver, solver)


def spectral_vjp_received(received: Received, arrays, function: Spectral, driver):
    """The same for open arrays w, v, g and perhaps differences; `received` is v."""
    solver = functools.partial(_spectral_vjp, function)
    return _received(received, arrays, driver, solver)


def _spectral_vjp(function, engine, arrays, out):
    vjp = _function_of(engine, "spectral_vjp")
    vjp(*arrays[:3], function, *arrays[3:], out=out[0])


@opaque
def eigh_vjp(library: Library, w, v, grad_w, grad_v, driver):
    """The exact gradient of a loss of w and v; a gradient that is zero may be None."""
    absent = grad_w is None, grad_v is None

    def solver(engine, arrays, out):
        w, v, *given = arrays
        by_w, by_v = (None if none else given.pop(0) for none in absent)
        _function_of(engine, "eigh_vjp")(w, v, by_w, by_v, out=out[0])

    arrays = [x for x in (w, v, grad_w, grad_v) if x is not None]
    return _from_decomposition(library, arrays, driver, solver)


def _from_decomposition(library, arrays, driver, solver):
    """Open w, v and what goes with them, and make matrices like v."""
    received = library.receive(arrays[1])
    others = [library.receive(x).array for x in arrays]
    with received.running():
        return _received(received, others, driver, solver)


def _received(received: Received, others, driver, solver):
    """The same for open arrays, of which the first is v, on their device and stream."""
    v = received.array
    leading, dtype = v.shape[:-2], v.dtype
    real = dtype.type(0).real.dtype
    engine = choose(v.shape[-1], dtype, received.device, driver=driver).engine
    axes, batch = len(leading), math.prod(leading)
    opened = []
    for x in others:
        x = x.astype(dtype if x.dtype.kind == "c" else real, copy=False)
        opened.append(x if axes == 1 else x.reshape(batch, *x.shape[axes:]))
    outputs = (received.empty(v.shape, dtype),)
    solver = functools.partial(solver, engine, opened)
    return run(solver, v, outputs, received, leading)[0]


def _function_of(engine: Engine, name: str) -> Callable:
    """A function of matrices of an engine, or what stands in for it."""
    if engine.functions:
        return engine.load(name)
    lent = get(LENT_BY).load(name)
    if name == "spectral":
        return functools.partial(lent, eigh=engine.load())
    return lent
