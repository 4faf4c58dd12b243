#!/usr/bin/env python
"""Compile every CUDA kernel of bed without a GPU, and write down what came out.

Needs NVRTC, and for the instruction counts cuobjdump and nvdisasm: pip install
nvidia-cuda-nvrtc nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm. Writes
scripts/results/kernels_static.csv, so that a change of the kernels shows as a diff:
registers, spills, shared memory, the blocks of a multiprocessor that these allow, the
warp instructions of a step of a QR sweep, one rotation of all matrices of a warp, with
the modelled cycles where one warp finds all rotations (machine_code.py), and those that
load and store an element.
"""

import csv
import ctypes
import re
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import machine_code
import numpy as np
from machine_code import Code

from bed._console import ArgumentParser, show
from bed.engines.raw_cuda import _layouts, _spectral_layouts, _split_layouts
from bed.engines.raw_cuda._layouts import Layout
from bed.engines.raw_cuda._module import OPTIONS, source

# Those that the kernels were designed for come first.
ARCHITECTURES = ("sm_80", "sm_90", "sm_75", "sm_86", "sm_89", "sm_100", "sm_120")
MODELLED = ARCHITECTURES[:2]
DTYPES = ("float32", "float64", "complex64", "complex128")
TABLES = _layouts, _split_layouts, _spectral_layouts
NAN = float("nan")
RESULTS = Path(__file__).parent / "results" / "kernels_static.csv"

# What CuPy's compiler adds to the package's own options, besides the architecture, and
# what its kernels from sources get besides.
CUPYS_OPTIONS = ("--device-as-default-execution-space",)
FLUSH = "-ftz=true"

# Of a multiprocessor of all of them: four partitions of 16384 registers, given out in
# units of 8 a thread.
REGISTERS_OF_PARTITION, REGISTER_UNIT, PARTITIONS = 16384, 8, 4
# Shared memory that all blocks together may have, in KiB, and their warps: CUDA
# Programming Guide, "Technical Specifications per Compute Capability".
SHARED_KIB = {75: 64, 80: 164, 86: 100, 89: 100, 90: 228, 100: 228, 120: 100}
SHARED_BYTES = {f"sm_{key}": 1024 * kib for key, kib in SHARED_KIB.items()}
SHARED_RESERVED = 1024  # bytes of every block, from sm_80 on
WARPS = {75: 32, 80: 64, 86: 48, 89: 48, 90: 64, 100: 64, 120: 48}
MAX_WARPS = {f"sm_{key}": warps for key, warps in WARPS.items()}


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of one kernel."""

    registers: int
    spill_bytes: int
    seconds: float
    cubin: bytes


class CompileError(Exception):
    """The message is the compiler's log."""


@cache
def compilers() -> dict[tuple[int, int], ctypes.CDLL]:
    """By version, the oldest first: NVRTC from PyPI packages and a CUDA toolkit."""
    places = [Path(sysconfig.get_path("purelib")) / "nvidia", Path("/usr/local/cuda")]
    found = {}
    for place in places:
        for path in sorted(place.rglob("libnvrtc.so.*")):
            library = ctypes.CDLL(str(path))
            major, minor = ctypes.c_int(), ctypes.c_int()
            library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
            found.setdefault((major.value, minor.value), library)
    return dict(sorted(found.items()))


def compile_kernel(layout: Layout, architecture: str, version=None) -> Compiled:
    """Compile with the flags that CuPy and the package use.

    With a version of `compilers`, by default the newest.

    Raises
    ------
    CompileError
        With the compiler's log.
    """
    library, program = compilers()[version or max(compilers())], ctypes.c_void_p()
    code = source(layout.source).encode()
    name = layout.source.encode()
    library.nvrtcCreateProgram(ctypes.byref(program), code, name, 0, None, None)
    library.nvrtcAddNameExpression(program, layout.expression.encode())
    flags = CUPYS_OPTIONS if layout.exact else (*CUPYS_OPTIONS, FLUSH)
    options = [*OPTIONS, *flags, f"-arch={architecture}", "--ptxas-options=-v"]
    array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    start = time.perf_counter()
    # In a thread of its own: that of 12.4 leaves another locale to the thread it runs
    # in, where Python would read files as ASCII.
    with ThreadPoolExecutor(1) as alone:
        compiling = library.nvrtcCompileProgram, program, len(options), array
        failed = alone.submit(*compiling).result()
    seconds = time.perf_counter() - start
    log = _fetch(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
    text = log.decode()
    if failed:
        raise CompileError(f"{layout.expression} for {architecture}:\n{text}")
    cubin = _fetch(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(
        registers=int(re.search(r"Used (\d+) registers", text)[1]),
        spill_bytes=int(re.search(r"(\d+) bytes spill stores", text)[1]),
        seconds=seconds,
        cubin=cubin,
    )


def _fetch(get_size, get, program) -> bytes:
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    get(program, buffer)
    return buffer.raw


def instantiations(dtype: np.dtype) -> list[Layout]:
    """Every kernel of a dtype."""
    return [x for module in TABLES for x in module.instantiations(dtype)]


def resident_blocks(layout: Layout, compiled: Compiled, architecture: str) -> int:
    """Blocks of a multiprocessor that registers and shared memory allow."""
    warps = layout.threads // 32
    registers = -(-compiled.registers // REGISTER_UNIT) * REGISTER_UNIT
    per_partition = REGISTERS_OF_PARTITION // (32 * registers)
    by_registers = per_partition * PARTITIONS // warps
    reserved = 0 if architecture == "sm_75" else SHARED_RESERVED
    by_shared = SHARED_BYTES[architecture] // (layout.shared + reserved)
    return min(by_registers, by_shared, MAX_WARPS[architecture] // warps)


@dataclass(frozen=True)
class Steps:
    """Warp instructions of one rotation, and modelled cycles; NaN where none is."""

    applying: float = NAN
    finding: float = NAN
    cycles: float = NAN  # of the chain


def sweep_steps(layout: Layout, code: Code) -> Steps:
    """What a rotation takes.

    Applying: of the chase kernels, what lies between the barriers around a slot of
    rotations, divided by the rotations in it. Finding: of the loop with the reciprocal
    square root, where the compiler left one. In the group kernel both are one loop.
    """
    kernel, n = re.match(r"bed::(\w+)<\S+ (\d+)", layout.expression).groups()
    rotations = int(n) - 1
    if not code or not rotations:
        return Steps()
    if kernel == "eigh_group":
        # The last roots are those of the unrolled sweep.
        roots = [i for i, x in enumerate(code) if "MUFU.RSQ" in x]
        sweep = roots[-rotations:]
        return Steps(finding=(sweep[-1] - sweep[0]) / max(1, len(sweep) - 1))
    if kernel not in ("eigh_chase", "eigh_values", "eigh_block", "split_chase"):
        return Steps()
    loop = machine_code.chain(code)
    finding = len(loop) / machine_code.roots(loop)
    cycles = machine_code.cycles_per_root(loop)
    if kernel != "eigh_chase":
        return Steps(NAN, finding, cycles)
    # The applying warps come first: ready, then a full and a free barrier a sweep.
    syncs = [i for i, x in enumerate(code) if "BAR.SYNC" in x]
    arrivals = [i for i, x in enumerate(code) if "BAR.ARV" in x]
    full = max(i for i in syncs if i < arrivals[1])
    return Steps((arrivals[1] - full) / rotations, finding, cycles)


def moves(code: Code, item: int) -> tuple[float, float]:
    """Instructions to load and to store an element of `item` bytes, 32 lanes at once.

    Of the shortest loops that do so: those of matrices one behind the other. NaN where
    there is no loop; an eigenvalue is ranked before it is stored.
    """
    found = []
    for access in ("LDG", "STG"):
        elements = partial(machine_code.elements, access=access, item=item)
        loop = machine_code.shortest_loop(code, elements)
        found.append(len(loop) / elements(loop) if loop else NAN)
    return tuple(found)


def row(layout: Layout, dtype: str, architecture: str) -> dict:
    """One line of the table."""
    compiled = compile_kernel(layout, architecture)
    code = machine_code.disassemble(compiled.cubin)
    steps = sweep_steps(layout, code)
    loaded, stored = moves(code, np.dtype(dtype).itemsize)
    return {
        "kernel": layout.expression.replace("bed::", ""),
        "dtype": dtype,
        "arch": architecture,
        "registers": compiled.registers,
        "spill_bytes": compiled.spill_bytes,
        "shared_bytes": layout.shared,
        "threads": layout.threads,
        "matrices": layout.matrices,
        "blocks_per_sm": resident_blocks(layout, compiled, architecture),
        "apply_step": _written(steps.applying),
        "chain_step": _written(steps.finding),
        "chain_cycles": _written(steps.cycles if architecture in MODELLED else NAN),
        "load_element": _written(loaded),
        "store_element": _written(stored),
        "nvrtc": "{}.{}".format(*max(compilers())),
    }


def _written(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.1f}"


def main(arguments: list[str] | None = None) -> int:
    """Write the table; `--smoke` compiles one kernel of each kind and prints it."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    if not compilers():
        show("NVRTC is not installed: pip install nvidia-cuda-nvrtc", file=sys.stderr)
        return 1
    jobs = [
        (layout, dtype, architecture)
        for architecture in ARCHITECTURES
        for dtype in DTYPES
        for layout in instantiations(np.dtype(dtype))
    ]
    if options.smoke:
        first = {job[0].source: job for job in reversed(jobs)}
        jobs = list(first.values())
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(lambda job: row(*job), jobs))
    out = sys.stdout if options.smoke else options.out.open("w", newline="")
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
