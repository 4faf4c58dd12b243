"""Inputs that do not lie in memory as a C-contiguous batch of float32 or wider."""

import cupy
import numpy as np

from . import _device as device
from ._cases import kernels
from ._device import get, put, solve

# From memory (batch, rows, columns), rows and columns at least 2n, to matrices of size
# n; the same on the host and on the device.
VIEWS = {
    "every other matrix": lambda x, n: x[::2, :n, :n],
    "from the second matrix on": lambda x, n: x[1:, :n, :n],
    "a window of larger rows": lambda x, n: x[:, 1 : n + 1, 2 : n + 2],
    "every other row and column": lambda x, n: x[:, : 2 * n : 2, 1 : 2 * n : 2],
    "transposed matrices": lambda x, n: x.swapaxes(1, 2)[:, :n, :n],
    "all axes backwards": lambda x, n: x[::-1, ::-1, ::-1][:, :n, :n],
    "columns backwards": lambda x, n: x[:, :, ::-1][:, :n, :n],
    "the batch innermost": lambda x, n: x.transpose(2, 0, 1)[:, :n, :n],
    "Fortran order": lambda x, n: x.transpose(2, 1, 0)[:, :n, :n],
    "two axes of matrices": lambda x, n: x[:8].reshape(2, 4, *x.shape[1:])[
        :, ::3, :n, :n
    ],
}
# Matrices of a view that are measured; the bits of all are compared.
MEASURED = 1


def strided(run, part) -> None:
    """Slices, transposes, negative and zero strides, Fortran order, row strides."""
    for n, dtype, _, _ in kernels(run.smoke):
        with part.attempt(f"n = {n}, {dtype}"):
            all_views(part, run.rng("strided", n, dtype), n, dtype)


def all_views(part, rng, n, dtype) -> None:
    """Every view of the same memory, both triangles."""
    rows = 2 * n + 3
    x = rng.standard_normal((max(9, n + 2), rows, rows))
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    x = x.astype(dtype)
    there = put(x)
    one = x[:1, :n, :n]
    for uplo in "LU":
        for name, view in VIEWS.items():
            check(part, view(there, n), view(x, n), uplo, name)
        shape = (7, n, n)
        repeated = np.broadcast_to(one, shape), cupy.broadcast_to(put(one), shape)
        check(part, repeated[1], repeated[0], uplo, "one matrix broadcast")


def check(part, there, a, uplo, name) -> None:
    """A view is solved to the bits of its contiguous copy, which are right."""
    n = a.shape[-1]
    expected = solve(put(a), uplo)
    part.same(solve(there, uplo), expected, f"{name}, n = {n}, {a.dtype}, {uplo}")
    a, w, v = (
        np.ascontiguousarray(x.reshape(-1, *shape)[:MEASURED])
        for x, shape in zip((a, *expected[:2]), ((n, n), (n,), (n, n)), strict=True)
    )
    part.right(a, w, v, uplo=uplo, what=name)


def half_types(run, part) -> None:
    """float16 and bfloat16 are read as they are, and computed in float32."""
    for name in ("float16", "bfloat16"):
        try:
            dtype = np.dtype(name) if name == "float16" else _bfloat16()
            put(np.ones(2, dtype))
        except Exception as error:
            part.notes.append(
                f"{name} not checked here: {type(error).__name__}: {error}"
            )
            continue
        for n, kind, layout, _ in kernels(run.smoke):
            if kind == np.float32:
                with part.attempt(f"{name}, n = {n}"):
                    batch = layout.matrices + 3
                    x = run.rng(name, n).standard_normal((batch, n, n)).astype(dtype)
                    x[0] *= dtype.type(2.0**-14)  # some are subnormal in float16
                    one_half_type(part, x)


def one_half_type(part, x) -> None:
    """The same bits as after a conversion, by bed and by the engine."""
    wide = x.astype(np.float32)
    there = put(x)
    for uplo in "LU":
        expected = solve(put(wide), uplo)
        what = f"{x.dtype}, n = {x.shape[-1]}, {uplo}"
        part.same(solve(there, uplo), expected, what)
        direct = get(tuple(device.engine()(there, uplo)))
        part.same(direct, expected, f"{what}, the engine")
        back = get(tuple(device.engine()(there[::-1], uplo)))
        mirrored = tuple(np.ascontiguousarray(y[::-1]) for y in expected)
        part.same(back, mirrored, f"{what}, backwards")
        part.right(wide, *expected[:2], uplo=uplo, what=what)


def _bfloat16():
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
