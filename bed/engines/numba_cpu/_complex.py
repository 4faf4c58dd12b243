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
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
)
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_getattr,
    make_attribute_wrapper,
    models,
    register_model,
)

from ._simd import Mask, Vector, call_llvm, constant, fma, operation, select
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


@infer_getattr
class _Parts(AttributeTemplate):
    """A real vector is its own real part."""

    key = Vector

    def resolve_real(self, vector):
        return vector

    resolve_imag = resolve_real


@lower_getattr(Vector, "real")
def _real(context, builder, vector, value):
    return value


@lower_getattr(Vector, "imag")
def _imag(context, builder, vector, value):
    return ir.Constant(value.type, None)


@intrinsic(prefer_literal=True)
def as_numbers(typingctx, memory, start, shape, lanes, matrix):
    """As `as_vectors`, but of numbers of the kind that `matrix` holds.

    Real and imaginary parts of a number follow each other.
    """
    part = Vector(memory.dtype, lanes.literal_value)
    complex_ = isinstance(matrix.dtype, types.Complex | ComplexVector)
    result, build = view_as(ComplexVector(part) if complex_ else part, len(shape))
    return result(memory, types.intp, shape, lanes, matrix), build


@intrinsic
def number(typingctx, a, real, imag):
    """A number of the kind that `a` holds; `imag` is dropped if it is real."""
    result = a.dtype
    part = result.part if isinstance(result, ComplexVector) else result

    def build(context, builder, sig, args):
        if not isinstance(result, ComplexVector):
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


# What they are built to, and the operations of `_simd` for complex vectors. Functions
# in compiled code would do, but take a tenth of the time until a first result.


class _Pair(NamedTuple):
    """Parts of a complex vector while code is built."""

    real: Any
    imag: Any


def _complex_operation(function, kinds, build):
    """Compile `function` of real and complex vectors to ``build(builder, *values)``.

    Complex ones come and go as `_Pair`; the parts of all are of one type.
    """

    @infer_global(function)
    class Operation(AbstractTemplate):
        def generic(self, args, kws):
            if kws or len(args) != len(kinds):
                return None
            if not all(
                isinstance(x, kind) for x, kind in zip(args, kinds, strict=True)
            ):
                return None
            result = next(x for x in args if isinstance(x, ComplexVector))
            parts = {x.part if isinstance(x, ComplexVector) else x for x in args}
            if all(x == result.part or isinstance(x, Mask) for x in parts):
                return signature(result, *args)

    @lower_builtin(function, *kinds)
    def lower(context, builder, sig, args):
        values = []
        for kind, value in zip(sig.args, args, strict=True):
            if isinstance(kind, ComplexVector):
                parts = cgutils.create_struct_proxy(kind)(context, builder, value)
                value = _Pair(parts.real, parts.imag)
            values.append(value)
        result = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        result.real, result.imag = build(builder, *values)
        return result._getvalue()


def _of_both(function, operands, build, build_complex):
    """The same function of real vectors alone and of complex ones alone."""
    operation(function, operands, build)
    _complex_operation(function, (ComplexVector,) * operands, build_complex)


_fma = call_llvm("fma")


def _reciprocal(builder, x):
    square = _fma(builder, x.real, x.real, builder.fmul(x.imag, x.imag))
    imag = builder.fneg(x.imag)
    return _Pair(builder.fdiv(x.real, square), builder.fdiv(imag, square))


def _multiply(builder, x, y):
    minus = builder.fneg(builder.fmul(x.imag, y.imag))
    real = _fma(builder, x.real, y.real, minus)
    return _Pair(real, _fma(builder, x.real, y.imag, builder.fmul(x.imag, y.real)))


def _fma_complex(builder, x, y, z):
    real = _fma(builder, builder.fneg(x.imag), y.imag, z.real)
    imag = _fma(builder, x.imag, y.real, z.imag)
    return _Pair(
        _fma(builder, x.real, y.real, real), _fma(builder, x.real, y.imag, imag)
    )


def _fma_conj(builder, x, y, z):
    real = _fma(builder, x.imag, y.imag, z.real)
    imag = _fma(builder, builder.fneg(x.real), y.imag, z.imag)
    return _Pair(
        _fma(builder, x.real, y.real, real), _fma(builder, x.imag, y.real, imag)
    )


def _by_parts(build):
    """An operation of complex vectors on both parts."""
    return lambda builder, *values: _Pair(
        *(build(builder, *parts) for parts in zip(*values, strict=True))
    )


def _one_over(builder, x):
    return builder.fdiv(constant(x.type, 1.0), x)


_of_both(
    conj,
    1,
    lambda builder, x: x,
    lambda builder, x: _Pair(x.real, builder.fneg(x.imag)),
)
_of_both(reciprocal, 1, _one_over, _reciprocal)
_of_both(fma_conj, 3, _fma, _fma_conj)
_complex_operation(operator.neg, (ComplexVector,), _by_parts(ir.IRBuilder.fneg))
_complex_operation(operator.add, (ComplexVector,) * 2, _by_parts(ir.IRBuilder.fadd))
_complex_operation(operator.mul, (ComplexVector,) * 2, _multiply)
_complex_operation(
    operator.mul,
    (Vector, ComplexVector),
    lambda builder, x, y: _Pair(builder.fmul(x, y.real), builder.fmul(x, y.imag)),
)
_complex_operation(fma, (ComplexVector,) * 3, _fma_complex)
_complex_operation(
    fma,
    (Vector, ComplexVector, ComplexVector),
    lambda builder, x, y, z: _Pair(
        _fma(builder, x, y.real, z.real), _fma(builder, x, y.imag, z.imag)
    ),
)
_complex_operation(
    select,
    (Mask, ComplexVector, ComplexVector),
    lambda builder, mask, x, y: _Pair(
        builder.select(mask, x.real, y.real), builder.select(mask, x.imag, y.imag)
    ),
)
