"""What bed and its tests need of cupy.ndarray, over memory of the host."""

import ctypes

import numpy as np

from .memory import Lent, at, claim, dirty
from .streams import Device, Stream, current_stream


class Pointer:
    """An address, and the memory that it keeps alive."""

    def __init__(self, ptr, memory):
        self.ptr, self.memory = ptr, memory

    def __add__(self, offset):
        return Pointer(self.ptr + offset, self.memory)

    def copy_from_device_async(self, source, size):
        current_stream().queue(lambda: ctypes.memmove(self.ptr, source.ptr, size))


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of NumPy in hiding; what computes with it waits for the stream."""

    def __init__(self, shape, dtype, memptr=None, strides=None):
        if memptr is None:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            a = dirty(size).view(dtype).reshape(shape)
        else:
            a = at(memptr.ptr, shape, dtype, strides)
        self._hold(a, Device())
        self.memptr = memptr  # lives as long

    @classmethod
    def of(cls, a, device=None):
        """The array around one of NumPy."""
        array = cls.__new__(cls)
        array._hold(a, device or Device())
        return array

    def _hold(self, a, device):
        self.a, self.device = a, device
        Stream.alive.append(a)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.a, name)
        if not callable(found):
            return self._like(found)
        return lambda *args, **keywords: self._like(found(*args, **keywords))

    def _like(self, x):
        return Array.of(x, self.device) if isinstance(x, np.ndarray) else x

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return computed(getattr(ufunc, method), inputs, keywords)

    def __array_function__(self, function, kinds, inputs, keywords):
        return computed(function, inputs, keywords)

    def __len__(self):
        return len(self.a)

    def __getitem__(self, key):
        return self._like(self.a[bare(key)])

    def __setitem__(self, key, value):
        value = bare(value)
        current_stream().queue(lambda: self.a.__setitem__(bare(key), value))

    @property
    def __cuda_array_interface__(self):
        return self.a.__array_interface__

    @property
    def data(self):
        return Pointer(self.a.__array_interface__["data"][0], self.a)

    def get(self, *, out=None, blocking=True):
        out = np.empty_like(self.a) if out is None else out
        current_stream().queue(lambda: np.copyto(out, self.a))
        if blocking:
            current_stream().synchronize()
        return out

    def set(self, a):
        current_stream().queue(lambda: np.copyto(self.a, a))


def bare(x):
    """NumPy arrays in the place of those of the stand-in, in tuples and lists too."""
    if isinstance(x, Array):
        return x.a
    return type(x)(map(bare, x)) if type(x) in (tuple, list) else x


def computed(function, inputs, keywords):
    """What NumPy computes, behind all work that is queued."""
    if current_stream().work:
        current_stream().synchronize()
    result = function(*bare(tuple(inputs)), **{k: bare(v) for k, v in keywords.items()})
    if isinstance(result, tuple):
        return tuple(Array.of(x) for x in result)
    return Array.of(result) if isinstance(result, np.ndarray | np.generic) else result


def asarray(a, dtype=None):
    """A copy of a host array, or the memory of an interface."""
    if isinstance(a, Array):
        return a
    if hasattr(a, "__cuda_array_interface__"):
        return Array.of(np.asarray(Lent(a.__cuda_array_interface__)))
    a = np.array(a, dtype, order="K")
    claim(a.nbytes)
    return Array.of(a)
