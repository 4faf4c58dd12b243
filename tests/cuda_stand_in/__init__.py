"""NumPy in CuPy's place, to run what needs a GPU on a machine without one.

The stand-in is at the level of launches: bed's own launcher runs, and a kernel is
replaced, on the memory that its arguments point to, by the CPU engine or, where
BED_STAND_IN_KERNELS is "emulated", by the kernel itself in the CUDA emulator. Work is
done when something waits for its stream, and not before, so that who reads too early is
seen. Times are those of NumPy and mean nothing.

    PYTHONPATH=tests python -m pytest -p cuda_stand_in.plugin -m gpu

runs the tests of GPUs on it.
"""

import atexit
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import types

import numpy as np

from . import arrays, functions, kernels, memory, streams

# Engines that do not launch by CuPy, by the names of their packages.
SUBSTITUTED = ("numba_cuda",)


class Module(types.ModuleType):
    """CuPy: what is not its own is NumPy's, for its arrays."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *args, **keywords: arrays.computed(found, args, keywords)


def numpy_linalg(name):
    """A function of numpy.linalg, which waits for what is queued."""
    return lambda *args, **options: arrays.computed(
        getattr(np.linalg, name), args, options
    )


def engine(name):
    """The CPU engine in the place of one for GPUs."""

    def eigh(a, uplo="L", *, eigenvectors=True, out=None):
        from bed.engines import allocate, numba_cpu

        w, v, status = out or allocate(
            arrays.Array, a.shape[:2], a.dtype, eigenvectors=eigenvectors
        )
        there = (w.a, v.a if eigenvectors else None, status.a)
        streams.current_stream().queue(
            lambda: numba_cpu.eigh(a.a, uplo, eigenvectors=eigenvectors, out=there)
        )
        return w, v if eigenvectors else None, status

    module = types.ModuleType(name)
    module.eigh = eigh
    for function in ("spectral", "spectral_product", "spectral_vjp", "eigh_vjp"):
        setattr(module, function, by_the_cpu_engine(function))
    return module


def by_the_cpu_engine(name):
    """One of its functions of matrices, which waits for what is queued."""

    def function(*arguments, out=None):
        from bed.engines import numba_cpu

        streams.current_stream().synchronize()
        there = arrays.bare(arguments)
        found = getattr(numba_cpu, name)(*there, out=arrays.bare(out))
        if out is not None:
            return out
        found = found if isinstance(found, tuple) else (found,)
        back = tuple(map(arrays.Array.of, found))
        return back if len(back) > 1 else back[0]

    return function


def empty_module(name):
    """A module that is found, and has nothing in it."""
    module = sys.modules[name] = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    return module


def install():
    """Make `import cupy` find the stand-in, and engines that need more a substitute."""
    scratch = tempfile.TemporaryDirectory(prefix="bed-stand-in-")
    atexit.register(scratch.cleanup)
    os.environ["CUPY_CACHE_DIR"] = scratch.name
    for package in SUBSTITUTED:
        name = f"bed.engines.{package}"
        sys.modules[name] = engine(name)
        if importlib.util.find_spec(package) is None:
            empty_module(package)
    cupy = sys.modules["cupy"] = Module("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.__version__ = "stand-in"
    cupy.ndarray, cupy.RawModule = arrays.Array, kernels.RawModule
    cupy.empty, cupy.asarray = arrays.Array, arrays.asarray
    cupy.asnumpy = lambda x: x.get()
    cupy.get_default_memory_pool = lambda: memory.DEFAULT_POOL
    sys.modules["cupyx"] = types.ModuleType("cupyx")
    sys.modules["cupyx"].empty_pinned = np.empty
    cupy.linalg = types.SimpleNamespace(
        eigh=numpy_linalg("eigh"), eigvalsh=numpy_linalg("eigvalsh")
    )
    cupy.cuda = types.SimpleNamespace(
        Device=streams.Device,
        Event=streams.Event,
        MemoryPool=memory.Pool,
        Stream=streams.Stream,
        get_current_stream=streams.current_stream,
        get_elapsed_time=lambda begin, end: (end.time - begin.time) * 1e3,
        compiler=types.SimpleNamespace(
            compile_using_nvrtc=functions.compile_using_nvrtc
        ),
        nvrtc=types.SimpleNamespace(getVersion=lambda: (0, 0)),
        runtime=types.SimpleNamespace(
            driverGetVersion=lambda: 0,
            getDeviceCount=lambda: 2,
            getDeviceProperties=lambda i: {"name": b"Stand-in S100"},
            memGetInfo=lambda: (1 << 33, 1 << 33),
            runtimeGetVersion=lambda: 0,
        ),
        using_allocator=memory.using_allocator,
    )
