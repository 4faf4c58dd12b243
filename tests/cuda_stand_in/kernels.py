"""What kernels do, for the stand-in: functions of the addresses of a launch."""

import ctypes
import os
import re
from pathlib import Path

import numpy as np

from . import functions
from .memory import at
from .streams import Device, current_stream

# Dynamic shared memory that a kernel may have without asking.
DEFAULT_SHARED = 48 * 1024


class RawModule:
    """Kernels of bed by the CPU engine or the emulator, those of scripts in NumPy."""

    def __init__(self, *, code="", path=None, options=(), name_expressions=()):
        del options
        self.code = code if path is None else Path(path).read_text()
        self.names = name_expressions

    def get_function(self, name):
        return Kernel(name, self.code, (self.code, self.names, name))


class Kernel:
    """A handle; its attributes are those of the kernel, which handles share."""

    shared: dict = {}  # noqa: RUF012

    def __init__(self, name, code, kernel):
        self.kernel, self.device = kernel, Device()
        if name in OWN:
            self.run = without_launch(OWN[name])
        elif name.startswith("bed::spectral"):
            self.run = functions.emulated_kernel(name, code)
        elif os.environ.get("BED_STAND_IN_KERNELS") == "emulated":
            self.run = emulated_kernel(name, code)
        else:
            self.run = without_launch(solver(name))

    @property
    def max_dynamic_shared_size_bytes(self):
        return Kernel.shared.get(self.kernel, DEFAULT_SHARED)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size):
        Kernel.shared[self.kernel] = size

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        assert self.device == Device(), "a kernel of another device"
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        launch = grid, block, shared_mem
        current_stream().queue(lambda: self.run(launch, *arguments))


def without_launch(function):
    """A kernel that is not interested in grid and block."""
    return lambda launch, *arguments: function(*arguments)


def parameters(expression):
    """Dtype of the arguments of a kernel of bed, and whether it has eigenvectors."""
    kernel, element = re.match(
        r"bed::\w+?_(\w+)<(?:bed::)?(float|double|Complex<\w+>)", expression
    ).groups()
    vectors = kernel != "values" and not expression.endswith("false>")
    return np.dtype(functions.TYPES[element]), vectors


def arrays_of(dtype, vectors, a, w, v, status, batch, strides, n, storage):
    """The arrays that a kernel of bed gets by address: input, values, vectors, status.

    Bfloat16 is read as 16-bit integers.
    """
    kind = {0: dtype, 1: np.dtype("f2"), 2: np.dtype("u2")}[int(storage)]
    return (
        at(a, (batch, n, n), kind, [s * kind.itemsize for s in strides]),
        at(w, (batch, n), dtype.type(0).real.dtype),
        at(v, (batch, n, n), dtype) if vectors else None,
        at(status, (batch,), "i4"),
    )


def solver(expression):
    """A kernel of bed by the CPU engine; of several launches the last one solves."""
    from bed.engines.numba_cpu import eigh

    dtype, vectors = parameters(expression)
    idle = re.match("bed::split_(?!finish)", expression)

    def run(a, w, v, status, batch, matrix, row, column, n, storage, conjugate, *more):
        if idle:
            return
        x, *out = arrays_of(
            dtype, vectors, a, w, v, status, batch, (matrix, row, column), n, storage
        )
        if more:
            first, count = more[-2:]
            x, *out = (each[first : first + count] for each in (x, *out))
        if storage == 2:
            x = (x.astype("u4") << 16).view("f4")
        x = np.conj(x) if conjugate else x
        eigh(x.astype(dtype, copy=False), eigenvectors=vectors, out=tuple(out))

    return run


def emulated_kernel(expression, code):
    """A kernel of bed in the emulator, with the launch that it is given."""
    import emulated

    split_layouts = emulated.engine_module("_split_layouts")
    dtype, vectors = parameters(expression)
    source = re.match(r'#line 1 "(\w+\.cu)"', code)[1]
    kernel = emulated.kernel(source, expression)

    def run(launch, a, w, v, status, batch, matrix, row, column, n, storage, *rest):
        strides = (matrix, row, column)
        x, *out = arrays_of(dtype, vectors, a, w, v, status, batch, strides, n, storage)
        given = (batch, *strides, n, storage, *rest)
        pointer = emulated.input_pointer(x)
        if len(rest) == 1:
            emulated.launch(kernel, launch, pointer, out, given)
            return
        # One of several launches, with memory that they share.
        conjugate, scratch, capacity, room, *chunk = rest
        each = split_layouts.scratch_bytes(int(n), dtype, int(room))
        memory = at(scratch, (capacity * each,), "u1")
        rest = (*given[:6], conjugate, memory, capacity, room, *chunk)
        emulated.launch_over(kernel, launch, pointer, out, rest)

    return run


def repeat(base, out, words, period):
    at(out, (words,), "u4")[:] = np.resize(at(base, (period,), "u4"), int(words))


def count_differences(x, base, words, period, count):
    expected = np.resize(at(base, (period,), "u4"), int(words))
    at(count, (1,), "u8")[0] += (at(x, (words,), "u4") != expected).sum()


def delayed_copy(source, target, words, cycles):
    del cycles
    ctypes.memmove(int(target), int(source), int(words) * 4)


OWN = {f.__name__: f for f in (repeat, count_differences, delayed_copy)}
