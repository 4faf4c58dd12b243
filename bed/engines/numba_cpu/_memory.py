"""Memory that compiled code takes and frees itself.

An array would do, but is counted whenever it is handed on, and what Numba compiles for
one takes longer than the rest of a workspace.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ._vector_array import VectorArray


@intrinsic
def allocate(typingctx, size):
    """The address of so many bytes, or 0 if there are none; whoever has it frees it."""

    def build(context, builder, sig, args):
        pointer = context.nrt.allocate_unchecked(builder, args[0])
        return builder.ptrtoint(pointer, args[0].type)

    return types.intp(types.intp), build


@intrinsic
def free(typingctx, address):
    """Give back what `allocate` gave."""

    def build(context, builder, sig, args):
        context.nrt.free(builder, builder.inttoptr(args[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(types.intp), build


@intrinsic
def numbers_at(typingctx, address, dtype):
    """Numbers of a dtype of NumPy, from an address on."""
    array = VectorArray(dtype.dtype, 1)

    def build(context, builder, sig, args):
        result = cgutils.create_struct_proxy(array)(context, builder)
        pointer = context.get_data_type(dtype.dtype).as_pointer()
        result.data = builder.inttoptr(args[0], pointer)
        result.row = context.get_constant(types.intp, 0)
        return result._getvalue()

    return array(types.intp, dtype), build
