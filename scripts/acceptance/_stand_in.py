"""NumPy in CuPy's place, to rehearse the parts on a machine without a GPU.

The stand-in is at the level of launches: bed's own launcher runs, and a kernel is
replaced by the CPU engine on the memory that its arguments point to. Work is done when
something waits for its stream, and not before, so that a part which reads too early is
seen. Times are those of NumPy and mean nothing.
"""

import ctypes
import importlib.machinery
import importlib.util
import sys
import time
import types

import numpy as np

from ._stand_in_kernels import make
from ._stand_in_memory import DEFAULT_POOL, Pool, claim, dirty, using_allocator

# Dynamic shared memory that a kernel may have without asking.
DEFAULT_SHARED = 48 * 1024


class Stream:
    """Work in order; captured into a graph, or kept until somebody waits."""

    streams: list = []  # noqa: RUF012
    current: list = []  # noqa: RUF012

    def __init__(self, null=False, non_blocking=False):
        del non_blocking
        self.ptr = 0 if null else id(self)
        self.work, self.captured = [], None
        Stream.streams.append(self)

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *error):
        Stream.current.pop()

    def queue(self, function):
        (self.work if self.captured is None else self.captured).append(function)

    def synchronize(self):
        assert self.captured is None, "a capturing stream was waited for"
        work, self.work = self.work, []
        for function in work:
            function()
        if not any(stream.work for stream in Stream.streams):
            Array.alive.clear()

    def begin_capture(self):
        assert self.ptr, "the default stream cannot be captured"
        self.captured = []

    def end_capture(self):
        work, self.captured = self.captured, None
        return types.SimpleNamespace(launch=lambda stream: stream.work.extend(work))


Stream.null = Stream(null=True)


def current_stream():
    return Stream.current[-1] if Stream.current else Stream.null


class Event:
    """Done when its stream got there."""

    done = False

    def record(self):
        current_stream().queue(self._arrive)
        self.stream = current_stream()

    def _arrive(self):
        self.done, self.time = True, time.perf_counter()

    def synchronize(self):
        self.stream.synchronize()


class Device:
    """One of two; arrays and loaded kernels belong to the one that is current."""

    current: list = [0]  # noqa: RUF012

    def __init__(self, index=None):
        self.id = Device.current[-1] if index is None else index

    def __eq__(self, other):
        return self.id == other.id

    def __enter__(self):
        Device.current.append(self.id)
        return self

    def __exit__(self, *error):
        Device.current.pop()

    def synchronize(self):
        for stream in Stream.streams:
            stream.synchronize()


class Array:
    """What the parts and bed need of cupy.ndarray."""

    alive: list = []  # noqa: RUF012

    def __init__(self, a, device=None):
        self.a, self.device = a, device or Device()
        # Kernels know addresses alone: memory lives until they are done.
        Array.alive.append(a)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.a, name)
        if not callable(found):
            return self.like(found)
        return lambda *args, **keywords: self.like(found(*args, **keywords))

    def like(self, x):
        return Array(x, self.device) if isinstance(x, np.ndarray) else x

    def __len__(self):
        return len(self.a)

    def __getitem__(self, key):
        return self.like(self.a[key])

    @property
    def __cuda_array_interface__(self):
        return self.a.__array_interface__

    def __setitem__(self, key, value):
        current_stream().queue(lambda: self.a.__setitem__(key, value))

    @property
    def data(self):
        address = self.a.__array_interface__["data"][0]

        def copy(source, size):
            current_stream().queue(lambda: ctypes.memmove(address, source.ptr, size))

        return types.SimpleNamespace(ptr=address, copy_from_device_async=copy)

    def get(self):
        current_stream().synchronize()
        return np.array(self.a)


def empty(shape, dtype):
    memory = dirty(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return Array(memory.view(dtype).reshape(shape))


def asarray(a):
    if hasattr(a, "__cuda_array_interface__"):
        lent = types.SimpleNamespace(__array_interface__=a.__cuda_array_interface__)
        return Array(np.asarray(lent))
    claim(a.nbytes)
    return Array(np.array(a, order="K"))


class RawModule:
    """Kernels of bed by the CPU engine, those of the parts in NumPy."""

    def __init__(self, *, code, options=(), name_expressions=()):
        del options
        self.code, self.names = code, name_expressions

    def get_function(self, name):
        return Kernel(name, (self.code, self.names, name))


class Kernel:
    """A handle; its attributes are those of the kernel, which handles share."""

    shared: dict = {}  # noqa: RUF012

    def __init__(self, name, kernel):
        self.kernel, self.device = kernel, Device()
        self.run = make(name)

    @property
    def max_dynamic_shared_size_bytes(self):
        return Kernel.shared.get(self.kernel, DEFAULT_SHARED)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size):
        Kernel.shared[self.kernel] = size

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        del grid, block
        assert self.device == Device(), "a kernel of another device"
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        current_stream().queue(lambda: self.run(*arguments))


def numpy_linalg(name):
    def solve(a):
        return tuple(map(asarray, getattr(np.linalg, name)(a.get())))

    return solve


def engine(name):
    """The CPU engine in the place of one for GPUs that does not launch by CuPy."""

    def eigh(a, uplo="L", *, eigenvectors=True, out=None):
        from bed.engines import allocate, numba_cpu

        w, v, status = out or allocate(
            empty, a.shape[:2], a.dtype, eigenvectors=eigenvectors
        )
        there = (w.a, v.a if eigenvectors else None, status.a)
        current_stream().queue(
            lambda: numba_cpu.eigh(a.a, uplo, eigenvectors=eigenvectors, out=there)
        )
        return w, v if eigenvectors else None, status

    module = types.ModuleType(name)
    module.eigh = eigh
    return module


def install():
    """Make `import cupy` find the stand-in, and engines that need more a substitute."""
    for package in ("numba_cuda", "cusolver"):
        name = f"bed.engines.{package}"
        sys.modules[name] = engine(name)
    if importlib.util.find_spec("numba_cuda") is None:
        numba_cuda = types.ModuleType("numba_cuda")
        numba_cuda.__spec__ = importlib.machinery.ModuleSpec("numba_cuda", None)
        sys.modules["numba_cuda"] = numba_cuda
    cupy = types.ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.__version__ = "stand-in"
    cupy.ndarray, cupy.RawModule = Array, RawModule
    cupy.empty, cupy.asarray = empty, asarray
    cupy.asnumpy = lambda x: x.get()
    cupy.broadcast_to = lambda x, shape: Array(np.broadcast_to(x.a, shape))
    cupy.get_default_memory_pool = lambda: DEFAULT_POOL
    cupy.linalg = types.SimpleNamespace(
        eigh=numpy_linalg("eigh"),
        eigvalsh=lambda a: asarray(np.linalg.eigvalsh(a.get())),
    )
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        Event=Event,
        MemoryPool=Pool,
        Stream=Stream,
        get_current_stream=current_stream,
        get_elapsed_time=lambda begin, end: (end.time - begin.time) * 1e3,
        nvrtc=types.SimpleNamespace(getVersion=lambda: (0, 0)),
        runtime=types.SimpleNamespace(
            driverGetVersion=lambda: 0,
            getDeviceCount=lambda: 2,
            getDeviceProperties=lambda i: {"name": b"Stand-in S100"},
            memGetInfo=lambda: (1 << 33, 1 << 33),
            runtimeGetVersion=lambda: 0,
        ),
        using_allocator=using_allocator,
    )
    sys.modules["cupy"] = cupy
