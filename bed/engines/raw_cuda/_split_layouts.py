"""Eigenvectors in several launches: for which sizes, and how these are laid out.

Many more chains run at once than in one launch (src/split.cuh), for more traffic with
memory. As in `_layouts.py`, nothing depends on the batch but how often launches repeat.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from ._layouts import (
    BLOCK_APPLIERS,
    BLOCK_BLOCKS,
    LANES,
    MAX_N,
    MOST_BYTES,
    TYPES,
    WARP,
    Layout,
    Rows,
    block_layout,
    matrix_bytes,
)

# The size from which on matrices of a dtype are solved so. One launch solves all, until
# both have been timed on a GPU: scripts/gpu_acceptance.py does.
CHOSEN: dict[str, int] = {}

# The size from which on they can be, where a model says that it pays
# (scripts/split_model.py).
POSSIBLE = {"float64": 33, "complex64": 49, "complex128": 33}

# Memory beside the outputs, at most. Entries of a record, times n, each a rotation or
# the head of a sweep: with more a chunk has fewer chains, with fewer Q is moved more
# often.
SCRATCH = 64 * 2**20
ROOM = 16

# Rotations of a random matrix, times n², by the bytes of a real number, and how many
# times as many the rounds have room for.
ROTATIONS, ROUNDS_ROOM = {4: 1.05, 8: 1.27}, 1.2

# Rows are padded to the next of these. Minimum blocks of a multiprocessor as in
# `_layouts.py`, by dtype and rows.
ROWS = (40, 48, 64)
APPLY_BLOCKS = {
    ("float64", 40): 10,
    ("float64", 48): 8,
    ("float64", 64): 6,
    ("complex64", 64): 5,
    ("complex128", 40): 5,
    ("complex128", 48): 5,
    ("complex128", 64): 3,
}

# Warps that hold matrices.
REDUCE_WARPS = 4
# Chains of a block, one thread each: a warp, so that all multiprocessors have some.
CHAINS = 32

PROGRESS_BYTES = 24  # sizeof(Progress)


@dataclass(frozen=True)
class Split:
    """The launches for a chunk: one, two in every round, and one.

    Attributes
    ----------
    reduce, chase, apply, finish : Layout
    rounds : int
        After which few chains are left, that the last launch ends.
    room : int
        Entries of a record.
    each : int
        Bytes of scratch memory for each matrix.
    """

    reduce: Layout
    chase: Layout
    apply: Layout
    finish: Layout
    rounds: int
    room: int
    each: int

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """All four."""
        return self.reduce, self.chase, self.apply, self.finish

    def capacity(self, batch: int) -> int:
        """Matrices of a chunk, for which there is memory."""
        return max(1, min(batch, SCRATCH // self.each))

    def launches(self, batch: int, capacity: int) -> Iterator[tuple[Layout, int, int]]:
        """Every launch of a batch in order: layout, first matrix, and how many."""
        rounds = (self.chase, self.apply) * self.rounds
        for first in range(0, batch, capacity):
            for layout in (self.reduce, *rounds, self.finish):
                yield layout, first, min(capacity, batch - first)


def chosen(n: int, dtype: np.dtype, limit: int = MOST_BYTES) -> Split | None:
    """The launches for eigenvectors, or None where one launch is taken.

    Which it is where a block may not have as much shared memory as they take, which is
    no less than the kernel of the same bits takes.
    """
    if not CHOSEN or n < CHOSEN.get(dtype.name, MAX_N + 1):
        return None
    found = split(n, dtype)
    fits = max(layout.shared for layout in found.layouts) <= limit
    return found if fits else None


@cache
def split(n: int, dtype: np.dtype, room: int | None = None) -> Split:
    """The launches for matrices of a size and dtype that are in `POSSIBLE`."""
    dtype = np.dtype(dtype)
    room = ROOM * n if room is None else room
    name, real = dtype.name, dtype.type(0).real.itemsize
    assert POSSIBLE[name] <= n <= MAX_N
    lanes = next((rows for rows in LANES[name] if n <= rows.n), None)
    return Split(
        _reduce_lanes(lanes, name) if lanes else _whole("reduce", n, name),
        _chase(n, name),
        _apply(n, name, room),
        _whole("finish", n, name),
        rounds=math.ceil(ROUNDS_ROOM * ROTATIONS[real] * n * n / max(room - n, 1)),
        room=room,
        each=scratch_bytes(n, dtype, room),
    )


def scratch_bytes(n: int, dtype: np.dtype, room: int) -> int:
    """Of scratch memory for each matrix: T, a record, where its chain is."""
    return 2 * (n + room) * dtype.type(0).real.itemsize + PROGRESS_BYTES


def _layout(
    step: str, name: str, parameters: tuple, threads: int, matrices: int, shared: int
) -> Layout:
    words = ", ".join([TYPES[name], *map(str, parameters)])
    kernel = f"split_{step}"
    return Layout(f"{kernel}.cu", f"bed::{kernel}<{words}>", threads, matrices, shared)


def _whole(step: str, n: int, name: str) -> Layout:
    """Of a block a matrix, in the same memory as in one launch."""
    shared = block_layout(n, name, True).shared
    parameters = BLOCK_APPLIERS, BLOCK_BLOCKS.get(name, 1)
    return _layout(step, name, parameters, WARP * BLOCK_APPLIERS, 1, shared)


def _reduce_lanes(rows: Rows, name: str) -> Layout:
    dtype = np.dtype(name)
    real, matrices = dtype.type(0).real.itemsize, WARP // rows.lanes * REDUCE_WARPS
    each = matrix_bytes(rows, name, eigenvectors=True) + rows.n * dtype.itemsize
    parameters = rows.n, rows.lanes, rows.rows, REDUCE_WARPS, rows.blocks
    shared = matrices * (each + 2 * rows.n * real)
    threads = WARP * REDUCE_WARPS
    return _layout("reduce_lanes", name, parameters, threads, matrices, shared)


def _chase(n: int, name: str) -> Layout:
    shared = 2 * n * CHAINS * np.dtype(name).type(0).real.itemsize
    return _layout("chase", name, (CHAINS,), CHAINS, CHAINS, shared)


def _apply(n: int, name: str, room: int) -> Layout:
    dtype = np.dtype(name)
    real = dtype.type(0).real.itemsize
    rows = next(most for most in ROWS if n <= most)
    threads = -(-rows * (dtype.itemsize // real) // WARP) * WARP
    parameters = rows, APPLY_BLOCKS[name, rows]
    return _layout("apply", name, parameters, threads, 1, 2 * room * real)


def instantiations(dtype: np.dtype) -> list[Layout]:
    """Every layout for a dtype, each instantiation once, with the largest n."""
    found = {}
    name = np.dtype(dtype).name
    for n in range(POSSIBLE.get(name, MAX_N + 1), MAX_N + 1):
        for layout in split(n, dtype).layouts:
            found[layout.expression] = layout
    return list(found.values())
