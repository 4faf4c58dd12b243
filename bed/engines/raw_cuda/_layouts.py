"""Which kernel solves a size and dtype, and how it is laid out.

The tables below are the whole choice; nothing depends on the batch. Minimum blocks per
multiprocessor bound the registers: they are the most for which the compiler spills
nothing on sm_90, which a test checks.
"""

from dataclasses import dataclass

import numpy as np

MAX_N = 64

# C++ names of the dtypes.
TYPES = {
    "float32": "float",
    "float64": "double",
    "complex64": "bed::Complex<float>",
    "complex128": "bed::Complex<double>",
}

WARP = 32
SCALING_BYTES = 8  # sizeof(Scaling)

# Shared memory that a block may have on every GPU from compute capability 8 on, but for
# 7.5: there it is 64 KiB.
MOST_BYTES = 99 * 1024


@dataclass(frozen=True)
class Layout:
    """A kernel instantiation and its launch.

    Attributes
    ----------
    source : str
        File under ``src`` that holds the kernel template.
    expression : str
        The instantiation, as C++.
    threads : int
        Threads of a block.
    matrices : int
        Matrices of a block, at most.
    shared : int
        Dynamic shared memory of a block in bytes.
    exact : bool
        Whether the compiler has to keep float32 numbers that are subnormal.
    rounds : int
        In which a block takes them; with more blocks than need be there are fewer.
    """

    source: str
    expression: str
    threads: int
    matrices: int
    shared: int
    exact: bool = False
    rounds: int = 1


@dataclass(frozen=True)
class Tiny:
    """A thread a matrix; minimum blocks for (vectors, values)."""

    threads: int
    blocks: tuple[int, int]


# By n from 1 on, as long as a matrix and its Q fit in the registers of one thread with
# several blocks resident. Fewer threads for the larger sizes, whose staged matrices
# take more shared memory.
TINY = {
    "float32": (
        Tiny(128, (16, 16)),
        Tiny(128, (16, 16)),
        Tiny(128, (16, 16)),
        Tiny(128, (12, 16)),
        Tiny(64, (16, 16)),
        Tiny(64, (16, 16)),
        Tiny(64, (12, 16)),
        Tiny(64, (10, 16)),
    ),
    "float64": (
        Tiny(128, (16, 16)),
        Tiny(128, (16, 12)),
        Tiny(128, (8, 12)),
        Tiny(128, (6, 12)),
        Tiny(64, (8, 16)),
        Tiny(64, (6, 16)),
    ),
    "complex64": (
        Tiny(128, (16, 16)),
        Tiny(128, (16, 16)),
        Tiny(128, (12, 16)),
        Tiny(128, (9, 16)),
        Tiny(64, (12, 16)),
        Tiny(64, (8, 16)),
    ),
    "complex128": (
        Tiny(128, (16, 16)),
        Tiny(128, (12, 12)),
        Tiny(128, (5, 10)),
        Tiny(64, (8, 16)),
    ),
}


@dataclass(frozen=True)
class Rows:
    """G lanes hold a matrix of up to n rows, R rows each; minimum blocks.

    The kernel is that of the eigenvectors; eigenvalues alone have one of their own.
    """

    n: int
    lanes: int
    rows: int
    blocks: int
    kernel: str = "chase"


# Two words an element: half as many elements a lane as in float32.
_TWO_WORDS_SMALL = (
    Rows(8, 4, 2, 6),
    Rows(12, 4, 3, 4),
    Rows(16, 8, 2, 4),
    Rows(20, 8, 3, 3),
    Rows(24, 8, 3, 2),
    Rows(28, 16, 2, 3),
)
_TWO_WORDS_LARGE = (Rows(40, 32, 2, 2), Rows(48, 32, 2, 2))

# Few lanes a matrix, as the chain of rotations (group) or the loads of rotations
# (chase) cost the same for each lane; as many as the registers need. Sizes in between
# are padded to the next N, so N grows in steps that cost little.
LANES = {
    "float32": (
        # Every lane runs the chain: at these sizes it is short, and a chasing warp was
        # measured to gain nothing on an H200 (1.57 against 1.60 ms at 16).
        Rows(12, 4, 3, 6, "group"),
        Rows(16, 4, 4, 4, "group"),
        Rows(20, 8, 3, 4),
        Rows(24, 8, 3, 4),
        Rows(28, 8, 4, 3),
        Rows(32, 8, 4, 3),
        Rows(40, 16, 3, 3),
        Rows(48, 16, 3, 2),
        Rows(56, 32, 2, 3),
        Rows(64, 32, 2, 3),
    ),
    "float64": (*_TWO_WORDS_SMALL, Rows(32, 16, 2, 2), *_TWO_WORDS_LARGE),
    "complex64": (*_TWO_WORDS_SMALL, Rows(32, 16, 2, 3), *_TWO_WORDS_LARGE),
    # Four words: one row a lane for most sizes.
    "complex128": (
        Rows(8, 8, 1, 5),
        Rows(12, 8, 2, 3),
        Rows(16, 16, 1, 4),
        Rows(24, 32, 1, 3),
        Rows(32, 32, 1, 2),
    ),
}

# Four warps reduce matrices, until one of them has a chain for each of its lanes.
VALUES_WARPS = 4

GROUP_THREADS = 128
# Warps that hold matrices beside the one that runs the chains: with it, four warps fill
# the four partitions of a multiprocessor evenly.
CHASE_APPLIERS = 3
# Sweeps that the chains may be ahead; fewer where a sweep takes more shared memory.
CHASE_SLOTS_SMALL, CHASE_SLOTS_LARGE, CHASE_SMALL_MAX_N = 4, 2, 32

# What registers cannot hold: a block for a matrix in shared memory.
BLOCK_APPLIERS = 4
BLOCK_SLOTS = 2
BLOCK_MAX_N = 64
# Minimum blocks, where shared memory allows more than the registers would.
BLOCK_BLOCKS = {"float64": 6}


def choose(
    n: int, dtype: np.dtype, *, eigenvectors: bool, limit: int = MOST_BYTES
) -> Layout:
    """The layout for matrices of size n, 1 ≤ n ≤ `MAX_N`.

    Where it takes more shared memory than `limit`, a block for each matrix.

    Raises
    ------
    ValueError
        That takes more as well.
    """
    name = np.dtype(dtype).name
    layout = _fastest(n, name, eigenvectors)
    if layout.shared > limit:
        layout = block_layout(n, name, eigenvectors)
    return fitting(layout, n, name, limit)


def _fastest(n: int, name: str, eigenvectors: bool) -> Layout:
    if n <= len(TINY[name]):
        return _tiny(n, name, eigenvectors)
    for rows in LANES[name]:
        if n <= rows.n:
            if not eigenvectors:
                return _values(rows, name)
            make = _group if rows.kernel == "group" else _chase
            return make(rows, name)
    return block_layout(n, name, eigenvectors)


def fitting(layout: Layout, n: int, name: str, limit: int) -> Layout:
    """The layout, if a block may have as much shared memory; else a `ValueError`."""
    if layout.shared > limit:
        raise ValueError(
            f"raw_cuda takes {layout.shared} bytes of shared memory for {name} matrices"
            f" of n = {n}, and a block of this GPU may have {limit}; "
            "driver='numba_cuda' and driver='cusolver' take less"
        )
    return layout


def instantiations(dtype: np.dtype) -> list[Layout]:
    """Every layout that `choose` can return for a dtype, each once."""
    found = {}
    for n in range(1, MAX_N + 1):
        for eigenvectors in (True, False):
            layout = choose(n, dtype, eigenvectors=eigenvectors)
            found[layout.expression] = layout
    for eigenvectors in (True, False):
        layout = block_layout(MAX_N, np.dtype(dtype).name, eigenvectors)
        found.setdefault(layout.expression, layout)
    return list(found.values())


def _expression(kernel: str, name: str, *parameters) -> str:
    words = [str(p).lower() if isinstance(p, bool) else str(p) for p in parameters]
    return f"bed::eigh_{kernel}<{', '.join([TYPES[name], *words])}>"


def _sizes(name: str) -> tuple[int, int]:
    """Bytes of an element and of a real number."""
    dtype = np.dtype(name)
    return dtype.itemsize, dtype.type(0).real.itemsize


def _tiny(n: int, name: str, eigenvectors: bool) -> Layout:
    tiny = TINY[name][n - 1]
    item, _ = _sizes(name)
    blocks = tiny.blocks[0 if eigenvectors else 1]
    return Layout(
        "eigh_tiny.cu",
        _expression("tiny", name, n, tiny.threads, blocks, eigenvectors),
        tiny.threads,
        tiny.threads,
        tiny.threads * (n * n | 1) * item,
    )


def matrix_bytes(rows: Rows, name: str, *, eigenvectors: bool) -> int:
    """sizeof(MatrixMemory): what lanes share about one matrix."""
    item, real = _sizes(name)
    n = rows.n
    steps = n - 2 + (item > real)
    used = 2 * (_round_up(n, 4) + 4) + (steps * n if eigenvectors else 0)
    output = rows.lanes * (n | 1) if eigenvectors else 0
    return (_round_up(max(used, n * (n + 1) // 2, output), 4) + 4) * item


def _values(rows: Rows, name: str) -> Layout:
    item, real = _sizes(name)
    n, at_once = rows.n, WARP // rows.lanes * VALUES_WARPS
    rounds = WARP // at_once
    matrices = at_once * rounds
    shared = at_once * matrix_bytes(rows, name, eigenvectors=False)
    shared += matrices * (2 * n * real + SCALING_BYTES + 4)
    parameters = (n, rows.lanes, rows.rows, VALUES_WARPS, rounds, rows.blocks)
    return Layout(
        "eigh_values.cu",
        _expression("values", name, *parameters),
        WARP * VALUES_WARPS,
        matrices,
        _round_up(shared, item),
        rounds=rounds,
    )


def _group(rows: Rows, name: str) -> Layout:
    item, real = _sizes(name)
    n, matrices = rows.n, GROUP_THREADS // rows.lanes
    shared = matrices * (matrix_bytes(rows, name, eigenvectors=True) + n * item)
    shared += 4 * n * matrices * real + matrices * n * 4
    parameters = (n, rows.lanes, rows.rows, GROUP_THREADS, rows.blocks)
    return Layout(
        "eigh_group.cu",
        _expression("group", name, *parameters),
        GROUP_THREADS,
        matrices,
        _round_up(shared, real),
    )


def _chase(rows: Rows, name: str) -> Layout:
    item, real = _sizes(name)
    n, matrices = rows.n, WARP // rows.lanes * CHASE_APPLIERS
    slots = CHASE_SLOTS_SMALL if n <= CHASE_SMALL_MAX_N else CHASE_SLOTS_LARGE
    shared = matrices * (matrix_bytes(rows, name, eigenvectors=True) + n * item)
    shared += 2 * n * matrices * real + matrices * (n * 4 + SCALING_BYTES)
    shared += _slots_bytes(n, matrices, slots, real)
    parameters = (n, rows.lanes, rows.rows, CHASE_APPLIERS, slots, rows.blocks)
    return Layout(
        "eigh_chase.cu",
        _expression("chase", name, *parameters),
        WARP * (CHASE_APPLIERS + 1),
        matrices,
        _round_up(shared, real),
    )


def block_layout(n: int, name: str, eigenvectors: bool) -> Layout:
    """Of a block for each matrix, which has it in shared memory."""
    item, real = _sizes(name)
    shared = _slots_bytes(BLOCK_MAX_N, 1, BLOCK_SLOTS, real)
    shared += BLOCK_MAX_N * (2 * real + 2 * item + 4) + 32 * 4
    shared = _round_up(shared, real) + n * (n | 1) * item
    parameters = (BLOCK_APPLIERS, BLOCK_BLOCKS.get(name, 1), eigenvectors)
    return Layout(
        "eigh_block.cu",
        _expression("block", name, *parameters),
        WARP * (BLOCK_APPLIERS + 1),
        1,
        shared,
    )


def _slots_bytes(n: int, matrices: int, slots: int, real: int) -> int:
    """sizeof(Slots) but for its end: rotations, windows, flags."""
    rotations = slots * n * matrices * 2 * real
    return rotations + 4 * (2 * slots * matrices + slots + matrices)


def _round_up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple
