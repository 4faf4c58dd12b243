"""Arrays of vectors: how kernels reach the memory of a block.

NumPy arrays could hold vectors too. In inner loops they would cost more than the
arithmetic: their indices may count from the end, and each row taken out of one is
counted as a reference, atomically.
"""

import operator

from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

from ._simd import Vector

__all__ = ["VectorArray", "as_floats", "as_rows", "as_vectors", "view_as"]


class VectorArray(types.Type):
    """Vectors in memory, of one or two axes; see `as_vectors`.

    ``a[i]`` of two axes is a row, without a copy. Indices are neither checked nor
    counted from the end.
    """

    def __init__(self, dtype, ndim):
        self.dtype, self.ndim = dtype, ndim
        super().__init__(f"VectorArray({dtype}, {ndim})")


@register_model(VectorArray)
class _VectorArrayModel(models.StructModel):
    """Where the vectors are, and how many there are in a row."""

    def __init__(self, dmm, fe_type):
        members = [("data", types.CPointer(fe_type.dtype)), ("row", types.intp)]
        super().__init__(dmm, fe_type, members)


def view_as(dtype, ndim):
    """Type of an array of vectors, and the builder of such a view."""
    array = VectorArray(dtype, ndim)

    def build(context, builder, sig, args):
        floats = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
        address = builder.gep(floats.data, [args[1]])
        result = cgutils.create_struct_proxy(array)(context, builder)
        result.data = builder.bitcast(
            address, context.get_data_type(dtype).as_pointer()
        )
        result.row = cgutils.unpack_tuple(builder, args[2])[-1]
        return result._getvalue()

    return array, build


@intrinsic(prefer_literal=True)
def as_vectors(typingctx, memory, start, shape, lanes):
    """See floats of a contiguous array, from `start` on, as an array of vectors.

    Nothing is checked: `memory` has to stay in use, has to be large enough, and its
    address has to be a multiple of the size of a vector, as `start` is of `lanes`.
    """
    array, build = view_as(Vector(memory.dtype, lanes.literal_value), len(shape))
    return array(memory, types.intp, shape, lanes), build


@intrinsic
def as_floats(typingctx, memory, shape):
    """The same for the numbers themselves, an array of two axes.

    Also of outputs, because indices of NumPy arrays may count from the end: looking
    whether they do takes a twentieth of the time of tiny matrices.
    """
    if getattr(memory, "layout", "C") != "C":
        raise TypingError(f"as_floats needs a contiguous array, got {memory}")
    array, build = view_as(memory.dtype, 2)

    def build_from_start(context, builder, sig, args):
        zero = context.get_constant(types.intp, 0)
        return build(context, builder, sig, (args[0], zero, args[1]))

    return array(memory, shape), build_from_start


@intrinsic
def as_rows(typingctx, memory):
    """The real and imaginary parts in a contiguous array, those of a matrix in a row.

    Unlike an array, a view is not counted when it is handed on: that takes as long as
    a tiny matrix does.
    """
    if memory.layout != "C":
        raise TypingError(f"as_rows needs a contiguous array, got {memory}")
    dtype = getattr(memory.dtype, "underlying_float", memory.dtype)
    array = VectorArray(dtype, 2)

    def build(context, builder, sig, args):
        memory = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
        result = cgutils.create_struct_proxy(array)(context, builder)
        result.data = builder.bitcast(
            memory.data, context.get_data_type(dtype).as_pointer()
        )
        row = context.get_constant(types.intp, 1 if dtype is sig.args[0].dtype else 2)
        for size in cgutils.unpack_tuple(builder, memory.shape)[1:]:
            row = builder.mul(row, size)
        result.row = row
        return result._getvalue()

    return array(memory), build


def _indices(array, index):
    """Number of indices, or 0 if they are of the wrong kind."""
    if isinstance(array, VectorArray) and isinstance(index, types.Integer):
        return 1
    if isinstance(array, VectorArray) and isinstance(index, types.BaseTuple):
        kinds = tuple(index)
        return len(kinds) if all(isinstance(i, types.Integer) for i in kinds) else 0
    return 0


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args, kws):
        array, index = args
        count = _indices(array, index)
        if count and count == array.ndim:
            return signature(array.dtype, array, index)
        if count == 1:
            return signature(VectorArray(array.dtype, 1), array, index)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args, kws):
        array, index, _ = args
        count = _indices(array, index)
        if count and count == array.ndim:
            return signature(types.none, array, index, array.dtype)


def address_of(context, builder, sig, args):
    """Address of an element, or of a row, by the first two of the arguments."""
    return _address(context, builder, sig.args[0], args[0], sig.args[1], args[1])


def _address(context, builder, array_type, array, index_type, index):
    """Address of an element, or of a row."""
    array = cgutils.create_struct_proxy(array_type)(context, builder, array)
    tuple_ = isinstance(index_type, types.BaseTuple)
    kinds = tuple(index_type) if tuple_ else (index_type,)
    values = cgutils.unpack_tuple(builder, index) if tuple_ else (index,)
    offset, *rest = (
        context.cast(builder, value, kind, types.intp)
        for value, kind in zip(values, kinds, strict=True)
    )
    if array_type.ndim == 2:
        offset = builder.mul(offset, array.row)
    for value in rest:
        offset = builder.add(offset, value)
    return builder.gep(array.data, [offset])


@lower_builtin(operator.getitem, VectorArray, types.Integer)
@lower_builtin(operator.getitem, VectorArray, types.BaseTuple)
def _lower_getitem(context, builder, sig, args):
    address = _address(context, builder, sig.args[0], args[0], sig.args[1], args[1])
    if not isinstance(sig.return_type, VectorArray):
        return context.unpack_value(builder, sig.return_type, address)
    row = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    row.data, row.row = address, context.get_constant(types.intp, 0)
    return row._getvalue()


@lower_builtin(operator.setitem, VectorArray, types.Integer, types.Any)
@lower_builtin(operator.setitem, VectorArray, types.BaseTuple, types.Any)
def _lower_setitem(context, builder, sig, args):
    address = _address(context, builder, sig.args[0], args[0], sig.args[1], args[1])
    context.pack_value(builder, sig.args[2], args[2], address)
    return context.get_dummy_value()
