"""Functions of matrices and their derivatives, for arrays of any library.

The way of `solve`, with other engine functions. Derivatives are of w and v that came
from such a call: their arrays are of one library and device, and have the same leading
axes.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from .._functions import IDENTITY, Function, Spectral
from .._status import Status, raise_on_failure
from ..engines import Engine, allocate, get
from . import solve
from .interop import Library, Received, library_of, to_host
from .interop.received import describe
from .normalize import array_for, normalize, normalize_uplo, raise_unless_check
from .policy import loaded
from .solve import opaque, run
from .symmetry import raise_unless_hermitian

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
    engine, _ = loaded(n, dtype, received.device, True, driver)
    if check == "hermitian":
        raise_unless_hermitian(received, a, uplo, leading, dtype)
    results = [received.empty((*leading, n, n), dtype) for _ in functions]
    if keep or len(functions) > 1:
        w, v, status = allocate(received.empty, (*leading, n), dtype)
    else:
        w, v, status = None, None, received.empty(leading, np.dtype("i4"))
    outputs = (*results, w, v, status)
    a = array_for(engine, a, dtype)

    def solver(out):
        first, *others, w, v, status = out
        decompose = _function_of(engine, "spectral")
        decompose(a, uplo, functions[0], out=(first, w, v, status))
        for x, function in zip(others, functions[1:], strict=True):
            again = _function_of(engine, "spectral_product")
            _, lost = again(w, v, function, out=(x, status.copy()))
            status[status == Status.OK] = lost[status == Status.OK]

    outputs = run(solver, a, outputs, received, leading, check=bool(check))
    return outputs if keep else (*outputs[:-3], None, None, outputs[-1])


def funm(library: Library, a, uplo, check, driver, f: Callable):
    """``(result, status)`` of a function that takes an array of eigenvalues."""
    hermitian = "hermitian" if check == "hermitian" else False
    raise_unless_check(check)
    w, v, status = solve.eigh(library, a, uplo, hermitian, driver)
    values = values_of(f, w)
    result, found = product(library, values, v, IDENTITY, driver)
    return result, with_values(library, status, found, check)


def values_of(f: Callable, w):
    """f(w), which has to be an array like w."""
    values = f(w)
    if library_of(values).name != library_of(w).name or not hasattr(values, "shape"):
        raise TypeError(f"f was given {describe(w)} and returned {describe(values)}")
    if tuple(values.shape) != tuple(w.shape):
        raise ValueError(
            f"f has to return what it is given, {describe(w)}, entry by entry; got "
            f"{describe(values)}"
        )
    if "complex" in str(values.dtype):
        raise TypeError(f"f has to be real, and returned {describe(values)}")
    return values


def with_values(library: Library, status, found, check):
    """The status of eigenvalues, and where they are in order that of their values.

    These are NOT_FINITE where a value is NaN, which is outside of the domain then. With
    `check` the status is looked at.
    """
    outside = int(Status.DOMAIN) - int(Status.NOT_FINITE)
    found = found + (found == int(Status.NOT_FINITE)) * found * outside
    status = status + (status == int(Status.OK)) * found
    if check:
        received = library.receive(status)
        with received.running():
            raise_on_failure(to_host(received.array), received.error)
    return status


@opaque
def product(library: Library, w, v, function: Spectral, driver):
    """``(f, status)`` from w and v."""

    def solver(engine, arrays, out):
        w, v = arrays
        _function_of(engine, "spectral_product")(w, v, function, out=out)

    return _from_decomposition(library, (w, v), driver, solver, with_status=True)


@opaque
def spectral_vjp(
    library: Library, w, v, g, function: Spectral, driver, differences=None
):
    """The derivative in the direction g, or the gradient of ⟨g, f⟩."""
    arrays = (w, v, g) if differences is None else (w, v, g, differences)
    solver = functools.partial(_spectral_vjp, function)
    return _from_decomposition(library, arrays, driver, solver)[0]


def spectral_vjp_received(received: Received, arrays, function: Spectral, driver):
    """The same for open arrays w, v, g and perhaps differences; `received` is v."""
    solver = functools.partial(_spectral_vjp, function)
    return _received(received, arrays, driver, solver)[0]


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
    return _from_decomposition(library, arrays, driver, solver)[0]


def _from_decomposition(library, arrays, driver, solver, with_status=False):
    """Open w, v and what goes with them, and make matrices like v."""
    received = library.receive(arrays[1])
    others = [library.receive(x).array for x in arrays]
    with received.running():
        return _received(received, others, driver, solver, with_status)


def _received(received: Received, others, driver, solver, with_status=False):
    """The same for open arrays, of which the first is v, on their device and stream."""
    v = received.array
    leading, dtype = v.shape[:-2], v.dtype
    real = dtype.type(0).real.dtype
    engine, _ = loaded(v.shape[-1], dtype, received.device, True, driver)
    axes, batch = len(leading), math.prod(leading)
    opened = []
    for x in others:
        x = x.astype(dtype if x.dtype.kind == "c" else real, copy=False)
        opened.append(x if axes == 1 else x.reshape(batch, *x.shape[axes:]))
    outputs: tuple = (received.empty(v.shape, dtype),)
    if with_status:
        *_, status = allocate(received.empty, v.shape[:-1], dtype)
        outputs += (status,)
    solver = functools.partial(solver, engine, opened)
    return run(solver, v, outputs, received, leading)


def warmup(a, driver: str) -> None:
    """Compile what functions of matrices (batch, n, n) need, and their derivatives."""
    device = "cpu" if isinstance(a, np.ndarray) else "cuda"
    engine, _ = loaded(a.shape[-1], a.dtype, device, True, driver)
    function = Spectral(Function.SQRT)
    _, w, v, _ = _function_of(engine, "spectral")(a, "L", function)
    _function_of(engine, "spectral_vjp")(w, v, a, function)
    _function_of(engine, "eigh_vjp")(w, v, w, a)


def _function_of(engine: Engine, name: str) -> Callable:
    """A function of matrices of an engine, or what stands in for it."""
    if engine.functions:
        return engine.load(name)
    lent = get(LENT_BY).load(name)
    if name == "spectral":
        return functools.partial(lent, eigh=engine.load())
    return lent
