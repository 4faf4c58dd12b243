"""SIMD vectors as Numba types: one lane for each matrix, explicit operations.

`Vector(dtype, lanes)` holds as many floats as it has lanes, and compiles to one LLVM
vector: to one register, or to several where those of the machine are shorter. The
lanes of a result depend on the same lanes of the operands and on nothing else.

    x + y, x - y, x * y, x / y, -x, abs(x), sqrt(x)     rounded as IEEE 754 says
    fma(x, y, z)                                        x·y + z, rounded once
    minimum(x, y), maximum(x, y)                        y where either is NaN; of
                                                        integers too
    x < y, x <= y, x > y, x >= y, x == y                `Mask`: False where NaN is met
    x != y                                              `Mask`: True where NaN is met
    m & k, m | k, ~m, any_lane(m)
    select(m, x, y)                                     x where m, else y
    fill(x, 0)                                          0 in every lane of one like x
    power_of_two(x)                                     2^⌊log₂|x|⌋ for normal x > 0

A scalar operand, or a vector of one lane beside longer ones, stands for a vector with
that number in every lane. The instructions carry no fast-maths flags: multiplications
and additions are fused where the source says so, and nowhere else, so that every number
of lanes on every machine gives the same bits. All this is for compiled code only;
called from Python, the functions do not work.
"""

import operator
from math import sqrt

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typeconv import Conversion
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import (
    lower_builtin,
    lower_cast,
    models,
    register_model,
)

__all__ = [
    "Mask",
    "Vector",
    "any_lane",
    "call_llvm",
    "constant",
    "fill",
    "fma",
    "maximum",
    "minimum",
    "operation",
    "power_of_two",
    "select",
    "sqrt",
]


class Vector(types.Type):
    """`lanes` numbers of the Numba type `dtype`, float32 or float64."""

    def __init__(self, dtype, lanes):
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"{type(self).__name__}({dtype}, {lanes})")

    def can_convert_from(self, typingctx, other):
        """A scalar becomes a vector where one is asked for."""
        if isinstance(other, (types.Integer, types.Float)):
            return Conversion.safe
        if isinstance(other, Vector) and (other.dtype, other.lanes) == (self.dtype, 1):
            return Conversion.safe


class Mask(types.Type):
    """A truth value in each of `lanes` lanes."""

    def __init__(self, lanes):
        self.lanes = lanes
        super().__init__(f"Mask({lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        scalar = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, _of_lanes(scalar, fe_type.lanes))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _of_lanes(ir.IntType(1), fe_type.lanes))


def _of_lanes(scalar, lanes):
    """The type in LLVM, which does more with a scalar than with a vector of one."""
    return ir.VectorType(scalar, lanes) if lanes > 1 else scalar


@lower_cast(types.Integer, Vector)
@lower_cast(types.Float, Vector)
@lower_cast(Vector, Vector)
def _splat(context, builder, fromty, toty, value):
    scalar = value
    if not isinstance(fromty, Vector):
        scalar = context.cast(builder, value, fromty, toty.dtype)
    if toty.lanes == 1:
        return scalar
    one = ir.VectorType(scalar.type, 1)
    all_zero = ir.Constant(ir.VectorType(ir.IntType(32), toty.lanes), None)
    first = builder.insert_element(ir.Constant(one, ir.Undefined), scalar, _int32(0))
    return builder.shuffle_vector(first, ir.Constant(one, ir.Undefined), all_zero)


def _int32(value):
    return ir.Constant(ir.IntType(32), value)


# Operations. Each is a Python function or operator, and what is built for it.


def fma(x, y, z):
    """x·y + z with one rounding, in compiled code."""
    raise NotImplementedError


def minimum(x, y):
    """x where x < y, else y, in compiled code."""
    raise NotImplementedError


def maximum(x, y):
    """x where x > y, else y, in compiled code."""
    raise NotImplementedError


def power_of_two(x):
    """The largest power of two that is not above a normal x > 0, in compiled code."""
    raise NotImplementedError


def fill(x, value):
    """A vector like x with the scalar `value` in every lane, in compiled code."""
    raise NotImplementedError


def select(mask, x, y):
    """x in the lanes where `mask` holds, y in the others, in compiled code."""
    raise NotImplementedError


def any_lane(mask):
    """Whether `mask` holds in any lane, in compiled code."""
    raise NotImplementedError


def _vector_among(args):
    """The one type of vector among operands, if the others are scalars."""
    vectors = {arg for arg in args if isinstance(arg, Vector)}
    if len(vectors) > 1:  # those of one lane are as scalars
        vectors = {vector for vector in vectors if vector.lanes > 1}
    others = [arg for arg in args if not isinstance(arg, Vector)]
    scalars = all(isinstance(arg, (types.Integer, types.Float)) for arg in others)
    return vectors.pop() if len(vectors) == 1 and scalars else None


def operation(function, operands, build, result=lambda vector: vector):
    """Compile `function` of that many vectors to what ``build(builder, *values)`` says.

    `result` gives the type of what is returned from the type of the operands.
    """

    @infer_global(function)
    class Operation(AbstractTemplate):
        def generic(self, args, kws):
            vector = _vector_among(args)
            if vector is not None and len(args) == operands and not kws:
                return signature(result(vector), *[vector] * operands)

    @lower_builtin(function, *[Vector] * operands)
    def lower(context, builder, sig, args):
        return build(builder, *args)


def _mask_operation(function, operands, build, result=lambda mask: mask):
    """The same for an operation on masks."""

    @infer_global(function)
    class Operation(AbstractTemplate):
        def generic(self, args, kws):
            same = len(args) == operands and len(set(args)) == 1 and not kws
            if same and isinstance(args[0], Mask):
                return signature(result(args[0]), *args)

    @lower_builtin(function, *[Mask] * operands)
    def lower(context, builder, sig, args):
        return build(builder, *args)


def call_llvm(name):
    """Builder of a call of an LLVM intrinsic that maps vectors to a vector."""

    def build(builder, *values):
        vector = values[0].type
        suffix = f"f{_bits(vector)}"
        if isinstance(vector, ir.VectorType):
            suffix = f"v{vector.count}{suffix}"
        function_type = ir.FunctionType(vector, [vector] * len(values))
        function = cgutils.get_or_insert_function(
            builder.module, function_type, f"llvm.{name}.{suffix}"
        )
        return builder.call(function, values)

    return build


def constant(type_, value):
    """`value` in every lane, of a type in LLVM."""
    vector = isinstance(type_, ir.VectorType)
    return ir.Constant(type_, [value] * type_.count if vector else value)


def _bits(vector):
    """Of a lane, by the type in LLVM."""
    return 32 if getattr(vector, "element", vector) == ir.FloatType() else 64


def _compare(sign):
    """Builder of a comparison that a NaN makes False, or True for ``!=``."""
    ordered = ir.IRBuilder.fcmp_ordered
    compare = ir.IRBuilder.fcmp_unordered if sign == "!=" else ordered
    return lambda builder, x, y: compare(builder, sign, x, y)


def _pick(sign):
    """Builder of minimum and maximum."""
    return lambda builder, x, y: builder.select(builder.fcmp_ordered(sign, x, y), x, y)


def _clear_significand(builder, x):
    """Keep sign and exponent of every lane."""
    bits = _bits(x.type)
    integers = _of_lanes(ir.IntType(bits), getattr(x.type, "count", 1))
    keep = constant(integers, -1 << {32: 23, 64: 52}[bits])
    return builder.bitcast(builder.and_(builder.bitcast(x, keep.type), keep), x.type)


def _any(builder, mask):
    if not isinstance(mask.type, ir.VectorType):
        return mask
    suffix = f"v{mask.type.count}i1"
    function_type = ir.FunctionType(ir.IntType(1), [mask.type])
    function = cgutils.get_or_insert_function(
        builder.module, function_type, f"llvm.vector.reduce.or.{suffix}"
    )
    return builder.call(function, [mask])


operation(operator.add, 2, ir.IRBuilder.fadd)
operation(operator.sub, 2, ir.IRBuilder.fsub)
operation(operator.mul, 2, ir.IRBuilder.fmul)
operation(operator.truediv, 2, ir.IRBuilder.fdiv)
operation(operator.neg, 1, ir.IRBuilder.fneg)
operation(abs, 1, call_llvm("fabs"))
operation(sqrt, 1, call_llvm("sqrt"))
operation(fma, 3, call_llvm("fma"))
operation(minimum, 2, _pick("<"))
operation(maximum, 2, _pick(">"))
operation(power_of_two, 1, _clear_significand)
operation(fill, 2, lambda builder, x, value: value)

for _function, _sign in ((minimum, "<"), (maximum, ">")):
    # Those of Python would be compiled each time, as functions of their own.

    @infer_global(_function)
    class _OfIntegers(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and all(isinstance(x, types.Integer) for x in args):
                return signature(types.intp, types.intp, types.intp)

    @lower_builtin(_function, types.Integer, types.Integer)
    def _lower_integers(context, builder, sig, args, sign=_sign):
        return builder.select(builder.icmp_signed(sign, *args), *args)


for _function, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    operation(_function, 2, _compare(_sign), lambda vector: Mask(vector.lanes))

_mask_operation(operator.and_, 2, ir.IRBuilder.and_)
_mask_operation(operator.or_, 2, ir.IRBuilder.or_)
_mask_operation(operator.invert, 1, ir.IRBuilder.not_)
_mask_operation(any_lane, 1, _any, lambda mask: types.boolean)


@infer_global(select)
class _Select(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) != 3 or kws or not isinstance(args[0], Mask):
            return None
        vector = _vector_among(args[1:])
        if vector is not None and vector.lanes == args[0].lanes:
            return signature(vector, args[0], vector, vector)


@lower_builtin(select, Mask, Vector, Vector)
def _lower_select(context, builder, sig, args):
    return builder.select(*args)
