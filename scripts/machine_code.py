"""What the machine code of a kernel says of its speed: counts, a model of the chain.

A warp that runs chains has a partition of a multiprocessor almost to itself, and one
rotation waits for the one before: the time of a sweep is that of its longest chain of
dependent instructions. The model issues the instructions of the loop in order. The
compiler has written into each how many cycles the next one has to wait, and which of
six scoreboards it sets or waits for; how long these are set is in `LATENCIES`. It
leaves out other warps, bank conflicts, the instruction cache, and the first and last
rotations of a sweep, which are not in the unrolled loop.
"""

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Cycles from issue to result of what sets a scoreboard. Shared memory: 29 on A100 and
# H800 (Luo et al. 2024, arXiv:2402.13499, table of memory latencies). The rest from the
# latest table by instruction, of Volta (Jia et al. 2018, arXiv:1804.06826, table 4.1):
# MUFU 14, double precision 8. Its latencies of 4 and 5 for all else are those that the
# compiler writes into the code of sm_80 and sm_90, too. Shuffles pass through the unit
# of shared memory; that they take as long is a guess.
LATENCIES = {
    "LDS": 29,
    "SHFL": 29,
    "MUFU": 14,
    "DADD": 8,
    "DMUL": 8,
    "DFMA": 8,
    "DSETP": 8,
}
READ = 8  # until a store has read its operands: a guess, which few waits depend on
NO_SCOREBOARD = 7
PASSAGES = 8  # of a loop


@dataclass(frozen=True)
class Instruction:
    """One instruction, and what the compiler says of its timing."""

    text: str
    stall: int
    sets: int  # scoreboard of its result
    reads: int  # scoreboard of its operands
    waits: int  # a bit for each scoreboard

    def __contains__(self, word: str) -> bool:
        return word in self.text

    @property
    def opcode(self) -> str:
        """Without predicate and modifiers."""
        return re.sub(r"^@\S+\s+", "", self.text).split()[0].split(".")[0]

    @property
    def target(self) -> int | None:
        """Number of the instruction that a branch goes to; they have 16 bytes."""
        found = re.search(r"BRA\S*\s.*?(0x[0-9a-f]+)", self.text)
        return int(found[1], 16) // 16 if found else None


Code = list[Instruction]


def disassemble(cubin: bytes) -> Code:
    """The instructions of a kernel, or nothing without the tools."""
    tools = Path(sysconfig.get_path("purelib")) / "nvidia"
    cuobjdump = next(iter(sorted(tools.rglob("bin/cuobjdump"))), None)
    if cuobjdump is None and not (found := shutil.which("cuobjdump")):
        return []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [str(cuobjdump or found), "-sass", file.name],
            env={"PATH": f"{cuobjdump.parent if cuobjdump else ''}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    words = r"/\* 0x[0-9a-f]+ \*/\s+/\* 0x([0-9a-f]+) \*/"
    lines = re.findall(rf"^\s+/\*[0-9a-f]{{4,5}}\*/\s+(.*?);\s+{words}", text, re.M)
    return [_decoded(*line) for line in lines]


def _decoded(text: str, upper: str) -> Instruction:
    control = int(upper, 16) >> 41
    return Instruction(
        text,
        stall=control & 15,
        sets=control >> 5 & 7,
        reads=control >> 8 & 7,
        waits=control >> 11 & 63,
    )


def count(code: Code, word: str) -> int:
    """Instructions that have the word."""
    return sum(word in x for x in code)


def loops(code: Code) -> list[tuple[int, int]]:
    """First and last instruction of every loop."""
    return [(x.target, i) for i, x in enumerate(code) if (x.target or i) < i]


def shortest_loop(code: Code, per: Callable[[Code], float]) -> Code:
    """The loop without barriers that takes fewest instructions for each of `per`."""
    found = [code[first : last + 1] for first, last in loops(code)]
    found = [x for x in found if per(x) and not count(x, "BAR.")]
    return min(found, key=lambda x: len(x) / per(x), default=[])


def roots(code: Code) -> int:
    """Rotations found by the code."""
    return count(code, "MUFU.RSQ")


def elements(code: Code, access: str, item: int) -> float:
    """Elements of `item` bytes that accesses of global memory, LDG or STG, move."""
    found = [re.search(rf"{access}\S*", x.text) for x in code]
    return sum(_bytes(x[0], item) / item for x in found if x)


def _bytes(access: str, item: int) -> int:
    """Of a lane; half types stand for an element."""
    if ".U16" in access:
        return item
    return 16 if ".128" in access else 8 if ".64" in access else 4


def chain(code: Code) -> Code:
    """The loop of a sweep where one warp runs chains, as it usually runs."""
    loop = shortest_loop(code, roots)  # that of the reflectors is longer
    first = code.index(loop[0]) if loop else 0
    path, i = [], 0
    while i < len(loop):
        path.append(loop[i])
        target = loop[i].target
        end = i + 1 if target is None else target - first
        # Branches pass over the calls for numbers that are out of range.
        passed = loop[i + 1 : end]
        i = end if count(passed, "CALL") and not roots(passed) else i + 1
    return path


def cycles_per_root(loop: Code) -> float:
    """Cycles of a rotation in a loop that has run for a while."""
    return cycles(loop) / roots(loop)


def cycles(loop: Code) -> float:
    """Cycles of a passage of a loop that has run for a while, of a warp alone."""
    released, now, starts = [0] * (NO_SCOREBOARD + 1), 0, []
    for _ in range(PASSAGES):
        starts.append(now)
        for x in loop:
            waited = [released[i] for i in range(6) if x.waits >> i & 1]
            now = max([now, *waited])
            latency = LATENCIES.get(x.opcode, 0)
            released[x.sets] = max(released[x.sets], now + latency)
            released[x.reads] = max(released[x.reads], now + READ)
            now += max(1, x.stall)
    return (starts[-1] - starts[1]) / (PASSAGES - 2)
