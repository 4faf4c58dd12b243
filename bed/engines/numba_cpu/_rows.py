"""Rows of numbers: one number at a time, or as many as a register has.

In a block of several matrices a number is a vector with an entry of each, which fills
registers by itself. Where a real matrix is alone in its block, numbers that follow each
other in a row are taken together. Either way each is computed alike, and sums are made
of the same parts in the same order, so that no bit depends on it.

    together(row)             how many numbers are taken together
    chunk(row)                how many make a part of a sum, or several parts
    take(row, j)              these numbers, from number j on
    put(row, j, x)            the same way back
    nothing(row)              zeros, which the parts of a sum begin with
    product(x, y, part)       part + x·y
    product_conj(x, y, part)  part + x·ȳ
    product_real(x, y, part)  part + Re x·ȳ
    add(total, part)          total + part, or + one part after another

Rows end with zeros: as many as are taken together, less one. They stay zeros, as they
meet nothing else. All this is for compiled code only.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_model

from ._compile import CHUNK, WIDE
from ._complex import ComplexVector, fma_conj
from ._simd import Vector, VectorModel, call_llvm, fma
from ._vector_array import address_of

__all__ = [
    "add",
    "chunk",
    "nothing",
    "product",
    "product_conj",
    "product_real",
    "put",
    "take",
    "together",
]


class Neighbours(Vector):
    """Numbers that follow each other in a row, a register of them."""


register_model(Neighbours)(VectorModel)


def _taken(row):
    """The type of what is taken from a row, or from the rows of a matrix."""
    number = row.dtype
    if isinstance(number, Vector) and number.lanes == 1:
        return Neighbours(number.dtype, 8 * (WIDE // 2) // number.dtype.bitwidth)
    return number


def _count(typingctx, row, otherwise):
    """Numbers that are taken together, if there are several, as an intrinsic."""
    taken = _taken(row)
    count = taken.lanes if isinstance(taken, Neighbours) else otherwise

    def build(context, builder, sig, args):
        return context.get_constant(types.intp, count)

    return types.intp(row), build


@intrinsic
def together(typingctx, row):
    """How many numbers of a row are taken together."""
    return _count(typingctx, row, 1)


@intrinsic
def chunk(typingctx, row):
    """How many numbers of a row make a part of a sum, or several parts at once."""
    return _count(typingctx, row, CHUNK)


@intrinsic
def nothing(typingctx, row):
    """Zero for all that is taken together."""
    taken = _taken(row)

    def build(context, builder, sig, args):
        return ir.Constant(context.get_value_type(taken), None)

    return taken(row), build


@intrinsic
def take(typingctx, row, j):
    """The numbers of a row from j on that are taken together."""
    taken = _taken(row)

    def build(context, builder, sig, args):
        address = address_of(context, builder, sig, args)
        if not isinstance(taken, Neighbours):
            return context.unpack_value(builder, taken, address)
        address = builder.bitcast(address, context.get_value_type(taken).as_pointer())
        return builder.load(address, align=taken.dtype.bitwidth // 8)

    return taken(row, types.intp), build


@intrinsic
def put(typingctx, row, j, x):
    """Numbers to where `take` has them from."""
    taken = _taken(row)

    def build(context, builder, sig, args):
        address, x = address_of(context, builder, sig, args), args[2]
        if isinstance(taken, Neighbours):
            address = builder.bitcast(address, x.type.as_pointer())
            builder.store(x, address, align=taken.dtype.bitwidth // 8)
        else:
            context.pack_value(builder, taken, x, address)
        return context.get_dummy_value()

    return types.none(row, types.intp, taken), build


@intrinsic
def product(typingctx, x, y, part):
    """part + x·y."""
    return _multiplied(fma, x, y, part)


@intrinsic
def product_conj(typingctx, x, y, part):
    """part + x·ȳ."""
    return _multiplied(fma_conj, x, y, part)


@intrinsic
def product_real(typingctx, x, y, part):
    """part + Re x·ȳ; `part` is real."""
    if not isinstance(x, ComplexVector):
        return _multiplied(fma, x, y, part)

    def build(context, builder, sig, args):
        x, y = (
            cgutils.create_struct_proxy(kind)(context, builder, value)
            for kind, value in zip(sig.args[:2], args[:2], strict=True)
        )
        part = _fma(builder, x.imag, y.imag, args[2])
        return _fma(builder, x.real, y.real, part)

    return part(x, y, part), build


@intrinsic
def add(typingctx, total, part):
    """total + part; of a sum, whose parts may come several at once."""
    if not isinstance(part, Neighbours):
        return total(total, part), _call(operator.add)

    def build(context, builder, sig, args):
        total, parts = args
        for last in range(CHUNK - 1, sig.args[1].lanes, CHUNK):
            each = builder.extract_element(parts, ir.IntType(32)(last))
            total = builder.fadd(total, each)
        return total

    return total(total, part), build


def _multiplied(function, x, y, part):
    """A product and a sum, as an intrinsic."""
    chained = isinstance(part, Neighbours)
    return part(x, y, part), _chain if chained else _call(function)


def _call(function):
    """Builder of a call of what is built for `function` and such arguments."""
    return lambda context, builder, sig, args: context.get_function(function, sig)(
        builder, args
    )


def _chain(context, builder, sig, args):
    """Products of CHUNK neighbours, each added to that before, in the last of them."""
    x, y, part = args
    before = [i - 1 if i % CHUNK else i for i in range(sig.return_type.lanes)]
    before = ir.Constant(ir.VectorType(ir.IntType(32), len(before)), before)
    part = _fma(builder, x, y, part)
    for _ in range(CHUNK - 1):
        part = _fma(builder, x, y, builder.shuffle_vector(part, part, before))
    return part


_fma = call_llvm("fma")
