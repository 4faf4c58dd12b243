"""Kernels of functions of matrices, for the stand-in: always in the emulator."""

import re

import numpy as np

from .memory import at

TYPES = {
    "float": "f4",
    "double": "f8",
    "Complex<float>": "c8",
    "Complex<double>": "c16",
}


def compile_using_nvrtc(code, options=(), *, name_expressions):
    """The source for the machine code, and names that stand for themselves."""
    del options
    return code.encode(), {name: name for name in name_expressions}


def emulated_kernel(expression, code):
    """A kernel with the launch that it is given, on the memory of its arguments."""
    import emulated

    element = re.match(r"bed::\w+<(?:bed::)?(float|double|Complex<\w+>)", expression)
    source = re.match(r'#line 1 "(\w+\.cu)"', code)[1]
    kernel = emulated.kernel(source, expression)
    arrays = gradient_arrays if "vjp" in source else product_arrays

    def run(launch, *arguments):
        there = list(arguments)
        known = {}  # an array that is passed twice is one
        for i, found in arrays(np.dtype(TYPES[element[1]]), *arguments):
            there[i] = known.setdefault(int(arguments[i]), found)
        emulated.run_exact(kernel, launch, there)

    return run


def strided(address, shape, dtype, strides):
    """An array of these strides in elements; None at no address."""
    if not address:
        return None
    return at(address, shape, dtype, [int(s) * dtype.itemsize for s in strides])


def product_arrays(dtype, *arguments):
    """The arrays of BED_PRODUCT_PARAMETERS, each with its place among them."""
    size, n = (int(x) for x in arguments[10:12])
    square, real = (size, n, n), dtype.type(0).real.dtype
    yield 0, strided(arguments[0], (size, n), real, arguments[1:3])
    yield 3, strided(arguments[3], square, dtype, arguments[4:7])
    yield 7, at(arguments[7], square, dtype)
    yield 8, at(arguments[8], (size,), "i4")
    yield 9, at(arguments[9], (size,), "i4") if arguments[9] else None


def gradient_arrays(dtype, *arguments):
    """Those of BED_GRADIENT_PARAMETERS; `beside` may be the gradient of eigenvalues."""
    size, n, of_eigh = (int(x) for x in (*arguments[16:18], arguments[19] == 2))
    square, real = (size, n, n), dtype.type(0).real.dtype
    beside = square[:2] if of_eigh else square
    yield 0, strided(arguments[0], (size, n), real, arguments[1:3])
    yield 3, strided(arguments[3], square, dtype, arguments[4:7])
    yield 7, strided(arguments[7], square, dtype, arguments[8:11])
    yield (
        11,
        strided(arguments[11], beside, real, arguments[12 : 12 + len(beside)]),
    )
    yield 15, at(arguments[15], square, dtype)
