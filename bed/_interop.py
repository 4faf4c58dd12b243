"""Arrays of other libraries, in and out. No other file knows an array library.

`receive` turns what the caller passed into a NumPy array (host memory) or a CuPy array
(GPU memory) over the same memory. Results are allocated by the caller's own library
where it can hand out memory to write into, and opened for the engine in the same way;
where it cannot, the finished array is wrapped, again over the same memory. Nothing
moves between host and device, and work on a GPU is queued where the caller's own is.
"""

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

# JAX borrows foreign memory only at this alignment, and copies otherwise.
JAX_ALIGNMENT = 64  # bytes

# Device types of the DLPack standard that bed can work on.
_DLPACK_CPU = 1  # kDLCPU
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


def _same(array):
    return array


@dataclass(frozen=True)
class Received:
    """An input array, and how results return to its library.

    Attributes
    ----------
    array : numpy.ndarray or cupy.ndarray
        A view of the caller's memory where its dtype has a NumPy name, else converted.
    device : str
        ``"cpu"`` or ``"cuda"``.
    empty : callable
        ``empty(shape, dtype)``: an uninitialised output, of the caller's library where
        it has arrays to write into.
    opened : callable
        The NumPy or CuPy array over such an output, for the engine.
    give_back : callable
        A finished output as an array of the caller's library.
    give_back_vectors : callable
        The same for eigenvectors, which keep an ndarray subclass as NumPy's do.
    running : callable
        A context in which the array's device and the caller's stream are current.
    """

    array: Any
    device: str
    empty: Callable = np.empty
    opened: Callable = _same
    give_back: Callable = _same
    give_back_vectors: Callable = _same
    running: Callable[[], AbstractContextManager] = nullcontext

    def open_batch(self, outputs, leading: tuple[int, ...]) -> tuple:
        """Outputs with the caller's axes as the engine takes them, with one axis."""
        opened = (None if x is None else self.opened(x) for x in outputs)
        if len(leading) == 1:
            return tuple(opened)
        batch = math.prod(leading)
        return tuple(
            None if x is None else x.reshape((batch, *x.shape[len(leading) :]))
            for x in opened
        )


def receive(a: Any) -> Received:
    """Open a caller's array.

    Parameters
    ----------
    a : array_like
        NumPy, CuPy, torch or JAX array, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``, or what `numpy.asarray` takes.

    Raises
    ------
    TypeError
        The array cannot be used as it is; says what to do.
    ImportError
        GPU memory without CuPy.
    """
    if isinstance(a, np.ndarray):
        vectors = _same if type(a) is np.ndarray else a.__array_wrap__
        return Received(np.asarray(a), "cpu", give_back_vectors=vectors)
    if _is_instance(a, "torch", "Tensor"):
        return _receive_torch(a)
    if _is_instance(a, "jax", "Array"):
        return _receive_jax(a)
    if _is_instance(a, "cupy", "ndarray"):
        return _receive_cupy(a)
    if hasattr(a, "__dlpack__") and hasattr(a, "__dlpack_device__"):
        return _receive_dlpack(a)
    if hasattr(a, "__cuda_array_interface__"):
        return _receive_cupy(_cupy().asarray(a))
    return Received(np.asarray(a), "cpu")


def followed_by(a: Any) -> str | None:
    """The library that differentiates or traces what is done to `a`, or None."""
    if _is_instance(a, "torch", "Tensor"):
        return "torch" if _torch_follows(a) else None
    if _is_instance(a, "jax.core", "Tracer"):
        return "jax"
    return None


def put(array: np.ndarray, device: str) -> Any:
    """A NumPy array in the memory of a device, ``"cpu"`` or ``"cuda"``."""
    return array if device == "cpu" else _cupy().asarray(array)


def to_host(array: Any) -> np.ndarray:
    """A small engine output as a NumPy array; waits for the device."""
    return array if isinstance(array, np.ndarray) else array.get()


def foreign_stream(address: int, device: int) -> AbstractContextManager:
    """A CUDA stream of somebody else, by its address, for CuPy to work on."""
    stream = _cupy().cuda.Stream
    if hasattr(stream, "from_external"):  # CuPy 14; it deprecates the other
        return stream.from_external(_ForeignStream(address))
    return _cupy().cuda.ExternalStream(address, device)


class _ForeignStream:
    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address  # version of the protocol


def describe(a: Any) -> str:
    """Type, dtype and shape of anything, for error messages."""
    kind = f"{type(a).__module__.partition('.')[0]}.{type(a).__name__}"
    kind = kind.removeprefix("builtins.")
    if not hasattr(a, "shape"):
        return kind
    return f"{kind} of shape {tuple(a.shape)} and dtype {getattr(a, 'dtype', '?')}"


def _is_instance(a, library: str, name: str) -> bool:
    """isinstance without importing the library: its arrays exist only if it is."""
    module = sys.modules.get(library)
    cls = getattr(module, name, None)
    return cls is not None and isinstance(a, cls)


def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "arrays in GPU memory need CuPy: pip install 'batched-ed[cuda12]' or "
            "'batched-ed[cuda13]', whichever the driver supports"
        ) from error
    return cupy


def _receive_cupy(array, give_back: Callable = _same) -> Received:
    def running():
        return array.device  # which need not be the current one

    empty = _cupy().empty
    return Received(array, "cuda", empty, _same, give_back, give_back, running=running)


def _torch_follows(a) -> bool:
    import torch

    if torch.compiler.is_compiling():
        return True
    # Under torch.func every tensor is followed, those from outside too. torch has no
    # public name for the question; its own autograd.Function asks it this way.
    if torch._C._are_functorch_transforms_active():
        return True
    if a.requires_grad and torch.is_grad_enabled():
        return True
    return torch.autograd.forward_ad.unpack_dual(a).tangent is not None


def _receive_torch(a) -> Received:
    import torch

    if a.layout != torch.strided:
        raise TypeError(f"expected a dense tensor, got {describe(a)} ({a.layout})")
    if a.device.type not in ("cpu", "cuda"):
        raise TypeError(
            f"expected a tensor on the CPU or a CUDA device, got {a.device}"
        )
    device = a.device
    a = a.detach().resolve_conj().resolve_neg()
    widened = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    a = a.to(widened.get(a.dtype, a.dtype))  # NumPy has no name for these two

    def empty(shape, dtype):
        return torch.empty(shape, dtype=_torch_dtype(dtype), device=device)

    if device.type == "cpu":
        return Received(a.numpy(), "cpu", empty, torch.Tensor.numpy)

    cupy = _cupy()

    @contextmanager
    def running():
        stream = torch.cuda.current_stream(device).cuda_stream
        with cupy.cuda.Device(device.index), foreign_stream(stream, device.index):
            yield

    with running():  # DLPack makes the stream that takes an array wait for its own
        array = cupy.from_dlpack(a)
    return Received(array, "cuda", empty, cupy.from_dlpack, running=running)


@cache
def _torch_dtype(dtype: np.dtype):
    return getattr(sys.modules["torch"], dtype.name)


def _receive_jax(a) -> Received:
    import jax

    platforms = {device.platform for device in a.devices()}
    from_dlpack = jax.numpy.from_dlpack
    if platforms == {"cpu"}:
        return Received(
            np.asarray(a), "cpu", _empty_for_jax, _same, from_dlpack, from_dlpack
        )
    if platforms <= {"gpu", "cuda"}:
        return _receive_cupy(_cupy().from_dlpack(a), from_dlpack)
    raise TypeError(f"expected an array on the CPU or a CUDA device, got {platforms}")


def _empty_for_jax(shape, dtype) -> np.ndarray:
    """JAX arrays cannot be written, but JAX takes over memory that is aligned."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + JAX_ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % JAX_ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _receive_dlpack(a) -> Received:
    """By the DLPack standard of any year: NumPy and CuPy ask in its newest form.

    They ask again in the older ones if the producer does not know the keywords.
    """
    kind, _ = a.__dlpack_device__()
    give_back = _from_dlpack_of(a)
    if kind in _DLPACK_CUDA:
        return _receive_cupy(_cupy().from_dlpack(a), give_back)
    if kind != _DLPACK_CPU:
        raise TypeError(
            "expected memory of the CPU or a CUDA device, got "
            f"{describe(a)} of DLPack device type {int(kind)}"
        )
    try:
        array = np.from_dlpack(a)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"cannot open {describe(a)}: {error}") from error
    return Received(array, "cpu", np.empty, _same, give_back, give_back)


def _from_dlpack_of(a) -> Callable:
    """`from_dlpack` of the array's library, or the identity if it has none."""
    if hasattr(a, "__array_namespace__"):
        from_dlpack = a.__array_namespace__().from_dlpack
        return lambda x: from_dlpack(x).to_device(a.device)
    package = sys.modules.get(type(a).__module__.partition(".")[0])
    return getattr(package, "from_dlpack", _same)
