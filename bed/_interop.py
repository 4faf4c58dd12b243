"""Arrays of other libraries, in and out. No other file knows an array library.

`receive` turns what the caller passed into a NumPy array (host memory) or a CuPy array
(GPU memory) over the same memory, and `Received.give_back` wraps results for the
caller's library, again over the same memory. Nothing moves between host and device.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# JAX borrows foreign memory only at this alignment, and copies otherwise.
JAX_ALIGNMENT = 64  # bytes

_DLPACK_CPU = 1  # kDLCPU of the DLPack standard


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
        ``empty(shape, dtype)``: uninitialised output memory that `give_back` can wrap.
    give_back : callable
        Wraps an output array for the caller's library.
    give_back_vectors : callable
        The same for eigenvectors, which keep an ndarray subclass as NumPy's do.
    """

    array: Any
    device: str
    empty: Callable
    give_back: Callable
    give_back_vectors: Callable


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
        return _host(np.asarray(a), vectors=_subclass_wrapper(a))
    if _is_instance(a, "torch", "Tensor"):
        return _receive_torch(a)
    if _is_instance(a, "jax", "Array"):
        return _receive_jax(a)
    if _is_instance(a, "cupy", "ndarray"):
        return _device(a)
    if hasattr(a, "__dlpack__") and hasattr(a, "__dlpack_device__"):
        if a.__dlpack_device__()[0] == _DLPACK_CPU:
            return _host(np.from_dlpack(a), _from_dlpack_of(a))
        return _device(_cupy().from_dlpack(a), _from_dlpack_of(a))
    if hasattr(a, "__cuda_array_interface__"):
        return _device(_cupy().asarray(a))
    return _host(np.asarray(a))


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


def _same(array):
    return array


def _host(array, give_back=_same, *, vectors=None, empty=np.empty) -> Received:
    return Received(array, "cpu", empty, give_back, vectors or give_back)


def _device(array, give_back=_same) -> Received:
    cupy = _cupy()

    def empty(shape, dtype):
        with array.device:  # which need not be the current one
            return cupy.empty(shape, dtype)

    return Received(array, "cuda", empty, give_back, give_back)


def _cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "arrays in GPU memory need CuPy: pip install 'batched-ed[cuda12]' or "
            "'batched-ed[cuda13]', whichever the driver supports"
        ) from error
    return cupy


def _subclass_wrapper(a: np.ndarray) -> Callable:
    if type(a) is np.ndarray:
        return _same
    return a.__array_wrap__  # called with one argument, as numpy.linalg does


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
    a = a.detach().resolve_conj().resolve_neg()
    widened = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    a = a.to(widened.get(a.dtype, a.dtype))  # NumPy has no name for these two
    if a.device.type == "cpu":
        return _host(a.numpy(), torch.from_numpy)
    if a.device.type == "cuda":
        return _device(_cupy().from_dlpack(a), torch.from_dlpack)
    raise TypeError(f"expected a tensor on the CPU or a CUDA device, got {a.device}")


def _receive_jax(a) -> Received:
    import jax

    platforms = {device.platform for device in a.devices()}
    if platforms == {"cpu"}:
        return _host(np.asarray(a), jax.numpy.from_dlpack, empty=_empty_for_jax)
    if platforms <= {"gpu", "cuda"}:
        return _device(_cupy().from_dlpack(a), jax.numpy.from_dlpack)
    raise TypeError(f"expected an array on the CPU or a CUDA device, got {platforms}")


def _empty_for_jax(shape, dtype) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + JAX_ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % JAX_ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _from_dlpack_of(a) -> Callable:
    """`from_dlpack` of the array's library, or the identity if it has none."""
    if hasattr(a, "__array_namespace__"):
        return a.__array_namespace__().from_dlpack
    package = sys.modules.get(type(a).__module__.partition(".")[0])
    return getattr(package, "from_dlpack", _same)
