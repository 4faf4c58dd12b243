"""torch tensors, on the CPU and on CUDA devices."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from torch.autograd import forward_ad

from ...engines._threads import limited_to
from ..dtypes import WIDENED, unsupported
from . import cupy
from .received import Library, Received, describe

# NumPy has no name for these two.
_CONVERTED = {
    getattr(torch, name): getattr(torch, WIDENED[name])
    for name in ("bfloat16", "complex32")
}


class LinAlgError(np.linalg.LinAlgError, torch.linalg.LinAlgError):
    """A numerical error as callers of NumPy and of torch expect it."""


def recorded(a) -> bool:
    """Whether operations on a tensor are written down, or only their shapes computed.

    By torch.compile or export, jit.trace, a dispatch mode (make_fx, fake tensors, and
    every other, which may record what it sees), a tensor that dispatches by itself
    (fake, functional and wrapped ones), a device without memory, or functionalize.
    """
    return (
        torch.compiler.is_compiling()
        or (torch._C._are_functorch_transforms_active() and _is_functionalized())
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or a.is_meta
        or (
            type(a) is not torch.Tensor
            and not a.is_nested  # it is refused when it is opened
            and torch._C._dispatch_keys(a).has(torch._C.DispatchKey.Python)
        )
    )


def _is_functionalized() -> bool:
    """Inside `torch.func.functionalize`, which knows operators alone."""
    functorch = torch._C._functorch
    levels = functorch.get_interpreter_stack() or ()
    return any(x.key() == functorch.TransformType.Functionalize for x in levels)


def _traces(a) -> bool:
    if recorded(a):
        return True
    # Under torch.func every tensor is traced, those from outside too. torch has no
    # public name for the question; its own autograd.Function asks it this way.
    if torch._C._are_functorch_transforms_active():
        return True
    if a.requires_grad and torch.is_grad_enabled():
        return True
    if getattr(forward_ad, "_current_level", 0) < 0:  # no derivative is under way
        return False
    return forward_ad.unpack_dual(a).tangent is not None


def _receive(a) -> Received:
    if a.is_nested:
        raise TypeError("expected a dense tensor, got a nested one")
    if a.layout != torch.strided:
        raise TypeError(f"expected a dense tensor, got {describe(a)} ({a.layout})")
    dtype = a.dtype
    if not (a.is_cpu or a.is_cuda):
        raise TypeError(
            f"expected a tensor on the CPU or a CUDA device, got {a.device}"
        )
    if a.requires_grad:
        a = a.detach()
    if a.is_conj() or a.is_neg():
        a = a.resolve_conj().resolve_neg()
    if a._is_zerotensor():  # without memory, as autograd makes them
        a = torch.zeros(a.shape, dtype=dtype, device=a.device)
    converted_from = None
    if dtype in _CONVERTED:
        converted_from = str(dtype).removeprefix("torch.")
        a = a.to(_CONVERTED[dtype])

    if a.is_cpu:
        try:
            array = a.numpy()
        except TypeError:
            raise unsupported(dtype) from None
        return _ReceivedOnHost(array, converted_from=converted_from)

    device, library = a.device, cupy.load()

    @contextmanager
    def running():
        stream = torch.cuda.current_stream(device).cuda_stream
        with library.cuda.Device(device.index):
            with cupy.foreign_stream(stream, device.index):
                yield

    def empty(shape, dtype):
        return torch.empty(shape, dtype=_torch_dtype(dtype), device=device)

    with running():  # DLPack makes the stream that takes an array wait for its own
        array = library.from_dlpack(a)
    return Received(
        array,
        device="cuda",
        empty=empty,
        opened=library.from_dlpack,
        running=running,
        error=LinAlgError,
        converted_from=converted_from,
    )


class _ReceivedOnHost(Received):
    """Results are tensors over memory of NumPy, which takes half the time.

    A tensor that has been opened as an array could not be resized either.
    """

    give_back = staticmethod(torch.from_numpy)
    give_back_vectors = staticmethod(torch.from_numpy)
    error = LinAlgError
    repeats = True

    @staticmethod
    def running():
        # `torch.set_num_threads` is about work on tensors, whoever does it.
        return limited_to(torch.get_num_threads())


@cache
def _torch_dtype(dtype: np.dtype):
    return getattr(torch, dtype.name)


LIBRARY = Library("torch", _traces, _receive)
