"""The floating-point mode that compiled code runs in, whatever its caller has set.

Some libraries flush subnormal numbers to zero in the threads that load them. Results
would then depend on the thread that works on a matrix: the modes are per thread, and a
new thread has that of the one that started it.

Entries set the mode, call one function that is never inlined, and restore the mode
however that ends. They do so themselves: Numba optimises the whole solver once more for
every function that it is called through.
"""

import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_INT64 = ir.IntType(64)


def _x86_exchange(builder, wanted):
    """Write MXCSR, which is only moved from and to memory; the old one."""
    int32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
    place = cgutils.alloca_once(builder, int32)
    address = builder.bitcast(place, pointer)
    _instruction(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), address)
    found = builder.zext(builder.load(place), _INT64)
    builder.store(builder.trunc(wanted, int32), place)
    _instruction(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), address)
    return found


def _arm_exchange(builder, wanted):
    """Write FPCR; the old one."""
    found = _instruction(builder, "llvm.aarch64.get.fpcr", _INT64)
    _instruction(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), wanted)
    return found


def _instruction(builder, name, result, *operands):
    function_type = ir.FunctionType(result, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, operands)


# Round to nearest, nothing flushed, every exception masked.
_EXCHANGE, _DEFAULT = {
    "x86_64": (_x86_exchange, 0x1F80),
    "AMD64": (_x86_exchange, 0x1F80),
    "aarch64": (_arm_exchange, 0),
    "arm64": (_arm_exchange, 0),
}.get(platform.machine(), (lambda builder, wanted: wanted, 0))


@intrinsic
def enter_default_mode(typingctx):
    """Set the default mode; returns the one to `restore_mode`."""

    def build(context, builder, signature, args):
        return _EXCHANGE(builder, ir.Constant(_INT64, _DEFAULT))

    return types.int64(), build


@intrinsic
def restore_mode(typingctx, mode):
    """Set the mode that `enter_default_mode` found."""

    def build(context, builder, signature, args):
        _EXCHANGE(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int64), build


@intrinsic
def never_inlined(typingctx):
    """Keep the function that contains this apart from its callers.

    To the compiler arithmetic does not depend on the mode, and of a function that is
    inlined it may move some to before the mode is set.
    """

    def build(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), build
