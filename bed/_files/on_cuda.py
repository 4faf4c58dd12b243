"""Windows on a GPU: two in turn, each with a stream and with memory on both sides."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._dispatch.interop.cupy import load


class OnCuda:
    """``solve(a)`` queues a window, and returns a function that waits for its results.

    While one window is copied and solved the next is read, and the results of the one
    before are written. Results are views of pinned memory: they have to be used before
    the second call after theirs.
    """

    def __init__(
        self, function: Callable, n: int, dtype: np.dtype, window: int
    ) -> None:
        shape, native = (window, n, n), dtype.newbyteorder("=")
        self._places = [_Place(function, shape, native) for _ in range(2)]

    def __call__(self, a: np.ndarray) -> Callable[[], Any]:
        self._places.reverse()
        return self._places[0].begin(a)


class _Place:
    """A stream, and pinned memory for what it copies in and out."""

    def __init__(self, function: Callable, shape, dtype: np.dtype) -> None:
        cupy = load()
        self._function, self._window = function, shape[0]
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._host, self._device = _pinned(shape, dtype), cupy.empty(shape, dtype)
        self._results: list[np.ndarray] = []

    def begin(self, a: np.ndarray) -> Callable[[], Any]:
        count = len(a)
        np.copyto(self._host[:count], a)
        with self._stream:
            there = self._device[:count]
            there.set(self._host[:count])
            found = self._function(there)
            if not self._results:
                shapes = [((self._window, *x.shape[1:]), x.dtype) for x in found]
                self._results = [_pinned(*each) for each in shapes]
            results = [x[:count] for x in self._results]
            for x, out in zip(found, results, strict=True):
                x.get(out=out, blocking=False)

        def wait():
            self._stream.synchronize()
            return found._replace(**dict(zip(found._fields, results, strict=True)))

        return wait


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory of the host that a GPU copies to and from by itself."""
    import cupyx

    return cupyx.empty_pinned(shape, dtype)
