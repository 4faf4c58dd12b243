"""Launch the kernel for a batch: sizes, instantiation, grid, launch."""

from functools import cache

import cupy
import numpy as np

from bed.engines._outputs import allocate

from ._layouts import MOST_BYTES, choose
from ._module import kernel, shared_limit
from ._split_layouts import Split, chosen

# Values of bed::Storage in src/batch.cuh.
STORAGE = {"float16": 1, "bfloat16": 2}

# Blocks that fill the largest GPU: 132 multiprocessors with three each, and some more.
FILLING = 512


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of CuPy arrays; see the contract in `bed.engines`.

    One launch on the current stream of the array's device, or several with the same
    bits (_split_layouts.py). Besides the contract's dtypes `a` may be float16 or
    bfloat16, which are read as they are and computed in float32. Float32 entries of T
    that become subnormal after scaling count as zero.
    """
    batch, n, _ = a.shape
    limit = shared_limit(a.device.id)
    layout, dtype, storage = plan(n, a.dtype, eigenvectors, limit)
    with a.device:
        w, v, status = out or allocate(
            cupy.empty, (batch, n), dtype, eigenvectors=eigenvectors
        )
        given = arguments(a, uplo, storage, w, v, status, pointer=_pointer)
        several = chosen(n, dtype, limit) if eigenvectors else None
        # A graph would need scratch memory of its own for as long as it lives.
        if several is None or cupy.cuda.get_current_stream().is_capturing():
            _queue(layout, grid(layout, batch), given, a.device.id)
        else:
            _queue_several(several, batch, given, a.device.id)
    return w, v, status


def _queue(layout, blocks: tuple[int], given: tuple, device: int) -> None:
    launch = kernel(layout.source, layout.expression, layout.shared, device)
    launch(blocks, (layout.threads,), given, shared_mem=layout.shared)


def _queue_several(split: Split, batch: int, given: tuple, device: int) -> None:
    """All launches of a batch, with scratch memory that they share.

    CuPy's pool keeps it between calls, and gives it to one call at a time of those that
    are being queued, and later to calls on the same stream alone, which are in order.
    """
    capacity = split.capacity(batch)
    scratch = cupy.empty(capacity * split.each, np.uint8)
    for layout, first, count in split.launches(batch, capacity):
        chunk = split_arguments(split, scratch, capacity, first, count, _pointer)
        _queue(layout, grid(layout, count), (*given, *chunk), device)


@cache
def plan(n: int, dtype: np.dtype, eigenvectors: bool, limit: int = MOST_BYTES):
    """Layout, dtype computed in, and storage code; remembered, as calls are short."""
    storage = STORAGE.get(dtype.name, 0)
    dtype = np.dtype("f4") if storage else dtype
    layout = choose(n, dtype, eigenvectors=eigenvectors, limit=limit)
    return layout, dtype, np.int32(storage)


def grid(layout, batch: int) -> tuple[int]:
    """Blocks of a launch; memory bounds batches long before 2³¹ − 1 blocks.

    Blocks that work in rounds have one alone where that does not fill a GPU.
    """
    least = -(-batch // layout.matrices)
    spread = -(-batch // (layout.matrices // layout.rounds))
    return (max(least, min(spread, FILLING)),)


def arguments(a, uplo, storage, w, v, status, *, pointer) -> tuple:
    """The kernel's parameters, in the order of BED_BATCH_PARAMETERS (src/batch.cuh).

    The upper triangle is the lower one with rows and columns exchanged, conjugated.
    """
    item = a.itemsize
    matrix, row, column = (np.int64(s // item) for s in a.strides)
    if uplo == "U":
        row, column = column, row
    return (
        pointer(a),
        pointer(w),
        pointer(v),
        pointer(status),
        np.int64(a.shape[0]),
        matrix,
        row,
        column,
        np.int32(a.shape[-1]),
        storage,
        np.int32(uplo == "U"),
    )


def split_arguments(split, scratch, capacity, first, count, pointer) -> tuple:
    """The further parameters BED_SPLIT_PARAMETERS (src/split.cuh) of each launch."""
    return (
        pointer(scratch),
        np.int32(capacity),
        np.int32(split.room),
        np.int64(first),
        np.int32(count),
    )


def _pointer(array) -> np.uintp:
    return np.uintp(0 if array is None else array.data.ptr)
