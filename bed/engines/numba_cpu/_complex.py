"""Complex SIMD vectors: a pair of real ones, and operations that both kinds share.

The stages before the QR iteration are written once, for real and complex matrices, in
terms of numbers that are a `Vector` or a `ComplexVector`:

    x.real, x.imag, -x, x + y, x * y (x real or a number)
    conj(x), reciprocal(x), select(mask, x, y)
    fma(x, y, z)         x·y + z, x real or a number
    fma_conj(x, y, z)    x·ȳ + z
    number(a, re, im)    a number of the kind that `a` holds, from its parts

For compiled code only, as all of `_simd`.
"""

import operator

from numba import types
from numba.core import cgutils
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_model,
)

from ._simd import Vector, fill, fma, select
from ._vector_array import view_as

__all__ = [
    "ComplexVector",
    "as_numbers",
    "conj",
    "fma",
    "fma_conj",
    "number",
    "reciprocal",
    "select",
]


class ComplexVector(types.Type):
    """Real and imaginary parts, each of the type `part`, a `Vector`."""

    def __init__(self, part):
        self.part = part
        super().__init__(f"ComplexVector({part})")


@register_model(ComplexVector)
class _ComplexVectorModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        members = [("real", fe_type.part), ("imag", fe_type.part)]
        super().__init__(dmm, fe_type, members)


make_attribute_wrapper(ComplexVector, "real", "real")
make_attribute_wrapper(ComplexVector, "imag", "imag")


@overload_attribute(Vector, "real")
def _real(x):
    return lambda x: x


@overload_attribute(Vector, "imag")
def _imag(x):
    return lambda x: fill(x, 0)


@intrinsic
def _pair(typingctx, real, imag):
    """The complex vector with these parts."""
    result = ComplexVector(real)

    def build(context, builder, sig, args):
        value = cgutils.create_struct_proxy(result)(context, builder)
        value.real, value.imag = args
        return value._getvalue()

    return result(real, real), build


@intrinsic(prefer_literal=True)
def as_numbers(typingctx, memory, start, shape, lanes, matrix):
    """As `as_vectors`, but of numbers of the kind that `matrix` holds.

    Real and imaginary parts of a number follow each other.
    """
    part = Vector(memory.dtype, lanes.literal_value)
    complex_ = isinstance(matrix.dtype, types.Complex)
    result, build = view_as(ComplexVector(part) if complex_ else part, len(shape))
    return result(memory, types.intp, shape, lanes, matrix), build


@intrinsic
def number(typingctx, a, real, imag):
    """A number of the kind that `a` holds; `imag` is dropped if it is real."""
    result = a.dtype
    part = result.part if _is_complex(result) else result

    def build(context, builder, sig, args):
        if not _is_complex(result):
            return args[1]
        value = cgutils.create_struct_proxy(result)(context, builder)
        value.real, value.imag = args[1:]
        return value._getvalue()

    return result(a, part, part), build


def conj(x):
    """Complex conjugate."""
    raise NotImplementedError


def reciprocal(x):
    """1/x; the square of |x| must neither overflow nor underflow."""
    raise NotImplementedError


def fma_conj(x, y, z):
    """x·ȳ + z."""
    raise NotImplementedError


def _is_complex(*args):
    return all(isinstance(arg, ComplexVector) for arg in args)


@overload(conj)
def _conj(x):
    return (lambda x: _pair(x.real, -x.imag)) if _is_complex(x) else (lambda x: x)


@overload(reciprocal)
def _reciprocal(x):
    if not _is_complex(x):
        return lambda x: 1 / x

    def of_complex(x):
        square = fma(x.real, x.real, x.imag * x.imag)
        return _pair(x.real / square, -x.imag / square)

    return of_complex


@overload(select)
def _select(mask, x, y):
    if _is_complex(x, y):
        return lambda mask, x, y: _pair(
            select(mask, x.real, y.real), select(mask, x.imag, y.imag)
        )


@overload(operator.neg)
def _neg(x):
    if _is_complex(x):
        return lambda x: _pair(-x.real, -x.imag)


@overload(operator.add)
def _add(x, y):
    if _is_complex(x, y):
        return lambda x, y: _pair(x.real + y.real, x.imag + y.imag)


@overload(operator.mul)
def _mul(x, y):
    if isinstance(x, Vector) and _is_complex(y):
        return lambda x, y: _pair(x * y.real, x * y.imag)
    if _is_complex(x, y):
        return lambda x, y: _pair(
            fma(x.real, y.real, -(x.imag * y.imag)),
            fma(x.real, y.imag, x.imag * y.real),
        )


@overload(fma)
def _fma(x, y, z):
    if _is_complex(x, y, z):
        return lambda x, y, z: _pair(
            fma(x.real, y.real, fma(-x.imag, y.imag, z.real)),
            fma(x.real, y.imag, fma(x.imag, y.real, z.imag)),
        )
    if isinstance(x, Vector) and _is_complex(y, z):
        return lambda x, y, z: _pair(fma(x, y.real, z.real), fma(x, y.imag, z.imag))


@overload(fma_conj)
def _fma_conj(x, y, z):
    if _is_complex(x, y, z):
        return lambda x, y, z: _pair(
            fma(x.real, y.real, fma(x.imag, y.imag, z.real)),
            fma(x.imag, y.real, fma(-x.real, y.imag, z.imag)),
        )
    return lambda x, y, z: fma(x, y, z)
