"""What is known of a caller's array once it is open."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np


def same(array):
    """The array as it is."""
    return array


_AS_IT_IS = nullcontext()


def _as_it_is() -> AbstractContextManager:
    return _AS_IT_IS


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
        The same for matrices, which keep an ndarray subclass as NumPy's do.
    running : callable
        A context in which the array's device and the caller's stream are current.
    error : type
        Of numerical errors: also what the caller's library raises in such cases.
    dtype : str
        Name of the dtype that the caller's array has.
    repeats : bool
        Whether results are memory of NumPy that is given back, so that calls like one
        before can be short.
    """

    # Of a NumPy array: an instance sets what is otherwise, as every call makes one.
    device: str = "cpu"
    empty: Callable = staticmethod(np.empty)
    opened: Callable = staticmethod(same)
    give_back: Callable = staticmethod(same)
    give_back_vectors: Callable = staticmethod(same)
    running: Callable[[], AbstractContextManager] = staticmethod(_as_it_is)
    error: type[np.linalg.LinAlgError] = np.linalg.LinAlgError
    converted_from: str | None = None
    repeats: bool = False

    def __init__(self, array: Any, **attributes: Any) -> None:
        self.array = array
        if attributes:
            self.__dict__.update(attributes)

    @property
    def dtype(self) -> str:
        return self.converted_from or self.array.dtype.name

    def open_batch(self, outputs, leading: tuple[int, ...]) -> tuple:
        """Outputs with the caller's axes as the engine takes them, with one axis."""
        axes, opened = len(leading), self.opened
        if opened is not same:
            outputs = tuple([None if x is None else opened(x) for x in outputs])
        if axes == 1:
            return outputs
        if axes == 0:
            return tuple([None if x is None else x[None] for x in outputs])
        batch = math.prod(leading)
        return tuple(
            [
                None if x is None else x.reshape((batch, *x.shape[axes:]))
                for x in outputs
            ]
        )

    def close(self, outputs, leading: tuple[int, ...]) -> tuple:
        """Finished outputs as arrays of the caller's library."""
        if self.give_back is same and self.give_back_vectors is same:
            return outputs
        vectors = len(leading) + 2  # axes
        return tuple(
            None
            if x is None
            else self.give_back_vectors(x)
            if x.ndim == vectors
            else self.give_back(x)
            for x in outputs
        )


def never(a) -> bool:
    """For libraries that trace nothing, or have arrays on one device alone."""
    del a
    return False


class Library(NamedTuple):
    """What bed has to know of an array library.

    Attributes
    ----------
    name : str
        Of its package.
    traces : callable
        Whether the library differentiates, or writes down, what is done to an array:
        it is solved by `bed.autograd` then.
    receive : callable
        Opens an array, as `Received`.
    spreads : callable
        Whether the library hands out the work, as devices have parts of an array or
        the memory is not to be lent: by `bed.autograd` as well.
    """

    name: str
    traces: Callable[[Any], bool]
    receive: Callable[[Any], Received]
    spreads: Callable[[Any], bool] = never


def describe(a: Any) -> str:
    """Type, dtype and shape of anything, for error messages."""
    kind = f"{type(a).__module__.partition('.')[0]}.{type(a).__name__}"
    kind = kind.removeprefix("builtins.")
    if not hasattr(a, "shape"):
        return kind
    return f"{kind} of shape {tuple(a.shape)} and dtype {getattr(a, 'dtype', '?')}"
