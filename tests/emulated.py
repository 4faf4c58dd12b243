"""The fused CUDA engine on the CPU: its layouts, its sources, its argument list.

Registered as the engine ``raw_cuda_emulated``, so that every test of the contract runs
the package's kernels through the emulator.
"""

import contextlib
import importlib
import importlib.util
import itertools
import os
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import bed
import cuda_emulator
from bed._config import no_gpu
from bed.engines import Engine, allocate
from cuda_emulator import Buffer

SOURCES = Path(bed.__file__).parent / "engines" / "raw_cuda" / "src"

HOST_COPY = "raw_cuda_on_the_host"

needs_emulator = pytest.mark.skipif(
    cuda_emulator.missing() is not None,
    reason=f"the CUDA emulator {cuda_emulator.missing()}",
)

# Bytes of shared memory that a block may have; the last one counts.
SHARED = [99 * 1024]

# Every launch gets another order of lanes, warps and blocks, and other guard pages.
_seeds = itertools.count()


# What tests say of the launches to come.
_options: dict = {}


@contextlib.contextmanager
def launches(**options):
    """Launch with these options of the emulator: a device, a warp that is held back."""
    _options.update(options)
    try:
        yield
    finally:
        for name in options:
            del _options[name]


def _run(kernel, sizes, arguments, **options):
    """Launch with a seed of its own, on the device that the seed of the tests names."""
    device = int(os.environ.get("BED_TEST_SEED", 0))
    options = {"device": device, "seed": next(_seeds), **options, **_options}
    kernel(*sizes, arguments, **options)


@dataclass(frozen=True)
class EmulatedEngine(Engine):
    """An engine of these tests; `load` and `missing` know where it is."""

    def load(self, function="eigh"):
        return eigh if function == "eigh" else getattr(functions(), function)

    def missing(self):
        reason = cuda_emulator.missing()
        return reason and f"the CUDA emulator {reason}"


ENGINE = EmulatedEngine(
    "raw_cuda_emulated",
    ("cpu",),
    "the kernels of raw_cuda, run by the CPU emulator",
    max_n=64,
    reads=("float16", "bfloat16"),
    functions=True,
)


@cache
def engine_module(name, package="raw_cuda"):
    """A module of an engine, which imports CuPy; nothing in its place without a GPU."""
    if no_gpu() is None:
        return importlib.import_module(f"bed.engines.{package}.{name}")
    with _no_cupy():
        return importlib.import_module(f"bed.engines.{package}.{name}")


@contextlib.contextmanager
def _no_cupy():
    """NumPy in CuPy's place, for what is imported."""
    stand_in = types.ModuleType("cupy")
    stand_in.empty = np.empty
    present = sys.modules.get("cupy")
    sys.modules["cupy"] = stand_in
    try:
        yield
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
    layout, dtype, storage = launcher.plan(n, a.dtype, eigenvectors, SHARED[-1])
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


def eigh_split(split, a, uplo="L"):
    """As `eigh`, in the launches of `split`."""
    launcher = engine_module("eigh")
    batch, n, _ = a.shape
    outputs = allocate(np.empty, (batch, n), a.dtype)
    capacity = split.capacity(batch)
    memory = np.empty(capacity * split.each, "u1")
    for x in (*outputs, memory):
        x.view("u1").fill(0xFF)
    given = launcher.arguments(a, uplo, np.int32(0), *outputs, pointer=_itself)[4:]
    for layout, first, count in split.launches(batch, capacity):
        chunk = launcher.split_arguments(split, None, capacity, first, count, _itself)
        launch_over(
            kernel(layout.source, layout.expression),
            (launcher.grid(layout, count), layout.threads, layout.shared),
            input_pointer(a),
            outputs,
            (*given, memory, *chunk[1:]),
        )
    return outputs


def launch_over(kernel, sizes, a, outputs, rest):
    """Launch a kernel on copies of arrays that it may read and write; then fill.

    As `launch`, with a further array among `rest`.
    """
    single = outputs[0].dtype == np.float32
    arrays = [x for x in (*outputs, *rest) if isinstance(x, np.ndarray)]
    buffers = {id(x): Buffer.of(x, align=max(x.itemsize, 16)) for x in arrays}
    there = [buffers.get(id(x), x) for x in (*outputs, *rest)]
    _run(kernel, sizes, (a, *there), flush_subnormals=single)
    for x in arrays:
        x[...] = buffers[id(x)].array


def launch(kernel, sizes, a, outputs, rest):
    """Launch a kernel on copies of the outputs, in memory that is guarded; then fill.

    `sizes` are grid, block and shared memory, `a` is the pointer to the input, and
    `rest` are the arguments behind the outputs.
    """
    single = outputs[0].dtype == np.float32
    buffers = [None if x is None else Buffer(x.shape, x.dtype) for x in outputs]
    _run(kernel, sizes, (a, *buffers, *rest), flush_subnormals=single)
    for buffer, result in zip(buffers, outputs, strict=True):
        if result is not None:
            assert not buffer.unwritten().any(), "the kernel left an output unwritten"
            result[...] = buffer.array


@cache
def functions():
    """The engine's functions of matrices, in a copy of the package for host arrays."""
    path = SOURCES.parent / "__init__.py"
    spec = importlib.util.spec_from_file_location(HOST_COPY, path)
    package = sys.modules[HOST_COPY] = importlib.util.module_from_spec(spec)
    with _no_cupy():
        spec.loader.exec_module(package)
    package._launch.launch, package._launch.on_device = _launch, contextlib.nullcontext
    package._launch.shared_limit_of = lambda array: SHARED[-1]
    functions_module("spectral").eigh = eigh
    return package


def functions_module(name):
    """A module of that copy."""
    return sys.modules[f"{HOST_COPY}.{name}"]


def _launch(layout, size, *arguments):
    """As the engine's."""
    grid = -(-size // layout.matrices)
    found = kernel(layout.source, layout.expression)
    run_exact(found, (grid, layout.threads, layout.shared), arguments)


def run_exact(kernel, sizes, arguments):
    """Run a kernel that keeps subnormal numbers on arrays of the host, and on numbers.

    What it may write starts as NaN, unless it is an input too.
    """
    outputs = {
        id(x): x
        for parameter, x in zip(kernel.parameters, arguments, strict=True)
        if isinstance(x, np.ndarray) and not parameter.is_const
    }
    names = [id(x) for x in arguments]
    buffers = {
        name: Buffer.of(x) if names.count(name) > 1 else Buffer(x.shape, x.dtype)
        for name, x in outputs.items()
    }
    there = [
        buffers.get(id(x)) or input_pointer(x, x.dtype)
        if isinstance(x, np.ndarray)
        else x
        for x in arguments
    ]
    _run(kernel, sizes, there)
    for name, buffer in buffers.items():
        if names.count(name) == 1:
            assert not buffer.unwritten().any(), "the kernel left an output unwritten"
        outputs[name][...] = buffer.array


def _itself(x):
    return x


def input_pointer(a, dtype="u1"):
    """Pointer to a copy of an array with its own strides, in memory that ends with it.

    Gaps between its elements are NaN. `dtype` is that of the pointer.
    """
    lowest, highest = np.lib.array_utils.byte_bounds(a)
    start = a.__array_interface__["data"][0] - lowest
    size = (highest - lowest) // np.dtype(dtype).itemsize
    buffer = Buffer(size, dtype, align=a.dtype.alignment)
    buffer.array.view("u1").fill(0xFF)
    view = np.ndarray(a.shape, a.dtype, buffer.array, start, a.strides)
    view[...] = a
    return buffer.pointer(view)


def shared_memory(dtype: np.dtype) -> Iterator[tuple[str, int]]:
    """What the kernels of eigh need of it, as C++, and as the layouts have it."""
    layouts = engine_module("_layouts")
    for layout in layouts.instantiations(dtype):
        kernel, text = re.match(r"bed::eigh_(\w+)<(.*)>", layout.expression).groups()
        words = text.split(", ")
        if kernel == "tiny":
            size = f"bed::tiny_shared<{words[0]}, {words[1]}, {words[2]}, {words[4]}>()"
        elif kernel == "block":
            continue  # its size depends on n: below
        else:
            del words[-1]  # minimum blocks
            size = f"sizeof(bed::{kernel.title()}Memory<{', '.join(words)}>)"
        yield size, layout.shared
    split = engine_module("_split_layouts")
    yield "sizeof(bed::Progress)", split.PROGRESS_BYTES
    for layout in split.instantiations(dtype):
        if found := re.match(r"bed::split_reduce_lanes<(.*), \d+>", layout.expression):
            yield f"sizeof(bed::ReduceMemory<{found[1]}>)", layout.shared
    for eigenvectors in True, False:
        layout = layouts.block_layout(50, dtype.name, eigenvectors)
        element = layouts.TYPES[dtype.name]
        size = f"sizeof(bed::BlockMemory<{element}>) + 50 * 51 * sizeof({element})"
        yield size, layout.shared
