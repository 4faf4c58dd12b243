"""Every compiled kernel of the fused engine, and calls of it."""

import os

import numpy as np
import pytest

import emulated
from bed import engines
from bed.testing.matrices import DTYPES, random_hermitian
from drivers import Driver, eigh, eigvalsh

FUSED = Driver("raw_cuda", "cuda")
layouts = emulated.engine_module("_layouts")
split_layouts = emulated.engine_module("_split_layouts")

# A few kernels of each dtype, to rehearse: the smallest, one between and one above.
FEW = (0, 2, 8)


def every_layout(dtype, *, vectors=True):
    """The largest size of every kernel of a dtype, with the matrices of a block."""
    found = {}
    for n in range(1, layouts.MAX_N + 1):
        layout = layouts.choose(n, np.dtype(dtype), eigenvectors=vectors)
        found[layout.expression] = (n, layout.matrices)
    return list(found.values())


def kernels(values_too=False):
    """Parameters ``n, dtype, block, vectors`` of a test of every kernel."""
    return list(_kernels(values_too))


def _kernels(values_too):
    for dtype in DTYPES:
        for vectors in (True, False) if values_too else (True,):
            found = every_layout(dtype, vectors=vectors)
            chosen = FEW if os.environ.get("BED_GPU_FEW") else range(len(found))
            for n, block in (found[i] for i in chosen):
                name = f"{n}-{dtype}-{'vectors' if vectors else 'values'}"
                yield pytest.param(n, dtype, block, vectors, id=name)


def solve(a, uplo="L", *, vectors=True):
    """Host results of the fused engine: values, vectors if any, status."""
    call = eigh if vectors else eigvalsh
    return tuple(call(a, uplo, driver=FUSED, return_info=True))


def engine():
    """The engine's own function, for device arrays."""
    return engines.get("raw_cuda").load()


def batch_for(rng, block, n, dtype):
    """Random matrices for three blocks and a part of one."""
    return random_hermitian(rng, (3 * block + 2, n, n), dtype)


def hidden(a, uplo):
    """A copy with NaN wherever a solver must not look."""
    n = a.shape[-1]
    i, j = np.indices((n, n))
    b = a.copy()
    b[..., i < j if uplo == "L" else i > j] = np.nan
    if b.dtype.kind == "c":
        b.imag[..., np.arange(n), np.arange(n)] = np.nan
    return b
