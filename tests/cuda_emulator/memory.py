"""Memory that a kernel cannot leave unnoticed.

A region is mapped with inaccessible pages on both sides. Its data touch those of one
side; what is left on the other side is filled with guard words.
"""

import ctypes
import math
import mmap
from functools import cache
from typing import NamedTuple

import numpy as np

PAGE = mmap.PAGESIZE
# Inaccessible bytes on either side: far enough for an index that is off by a matrix.
MARGIN = 256 * PAGE
_NONE, _READ, _READ_WRITE = 0, 1, 3
# Every 16, 32 and 64 bits of this are a NaN, so that a read is seen as well.
_GUARD = np.array([0xFFF8FFF9FFFAFFFB], "u8").view("u1")
# What an output holds before a kernel writes it: a NaN that no operation produces, and
# for integers the same idea.
_NAN_FILL, _INTEGER_FILL = 0xFFD5, 0xA5


@cache
def _mprotect():
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _protect(address, size, mode):
    if _mprotect()(address, size, mode):
        raise OSError(ctypes.get_errno(), "mprotect failed")


class Guarded:
    """Bytes between inaccessible ones.

    Parameters
    ----------
    nbytes : int
        Size of the data.
    align : int
        Alignment of the data, in bytes.
    name : str
        What messages call it.
    """

    def __init__(self, nbytes, align, name):
        self.nbytes, self.align, self.name = nbytes, align, name
        self.size = max(1, math.ceil(nbytes / PAGE)) * PAGE
        self._map = mmap.mmap(-1, self.size + 2 * MARGIN, mmap.MAP_PRIVATE)
        whole = np.frombuffer(self._map, "u1")
        self.base = whole.ctypes.data + MARGIN
        self._bytes = whole[MARGIN : MARGIN + self.size]
        self._guard = np.tile(_GUARD, self.size // 8)
        self.offset = self._offset(1)
        _protect(self.base - MARGIN, MARGIN, _NONE)
        _protect(self.base + self.size, MARGIN, _NONE)

    def _offset(self, side):
        """Of data that touch the lower edge (0) or the upper edge (1)."""
        return (self.size - self.nbytes) // self.align * self.align if side else 0

    @property
    def address(self):
        return self.base + self.offset

    def view(self, shape, dtype):
        """The data as an array."""
        return np.ndarray(shape, dtype, self._map, MARGIN + self.offset)

    def move(self, side):
        """Move the data to one side, and fill the rest with guard words."""
        old, self.offset = self.address, self._offset(side)
        ctypes.memmove(self.address, old, self.nbytes)
        for part in self._slack():
            self._bytes[part] = self._guard[part]

    def protect(self):
        """Allow no store until `unprotect`."""
        _protect(self.base, self.size, _READ)

    def unprotect(self):
        _protect(self.base, self.size, _READ_WRITE)

    def _slack(self):
        return slice(0, self.offset), slice(self.offset + self.nbytes, self.size)

    def damage(self):
        """A sentence about guard words that were overwritten, or None."""
        for part in self._slack():
            changed = np.flatnonzero(self._bytes[part] != self._guard[part])
            if len(changed):
                first, last = (int(i) + part.start for i in changed[[0, -1]])
                return f"stored out of bounds: {self.place(self.base + first, last)}"
        return None

    def holds(self, address):
        """Whether an address lies in the region or the margins."""
        return self.base - MARGIN <= address < self.base + self.size + MARGIN

    def place(self, address, last=None):
        """Where an address is, in words; `last` is the offset of a last byte."""
        start = address - self.address
        where = f"byte offset {start}"
        if last is not None and last - self.offset > start:
            where = f"byte offsets {start} to {last - self.offset}"
        return f"{where} of {self.name}, which has {self.nbytes} bytes"


class Pointer(NamedTuple):
    """An address inside a buffer."""

    buffer: "Buffer"
    offset: int  # bytes

    @property
    def address(self):
        return self.buffer.memory.address + self.offset


class Buffer:
    """An array in guarded memory, to be passed to kernels.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    fill : scalar or array, optional
        Content; without it every element holds a pattern, NaN for floating point, that
        `unwritten` finds again.
    align : int, optional
        Alignment of the first element, that of the element type by default. It is not
        more unless asked for: a kernel that loads 16 bytes at a time must say so.
    name : str, optional
        What messages call it.
    """

    def __init__(self, shape, dtype, fill=None, *, align=None, name=None):
        dtype = np.dtype(dtype)
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        name = name or f"the buffer of shape {shape} and type {dtype}"
        align = align or dtype.alignment
        self.memory = Guarded(size * dtype.itemsize, align, name)
        self.array = self.memory.view(shape, dtype)
        if fill is None:
            self.array[...] = self._pattern()
        else:
            self.array[...] = fill

    @classmethod
    def of(cls, array, **options):
        """A buffer with a copy of an array."""
        array = np.asarray(array)
        return cls(array.shape, array.dtype, array, **options)

    def pointer(self, view=None):
        """The address of the first element, or of that of a view of `array`."""
        if view is None:
            return Pointer(self, 0)
        if not np.may_share_memory(view, self.array):
            raise ValueError("the array is not a view of this buffer")
        return Pointer(self, view.ctypes.data - self.array.ctypes.data)

    def _pattern(self):
        dtype = self.array.dtype
        if dtype.kind in "iub":
            raw = np.full(dtype.itemsize, _INTEGER_FILL, "u1")
        else:
            raw = np.full(dtype.itemsize // 2, _NAN_FILL, "u2")
        return raw.view(dtype)[0]

    def unwritten(self):
        """Which elements still hold the pattern of a buffer that was made without fill.

        Unlike `isnan`, this tells a result that is NaN from none at all.
        """
        words = np.ascontiguousarray(self.array).reshape(-1, 1).view("u1")
        pattern = np.atleast_1d(self._pattern()).view("u1")
        return (words == pattern).all(axis=1).reshape(self.array.shape)

    def __repr__(self):
        return f"Buffer({self.array.shape}, {self.array.dtype})"
