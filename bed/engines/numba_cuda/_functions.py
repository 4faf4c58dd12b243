"""The scalar maths of functions of matrices, compiled for the device."""

from types import FunctionType

from bed.engines.scalar import functions

from ._compile import device


def _compiled(module):
    """What a module has, with functions that call each other on the device."""
    space = dict(vars(module))
    for name, found in vars(module).items():
        if isinstance(found, FunctionType):
            space[name] = device(FunctionType(found.__code__, space, name))
    return space


_space = _compiled(functions)
value, difference = _space["value"], _space["difference"]
clamp_difference = _space["clamp_difference"]
