"""Launches on the device and the stream that CuPy uses, and the shapes of blocks."""

from functools import cache

import cupy
import numpy as np
from numba import cuda

from ._block import GROUPS

# What CUDA gives a block on every device. Numba has no way to ask for more.
SHARED_BYTES = 48 * 1024
# Of it, for the vectors that kernels hold: in elements of the matrix.
RESERVED_ELEMENTS = 1280

WARP = 32
# Fewer blocks than 128 make Numba warn of a device that is not busy; those without a
# matrix end at once.
MIN_BLOCKS, MAX_BLOCKS = 128, 2**31 - 1
# Blocks that work in memory which is theirs and not a matrix of the output; as many as
# a large device runs at a time.
SCRATCH_BLOCKS = 1024


def on_device(array):
    """A context in which the device of an array is the current one."""
    return array.device


def launch(kernel, blocks: int, threads: tuple[int, int], shared: int, *arguments):
    """Queue a kernel on CuPy's current stream of its current device.

    Numba by itself would run it on the default stream, after waiting for the stream
    that an array says it is ready on.
    """
    device = cupy.cuda.Device().id
    with cuda.gpus[device]:
        stream = _stream(device, cupy.cuda.get_current_stream().ptr)
        there = [
            cuda.as_cuda_array(x, sync=False) if isinstance(x, cupy.ndarray) else x
            for x in arguments
        ]
        kernel[blocks, threads, stream, shared](*there)


@cache
def _stream(device: int, pointer: int):
    """Numba's object for a stream, the same one each time: Numba keeps them."""
    del device  # part of the key: the default stream of every device is 0
    return cuda.external_stream(pointer)


def in_shared(n: int, dtype: np.dtype) -> bool:
    """Whether a matrix and the vectors of a kernel fit into shared memory."""
    return (n * (n + 1) + RESERVED_ELEMENTS) * dtype.itemsize <= SHARED_BYTES


def shared_bytes(n: int, dtype: np.dtype) -> int:
    """Dynamic shared memory of a kernel: a matrix with padded rows, or nothing."""
    return n * (n + 1) * dtype.itemsize if in_shared(n, dtype) else 0


def square_block(n: int) -> tuple[int, int]:
    """Threads for work on rows and columns."""
    return round_up(n, WARP), GROUPS


def line_block(columns: int) -> tuple[int, int]:
    """Threads for work on whole columns."""
    return round_up(columns, WARP), 1


def grid(batch: int, most: int = MAX_BLOCKS) -> int:
    """Blocks for a batch."""
    return max(MIN_BLOCKS, min(batch, most))


def round_up(x: int, multiple: int) -> int:
    """The next multiple."""
    return -(-x // multiple) * multiple
