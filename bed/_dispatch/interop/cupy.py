"""Arrays in GPU memory. CuPy is imported where one comes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .received import Library, Received, never, same


def load() -> Any:
    """The module `cupy`.

    Raises
    ------
    ImportError
        Says what to install.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "arrays in GPU memory need CuPy: pip install 'batched-ed[cuda12]' or "
            "'batched-ed[cuda13]', whichever the driver supports"
        ) from error
    return cupy


def foreign_stream(address: int, device: int) -> AbstractContextManager:
    """A CUDA stream of somebody else, by its address, for CuPy to work on."""
    stream = load().cuda.Stream
    if hasattr(stream, "from_external"):  # CuPy 14; it deprecates the other
        return stream.from_external(_ForeignStream(address))
    return load().cuda.ExternalStream(address, device)


class _ForeignStream:
    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address  # version of the protocol


def received(array, give_back: Callable = same) -> Received:
    """A CuPy array, whose results return by `give_back`."""

    def running():
        return array.device  # which need not be the current one

    empty = load().empty
    return Received(
        array,
        device="cuda",
        empty=empty,
        give_back=give_back,
        give_back_vectors=give_back,
        running=running,
    )


def _receive(a) -> Received:
    """Of CuPy, or another library's by ``__cuda_array_interface__``."""
    cupy = load()
    return received(a if isinstance(a, cupy.ndarray) else cupy.asarray(a))


LIBRARY = Library("cupy", never, _receive)
