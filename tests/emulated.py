"""The fused CUDA engine on the CPU: its layouts, its sources, its argument list.

Registered as the engine ``raw_cuda_emulated``, so that every test of the contract runs
the package's kernels through the emulator.
"""

import importlib
import itertools
import sys
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import bed
import cuda_emulator
from bed._config import no_gpu
from bed.engines import Engine, allocate
from cuda_emulator import Buffer

SOURCES = Path(bed.__file__).parent / "engines" / "raw_cuda" / "src"

# Every launch gets another order of lanes, warps and blocks, and other guard pages.
_seeds = itertools.count()


@dataclass(frozen=True)
class EmulatedEngine(Engine):
    """An engine of these tests; `load` and `missing` know where it is."""

    def load(self):
        return eigh

    def missing(self):
        reason = cuda_emulator.missing()
        return reason and f"the CUDA emulator {reason}"


ENGINE = EmulatedEngine(
    "raw_cuda_emulated",
    ("cpu",),
    "the kernels of raw_cuda, run by the CPU emulator",
    max_n=64,
    reads=("float16", "bfloat16"),
)


@cache
def engine_module(name, package="raw_cuda"):
    """A module of an engine, which imports CuPy; nothing in its place without a GPU."""
    if no_gpu() is None:
        return importlib.import_module(f"bed.engines.{package}.{name}")
    stand_in = types.ModuleType("cupy")
    stand_in.empty = np.empty
    present = sys.modules.get("cupy")
    sys.modules["cupy"] = stand_in
    try:
        return importlib.import_module(f"bed.engines.{package}.{name}")
    finally:
        del sys.modules["cupy"]
        if present is not None:
            sys.modules["cupy"] = present


@cache
def kernel(source, expression):
    """The kernel of a layout, compiled for the CPU."""
    return cuda_emulator.load(SOURCES / source, expression, (SOURCES,))


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """As `bed.engines.raw_cuda.eigh`, for host arrays."""
    launcher = engine_module("eigh")
    batch, n, _ = a.shape
    layout, dtype, storage = launcher.plan(n, a.dtype, eigenvectors)
    w, v, status = out or allocate(
        np.empty, (batch, n), dtype, eigenvectors=eigenvectors
    )
    v = v if eigenvectors else None
    arguments = launcher.arguments(a, uplo, storage, w, v, status, pointer=_itself)
    launch(
        kernel(layout.source, layout.expression),
        (launcher.grid(layout, batch), layout.threads, layout.shared),
        input_pointer(a),
        (w, v, status),
        arguments[4:],
    )
    return w, v, status


def launch(kernel, sizes, a, outputs, rest):
    """Launch a kernel on copies of the outputs, in memory that is guarded; then fill.

    `sizes` are grid, block and shared memory, `a` is the pointer to the input, and
    `rest` are the arguments behind the outputs.
    """
    single = outputs[0].dtype == np.float32
    buffers = [None if x is None else Buffer(x.shape, x.dtype) for x in outputs]
    kernel(*sizes, (a, *buffers, *rest), seed=next(_seeds), flush_subnormals=single)
    for buffer, result in zip(buffers, outputs, strict=True):
        if result is not None:
            assert not buffer.unwritten().any(), "the kernel left an output unwritten"
            result[...] = buffer.array


def _itself(x):
    return x


def input_pointer(a):
    """Pointer to a copy of an array with its own strides, in memory that ends with it.

    Gaps between its elements are NaN.
    """
    lowest, highest = np.lib.array_utils.byte_bounds(a)
    start = a.__array_interface__["data"][0] - lowest
    buffer = Buffer(highest - lowest, "u1", 0xFF, align=a.dtype.alignment)
    view = np.ndarray(a.shape, a.dtype, buffer.array, start, a.strides)
    view[...] = a
    return buffer.pointer(view)
