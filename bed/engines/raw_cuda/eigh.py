"""Launch the kernel for a batch: sizes, instantiation, grid, launch."""

import cupy
import numpy as np

from bed.engines._outputs import allocate

from ._layouts import choose
from ._module import kernel

# Values of bed::Storage in src/batch.cuh.
STORAGE = {"float16": 1, "bfloat16": 2}


def eigh(a, uplo="L", *, eigenvectors=True, out=None):
    """Solve a batch of CuPy arrays; see the contract in `bed.engines`.

    One launch on the current stream of the array's device. Besides the contract's
    dtypes `a` may be float16 or bfloat16, which are read as they are and computed in
    float32.
    """
    batch, n, _ = a.shape
    dtype = np.dtype("f4") if a.dtype.name in STORAGE else a.dtype
    w, v, status = out or allocate(
        cupy.empty, (batch, n), dtype, eigenvectors=eigenvectors
    )
    layout = choose(n, dtype, eigenvectors=eigenvectors)
    device = a.device.id
    with a.device:
        launch = kernel(layout.source, layout.expression, layout.shared, device)
        launch(
            grid(layout, batch),
            (layout.threads,),
            arguments(a, uplo, w, v, status, pointer=_pointer),
            shared_mem=layout.shared,
        )
    return w, v, status


def grid(layout, batch: int) -> tuple[int]:
    """Blocks of a launch; memory bounds batches long before 2³¹ − 1 blocks."""
    return (-(-batch // layout.matrices),)


def arguments(a, uplo, w, v, status, *, pointer) -> tuple:
    """The kernel's parameters, in the order of BED_BATCH_PARAMETERS (src/batch.cuh).

    The upper triangle is the lower one with rows and columns exchanged, conjugated.
    """
    item = a.itemsize
    strides = [np.int64(s // item) for s in a.strides]
    if uplo == "U":
        strides[1:] = strides[:0:-1]
    return (
        pointer(a),
        pointer(w),
        pointer(v),
        pointer(status),
        np.int64(a.shape[0]),
        *strides,
        np.int32(a.shape[-1]),
        np.int32(STORAGE.get(a.dtype.name, 0)),
        np.int32(uplo == "U"),
    )


def _pointer(array) -> np.uintp:
    return np.uintp(0 if array is None else array.data.ptr)
