#!/usr/bin/env python
"""Model how fast eigenvectors would be in three launches, from machine code.

Today one kernel reduces matrices, forms Q, and has a warp run their QR chains while the
others apply the rotations: the chains of a multiprocessor are as few as the matrices
that its registers or shared memory hold. Three launches would reduce and form Q as
today; run a chain in each thread, with the rotations written to global memory; and
apply them. Where memory for the rotations is bounded, a chunk has few chains again.
And Q may have the place of the eigenvectors, where rotations are found and applied in
rounds: that is what the package has (_split_layouts.py). Writes
scripts/results/split_model.csv; no GPU has run what it says.

A phase takes a multiprocessor as many cycles a matrix as the largest of three: those of
a warp alone (machine_code.py), divided by the matrices that are there at once; the
instructions of a warp, double-precision ones twice, divided by four partitions; and the
bytes that it moves. Left out are bank conflicts, the caches, sorting and storing, the
end of a batch, that a warp waits for its longest chain, what a launch costs, and that
those of two chunks may overlap: ratios say more than rates do.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import kernels_static
import machine_code
import numpy as np
from machine_code import Code, count, cycles, loops, roots

from bed.cli._table import write_table
from bed.engines.raw_cuda import _split_layouts
from bed.engines.raw_cuda._layouts import Layout, choose

ARCHITECTURE = "sm_90"
RESULTS = Path(__file__).parent / "results" / "split_model.csv"
CASES = {
    "float32": (32, 40, 48, 64),
    "float64": (32, 40, 48, 64),
    "complex64": (32, 48, 64),
    "complex128": (32, 48, 64),
}

# H200: multiprocessors, partitions of each, a clock to turn cycles into seconds, and
# bytes a second of a copy.
MULTIPROCESSORS, PARTITIONS, CLOCK, BANDWIDTH = 132, 4, 1.755e9, 4.17e12
BYTES_A_CYCLE = BANDWIDTH / MULTIPROCESSORS / CLOCK

# Beside its loops, a step of the block kernel has sums over a warp, a root and three
# barriers, as the reduction in registers has where few columns are left; and one of Q
# has two barriers: both about.
BLOCK_REDUCTION_STEP, BLOCK_Q_STEP = 600, 100
STORES_A_ROTATION = 2  # with its address

# Where the rotations may be between two launches: in as much memory as they need; in
# what a batch may have beside its eigenvectors, in chunks; in the eigenvectors' place,
# with one number each, and what is too much there; those of a round in what a batch may
# have, with Q in the eigenvectors' place. Matrices differ: with room for some that take
# more.
PLACES = ("without_bound", "scratch_alone", "output_first", "rounds")
SCRATCH, ROOM = _split_layouts.SCRATCH, _split_layouts.ROUNDS_ROOM

# What shared memory holds today would be rotated in registers: a lane has a row of real
# or of imaginary parts, as rotations are real. A rotation is three products, of which
# two wait for each other, a load, and an instruction more. With 168 registers each.
ROW_WARPS, ROW_LATENCY = 12, {4: 4, 8: 8}


@dataclass(frozen=True)
class Work:
    """What a warp does for the matrices it has: cycles alone, and issue slots."""

    cycles: float = 0
    slots: float = 0

    @classmethod
    def of(cls, loop: Code, per: float = 1) -> "Work":
        """Of a passage of a loop, divided by what it gets done."""
        double = sum(x.opcode in ("DADD", "DMUL", "DFMA") for x in loop)
        return cls(cycles(loop) / per, (len(loop) + double) / per)

    def __add__(self, other: "Work") -> "Work":
        return Work(self.cycles + other.cycles, self.slots + other.slots)

    def __mul__(self, times: float) -> "Work":
        return Work(self.cycles * times, self.slots * times)


@dataclass(frozen=True)
class Phases:
    """The work of a warp in every phase, and how many warps and matrices share it."""

    reduction: Work
    q: Work
    applied: Work  # a rotation
    per_warp: float  # matrices of an applying warp
    chain: Work = Work()  # a rotation


def products(code: Code) -> int:
    """Multiply-adds of the code."""
    return count(code, "FFMA") + count(code, "DFMA")


def innermost(code: Code) -> list[Code]:
    """Loops without a barrier or another loop in them, in their order."""
    found = sorted(loops(code))
    inner = [x for x in found if not any(_inside(y, x) for y in found)]
    bodies = [code[first : last + 1] for first, last in inner]
    return [x for x in bodies if not count(x, "BAR.")]


def _inside(x: tuple[int, int], y: tuple[int, int]) -> bool:
    return x != y and y[0] <= x[0] and x[1] <= y[1]


def phases(layout: Layout, code: Code, n: int, words: int) -> Phases:
    """Of a kernel for matrices of size n, with so many products in one of elements."""
    read = _of_registers if layout.source == "eigh_chase.cu" else _of_block
    chain = machine_code.chain(code)
    found = read(layout, code, n, words)
    return replace(found, chain=Work.of(chain, roots(chain)))


def _of_registers(layout: Layout, code: Code, n: int, words: int) -> Phases:
    """Every part of a reduction is a loop over its steps; so is every part of Q."""
    found = innermost(code)
    reductions = [x for x in found if roots(x) == 1 and count(x, "SHFL")]
    behind = found[found.index(reductions[-1]) + 1 :]
    behind = [x for x in behind if products(x) >= len(x) / 2]
    parts = len(reductions)
    steps = (n - 1) / parts
    syncs = [i for i, x in enumerate(code) if "BAR.SYNC" in x]
    arrivals = [i for i, x in enumerate(code) if "BAR.ARV" in x]
    sweep = code[max(i for i in syncs if i < arrivals[1]) : arrivals[1]]
    size = int(layout.expression.split(", ")[1])
    return Phases(
        reduction=sum((Work.of(x) * steps for x in reductions), Work()),
        q=sum((Work.of(x) * steps for x in behind[:parts]), Work()),
        applied=Work.of(sweep, size - 1),
        per_warp=layout.matrices / (layout.threads // 32 - 1),
    )


def _of_block(layout: Layout, code: Code, n: int, words: int) -> Phases:
    """The loops over rows and columns, as often as the sizes of the steps ask for."""
    rows = [x for x in innermost(code) if products(x) >= 8 and not roots(x)]
    rows = [x for x in rows if count(x, "STS") != count(x, "LDS")]
    _, y, _, update, dot, q_update, sweep = rows
    warps = layout.threads // 32 - 1
    a_pass = 8 * warps  # rows of a reduction at once: four lanes each
    reduction, q = Work(), Work()
    for m in range(1, n):
        trips = -(-m // a_pass) * -(-m // 4)
        each = Work.of(y, products(y) / words) + Work.of(update, count(update, "STS"))
        reduction += each * trips + Work(BLOCK_REDUCTION_STEP, BLOCK_REDUCTION_STEP / 4)
        each = Work.of(dot, products(dot) / words)
        each += Work.of(q_update, count(q_update, "STS"))
        q += each * (-(-m // (16 * warps)) * m / 2) + Work(BLOCK_Q_STEP, 0)
    applied = Work.of(sweep, count(sweep, "STS"))
    # Warps without a row wait.
    used = -(-n * (2 if words > 1 else 1) // 32) / warps
    return Phases(reduction, q, replace(applied, slots=applied.slots * used), 1 / warps)


def in_registers(n: int, item: int, real: int) -> tuple[Work, float]:
    """Applying a rotation where a lane has a row, and matrices of a warp."""
    slots = 3 * real / 4 + 2
    return Work(2 * ROW_LATENCY[real] + 2, slots), 32 / (n * item / real)


def today(found: Phases, layout: Layout, resident: int, rotations: float) -> float:
    """Cycles of a matrix in one kernel: one after the other, but for the applying."""
    alone = found.reduction + found.q + found.chain * rotations
    applying = found.reduction + found.q + found.applied * rotations
    slots = applying.slots / found.per_warp
    slots += found.chain.slots * rotations / layout.matrices
    return max(alone.cycles / (resident * layout.matrices), slots / PARTITIONS)


@dataclass(frozen=True)
class Sizes:
    """Of a matrix, in bytes but for its rows and its rotations."""

    n: int
    item: int
    real: int
    rotations: float

    @property
    def matrix(self) -> int:
        """All of it."""
        return self.n * self.n * self.item

    @property
    def turned(self) -> float:
        """Rotations, with t and s of each."""
        return 2 * self.real * self.rotations

    @property
    def overflow(self) -> float:
        """What T and rotations with one number each take beside the output."""
        rotations = ROOM * self.turned / 2
        return max(rotations - self.matrix, 0) + 2 * self.n * self.real

    @property
    def round(self) -> float:
        """What T and the rotations of a round take."""
        return 2 * (1 + _split_layouts.ROOM) * self.n * self.real

    @property
    def rounds(self) -> float:
        """In which a matrix has its rotations; half of a sweep has no room in each."""
        return self.rotations / (_split_layouts.ROOM - 0.5) / self.n


def launch(work: Work, at_once: float, per_warp: float, moved: float) -> float:
    """Cycles of a matrix of which so many are on a multiprocessor."""
    bounds = work.cycles / at_once, work.slots / per_warp / PARTITIONS
    return max(*bounds, moved / BYTES_A_CYCLE)


def chase(found: Phases, sizes: Sizes, moved: float, chunk: float) -> float:
    """Cycles of a matrix where as many chains run as shared memory and a chunk have."""
    shared = kernels_static.SHARED_BYTES[ARCHITECTURE]
    block = 32 * 2 * sizes.n * sizes.real + kernels_static.SHARED_RESERVED
    at_once = min(32 * (shared // block), chunk / MULTIPROCESSORS)
    chain = (found.chain + Work(0, STORES_A_ROTATION)) * sizes.rotations
    return launch(chain, at_once, 32, moved)


def split(found: Phases, sizes: Sizes, warps: int, rows: bool) -> dict[str, float]:
    """Cycles of a matrix in three launches, by where the rotations are between.

    `warps` hold matrices. With `rows` the third has a row in each lane, else what the
    kernel of today has.
    """
    n, turned = sizes.n, sizes.turned
    at_once = warps * found.per_warp
    reduced = launch(found.reduction, at_once, found.per_warp, sizes.matrix)
    formed = found.reduction + found.q
    formed_cycles = launch(formed, at_once, found.per_warp, 2 * sizes.matrix)
    applied, per_warp = found.applied, found.per_warp
    if rows:
        applied, per_warp = in_registers(n, sizes.item, sizes.real)
        at_once = ROW_WARPS * per_warp
    applied *= sizes.rotations
    applied_cycles = launch(applied, at_once, per_warp, turned + 2 * sizes.matrix)
    free = chase(found, sizes, turned, float("inf"))
    scratch = chase(found, sizes, turned, SCRATCH / (ROOM * turned))
    output = chase(found, sizes, turned / 2, SCRATCH / sizes.overflow)
    moved = turned + sizes.rounds * 4 * n * sizes.real
    in_rounds = chase(found, sizes, moved, SCRATCH / sizes.round)
    moved = turned + sizes.rounds * 2 * sizes.matrix
    in_rounds += launch(applied, at_once, per_warp, moved)
    in_rounds += 2 * sizes.matrix / BYTES_A_CYCLE  # to sort
    return {
        "reduce": formed_cycles,
        "chase": free,
        "apply": applied_cycles,
        "without_bound": formed_cycles + free + applied_cycles,
        "scratch_alone": formed_cycles + scratch + applied_cycles,
        # Q has no place before the rotations are read: matrices are reduced again.
        "output_first": reduced + output + formed_cycles + applied_cycles,
        "rounds": formed_cycles + in_rounds,
    }


def row(dtype: str, n: int) -> dict:
    """One line of the table."""
    element = np.dtype(dtype)
    item, real = element.itemsize, element.type(0).real.itemsize
    layout = choose(n, element, eigenvectors=True)
    compiled = kernels_static.compile_kernel(layout, ARCHITECTURE)
    code = machine_code.disassemble(compiled.cubin)
    resident = kernels_static.resident_blocks(layout, compiled, ARCHITECTURE)
    found = phases(layout, code, n, 4 if item > real else 1)
    rotations = _split_layouts.ROTATIONS[real] * n * n
    now = today(found, layout, resident, rotations)
    # Where registers hold matrices, the warp of the chains is one more that has some.
    block = layout.source == "eigh_block.cu"
    warps = resident * (layout.threads // 32 - block)
    three = split(found, Sizes(n, item, real, rotations), warps, rows=block)
    return {
        "dtype": dtype,
        "n": n,
        "kernel": layout.source.removesuffix(".cu"),
        "chains_per_sm": resident * layout.matrices,
        "rotations": f"{rotations:.0f}",
        "chain_cycles": f"{found.chain.cycles:.1f}",
        "reduction_alone": f"{found.reduction.cycles:.0f}",
        "q_alone": f"{found.q.cycles:.0f}",
        "today_cycles": f"{now:.0f}",
        **{f"{name}_cycles": f"{x:.0f}" for name, x in three.items()},
        "today_millions_a_second": f"{MULTIPROCESSORS * CLOCK / now / 1e6:.2f}",
        **{f"{x}_ratio": f"{now / three[x]:.2f}" for x in PLACES},
    }


def main() -> int:
    """Write the table."""
    rows = [row(dtype, n) for dtype, sizes in CASES.items() for n in sizes]
    write_table(RESULTS, (), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
