"""A compiled kernel, its parameters and its launch."""

import ctypes
import math
import re
import threading
from contextlib import contextmanager

import numpy as np

from .memory import Buffer, Guarded, Pointer
from .report import EmulatorError, Report, explain

# What an H100 allows one block, and every device a grid.
MAX_SHARED_BYTES, MAX_THREADS, MAX_BLOCK = 227 * 1024, 1024, (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
# The device code declares this alignment.
SHARED_ALIGN = 16
# Signal handlers belong to the process, so launches take turns.
_LOCK = threading.Lock()


class _Launch(ctypes.Structure):
    """As in launch.h."""

    _fields_ = (
        ("kernel", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("flush_subnormals", ctypes.c_int32),
        ("held", ctypes.c_int32),
        ("shared", ctypes.c_void_p),
        ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
    )


class Parameter:
    """A parameter of a kernel, from its description by launch.h."""

    def __init__(self, text):
        form, access, kind = text.split()
        self.is_pointer, self.is_const = form == "pointer", access == "const"
        self.kind, self.size = kind[0], int(kind[1:])

    def pack(self, value):
        """The value as it lies in memory, or None if the parameter cannot take it."""
        if self.is_pointer:
            return self._pack_pointer(value)
        if isinstance(value, ctypes.Structure | ctypes.Array):
            return value if ctypes.sizeof(value) == self.size else None
        if self.kind == "-":
            return None
        dtype = np.dtype("?" if self.kind == "b" else f"{self.kind}{self.size}")
        if isinstance(value, ctypes._SimpleCData):
            value = np.dtype(type(value)).type(value.value)
        if isinstance(value, np.generic):
            fits = value.dtype == dtype
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            fits = isinstance(value, int) and limits.min <= value <= limits.max
        else:
            fits = isinstance(value, bool if self.kind == "b" else int | float)
        if not fits:
            return None
        return ctypes.create_string_buffer(dtype.type(value).tobytes(), self.size)

    def _pack_pointer(self, value):
        if value is None:
            return ctypes.c_void_p(0)
        if isinstance(value, Buffer):
            value = value.pointer()
        if not isinstance(value, Pointer):
            return None
        # Pointers to void and to bytes take anything; structures, what has their size.
        dtype = value.buffer.array.dtype
        same = dtype.itemsize == self.size and self.kind in ("-", dtype.kind)
        return ctypes.c_void_p(value.address) if self.size < 2 or same else None

    def __str__(self):
        kinds = {"f": "floating-point", "i": "signed", "u": "unsigned", "b": "bool"}
        kind = f"{kinds.get(self.kind, 'other')} type of {self.size} bytes"
        return f"a Buffer of a {kind}" if self.is_pointer else f"a value of a {kind}"


class Kernel:
    """A kernel that can be launched; `load` makes it."""

    def __init__(self, library, path, index, expression):
        self.expression = expression
        self._launch, self._path, self._index = library.bed_emulator_launch, path, index
        text = ctypes.create_string_buffer(4096)
        library.bed_emulator_describe(index, text, len(text))
        texts = re.findall(r"\w+ \w+ \S+", text.value.decode())
        self.parameters = [Parameter(text) for text in texts]

    def __repr__(self):
        return f"<Kernel {self.expression}>"

    def __call__(
        self,
        grid,
        block,
        shared_bytes,
        args,
        seed=0,
        *,
        timeout=60,
        flush_subnormals=False,
        device=0,
        held=None,
    ):
        """Run the whole grid; `EmulatorError` if a thread did what it must not do.

        Parameters
        ----------
        grid, block : int or tuple of int
            As in a launch on the device.
        shared_bytes : int
            Dynamic shared memory of a block. It holds NaN when a block starts.
        args : sequence
            For a pointer, a `Buffer`, its `pointer` to a view, or None; const elements
            cannot be written. For a value, a NumPy or ctypes scalar of exactly its
            type, a ctypes structure, or a Python number.
        seed : int
            Decides the order of blocks, warps and lanes, which warps are held back, and
            which guard page each buffer touches; two successive seeds try both sides.
        timeout : float
            CPU time in seconds after which the kernel counts as hanging.
        flush_subnormals : bool
            As ``-ftz=true``, but for float64 too.
        device : int
            Decides what approximations give, within the bounds that NVIDIA publishes:
            every number is another device, which repeats itself from launch to launch.
        held : int, optional
            A warp of every block that runs only when no other can.
        """
        grid, block = _triple(grid), _triple(block)
        self._check_sizes(grid, block, shared_bytes)
        self._check_arguments(args)
        shared = Guarded(shared_bytes, SHARED_ALIGN, "shared memory")
        # A buffer that is passed twice is one region, written if any parameter may.
        owners = [arg.buffer if isinstance(arg, Pointer) else arg for arg in args]
        memories = [b.memory if isinstance(b, Buffer) else None for b in owners]
        written = {
            memory
            for memory, parameter in zip(memories, self.parameters, strict=True)
            if not parameter.is_const
        }
        regions = [shared, *dict.fromkeys(m for m in memories if m is not None)]
        constant = [m for m in regions[1:] if m not in written]
        report = Report()
        with _LOCK, _placed(regions, constant, seed) as problems:
            values = [
                parameter.pack(arg)
                for parameter, arg in zip(self.parameters, args, strict=True)
            ]
            pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            launch = _Launch(
                kernel=self._index,
                grid=grid,
                block=block,
                flush_subnormals=flush_subnormals,
                held=-1 if held is None else held,
                shared=shared.address,
                shared_bytes=shared_bytes,
                seed=seed % 2**64,
                device=device % 2**64,
                seconds=timeout,
                arguments=pointers,
            )
            self._launch(ctypes.byref(launch), ctypes.byref(report))
            problems.append(explain(report, self._path, regions))
        problems = [text for text in problems if text]
        if problems:
            raise EmulatorError(f"{self.expression}: " + "\n".join(problems))

    def _check_sizes(self, grid, block, shared_bytes):
        fits = all(
            1 <= n <= most
            for n, most in zip(grid + block, MAX_GRID + MAX_BLOCK, strict=True)
        )
        if not fits or math.prod(block) > MAX_THREADS:
            raise EmulatorError(f"no device runs grid {grid} with block {block}")
        if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
            raise EmulatorError(
                f"no device gives {shared_bytes} bytes of shared memory"
            )

    def _check_arguments(self, args):
        if len(args) != len(self.parameters):
            raise EmulatorError(
                f"{self.expression} takes {len(self.parameters)} arguments, not "
                f"{len(args)}"
            )
        for i, (parameter, arg) in enumerate(zip(self.parameters, args, strict=True)):
            if parameter.pack(arg) is None:
                raise EmulatorError(
                    f"{self.expression} takes {parameter} as argument {i}, not {arg!r}"
                )


def _triple(size):
    size = tuple(size) if isinstance(size, tuple | list) else (size,)
    return size + (1,) * (3 - len(size))


@contextmanager
def _placed(regions, constant, seed):
    """Move regions to the side that the seed says and back; give a list of problems."""
    problems = []
    for i, region in enumerate(regions):
        region.move((seed + i) % 2)
    try:
        for region in constant:
            region.protect()
        yield problems
    finally:
        for region in constant:
            region.unprotect()
        problems += [region.damage() for region in regions]
        for region in regions:
            region.move(1)
