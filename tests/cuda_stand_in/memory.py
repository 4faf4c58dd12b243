"""Memory of the stand-in for a GPU: counted, dirty, and never used twice."""

import contextlib
import weakref

import numpy as np

UNIT = 512  # bytes in which memory is given out
DIRT = 0xA7  # what is in every byte

_given: list = []  # weakly, all memory


class Pool:
    """Counts what was allocated; nothing is used twice."""

    def __init__(self):
        self.bytes = 0

    def malloc(self, size):
        self.bytes += -(-size // UNIT) * UNIT

    def total_bytes(self):
        return self.bytes

    def used_bytes(self):
        return sum(x.nbytes for m in _given if (x := m()) is not None)

    def free_all_blocks(self):
        self.bytes = 0


DEFAULT_POOL = Pool()
_allocators = [DEFAULT_POOL.malloc]


@contextlib.contextmanager
def using_allocator(malloc=None):
    _allocators.append(malloc or (lambda size: None))
    try:
        yield
    finally:
        _allocators.pop()


def claim(size):
    """Count bytes with the allocator that is in use."""
    _allocators[-1](size)


def dirty(size):
    """New memory, filled as that of a pool is."""
    claim(size)
    memory = np.full(size, DIRT, np.uint8)
    _given.append(weakref.ref(memory))
    return memory


class Lent:
    """Memory by the description of an array interface."""

    def __init__(self, interface):
        self.__array_interface__ = interface


def at(address, shape, dtype, strides=None):
    """Any address as an array."""
    dtype = np.dtype(dtype)
    interface = {
        "version": 3,
        "data": (int(address), False),
        "shape": tuple(int(x) for x in shape),
        "typestr": f"|V{dtype.itemsize}",  # some dtypes have no other
        "strides": strides and tuple(int(x) for x in strides),
    }
    return np.asarray(Lent(interface)).view(dtype)
