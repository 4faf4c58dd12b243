"""Arrays of other libraries, in and out.

A library is told from an array once, and a file of its own here knows the rest of it.
It opens what the caller passed as a NumPy array (host memory) or a CuPy array (GPU
memory) over the same memory. Results are allocated by the caller's own library where it
can hand out memory to write into, and opened for the engine in the same way; where it
cannot, the finished array is wrapped, again over the same memory. Nothing moves between
host and device, and work on a GPU is queued where the caller's own is.
"""

import sys
from typing import Any

import numpy as np

from .received import Library, Received, describe, never

_FOR_TORCH = f"{__name__}.torch"

__all__ = ["Library", "Received", "library_of", "put", "receive", "to_host"]


def library_of(a: Any) -> Library:
    """The library of a caller's array.

    Parameters
    ----------
    a : array_like
        NumPy, CuPy, torch or JAX array, anything with ``__dlpack__`` or
        ``__cuda_array_interface__``, or what `numpy.asarray` takes.
    """
    if isinstance(a, np.ndarray):
        return _NUMPY
    if _is_instance(a, "torch", "Tensor"):
        # Half a microsecond less than to import again what is loaded.
        module = sys.modules.get(_FOR_TORCH)
        if module is not None:
            return module.LIBRARY
        from .torch import LIBRARY
    elif _is_instance(a, "jax", "Array"):
        from .jax import LIBRARY
    elif _is_instance(a, "cupy", "ndarray"):
        from .cupy import LIBRARY
    elif hasattr(a, "__dlpack__") and hasattr(a, "__dlpack_device__"):
        from .dlpack import LIBRARY
    elif hasattr(a, "__cuda_array_interface__"):
        from .cupy import LIBRARY
    else:
        return _NUMPY
    return LIBRARY


def receive(a: Any) -> Received:
    """Open a caller's array.

    Raises
    ------
    TypeError
        The array cannot be used as it is; says what to do.
    ImportError
        GPU memory without CuPy.
    """
    return library_of(a).receive(a)


def put(array: np.ndarray, device: str) -> Any:
    """A NumPy array in the memory of a device, ``"cpu"`` or ``"cuda"``."""
    if device == "cpu":
        return array
    from .cupy import load

    return load().asarray(array)


def to_host(array: Any) -> np.ndarray:
    """A small engine output as a NumPy array; waits for the device."""
    return array if isinstance(array, np.ndarray) else array.get()


def _is_instance(a, library: str, name: str) -> bool:
    """isinstance without importing the library: its arrays exist only if it is."""
    module = sys.modules.get(library)
    cls = getattr(module, name, None)
    return cls is not None and isinstance(a, cls)


def _receive_numpy(a) -> Received:
    if type(a) is np.ndarray:
        return Received(a, repeats=True)
    if not isinstance(a, np.ndarray):
        try:
            array = np.asarray(a)
        except ValueError as error:
            if not isinstance(a, list | tuple):
                raise
            raise ValueError(
                f"{error} (bed.eigh_list takes matrices of several sizes)"
            ) from error
        if array.dtype == object and array.ndim == 0:
            raise np.linalg.LinAlgError(
                f"expected an array of square matrices, got {describe(a)}: to NumPy an "
                "array of shape ()"
            )
        return Received(array)
    if isinstance(a, np.ma.MaskedArray) and np.ma.is_masked(a):
        raise TypeError("expected an array without masked entries: fill them in before")
    return Received(np.asarray(a), give_back_vectors=a.__array_wrap__)


_NUMPY = Library("numpy", never, _receive_numpy)
