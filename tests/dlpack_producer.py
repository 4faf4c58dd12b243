"""A producer of DLPack tensors that belongs to no library and counts what it lends.

Its capsules are of the protocol without versions, and may leave the strides null, which
means C order and which NumPy's own never do.
"""

import ctypes

import numpy as np

CPU = (1, 0)  # kDLCPU, and the only such device

_CODES = {"i": 0, "u": 1, "f": 2, "bfloat": 4, "c": 5}


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
    )


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


# What is lent lives until it is returned, longer than its producer if need be.
_lent: dict = {}


@_Deleter
def _take_back(address):
    _, producer = _lent.pop(address)
    producer.returned += 1


class Producer:
    """Lends a NumPy array.

    Parameters
    ----------
    a : numpy.ndarray
    strides : bool
        Whether they are told; without, `a` has to be in C order.
    bfloat16 : bool
        The elements of `a`, uint16, are those of bfloat16 numbers.

    Attributes
    ----------
    lent, returned : int
        How many capsules were made, and how often a deleter was called. Of a capsule
        that nobody opens, nobody calls it.
    """

    def __init__(self, a, *, strides=True, bfloat16=False):
        assert strides or a.flags.c_contiguous
        self.array, self.strides, self.bfloat16 = a, strides, bfloat16
        self.lent = self.returned = 0

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, *, stream=None):
        assert stream is None, "memory of the host has no stream"
        managed = self._managed()
        address = ctypes.addressof(managed)
        _lent[address] = managed, self
        self.lent += 1
        return _new(address, b"dltensor", None)

    def _managed(self):
        a = self.array
        axes = ctypes.c_int64 * a.ndim
        steps = axes(*(s // a.itemsize for s in a.strides)) if self.strides else None
        tensor = _Tensor(a.ctypes.data, _Device(*CPU), a.ndim, self._type())
        tensor.shape, tensor.strides = axes(*a.shape), steps
        return _Managed(tensor, None, _take_back)

    def _type(self):
        code = "bfloat" if self.bfloat16 else self.array.dtype.kind
        return _Type(_CODES[code], 8 * self.array.itemsize, 1)


def bfloat16_bits(a):
    """float32 numbers, cut to bfloat16, as uint16."""
    return (np.asarray(a, "f4").view("u4") >> 16).astype("u2")
