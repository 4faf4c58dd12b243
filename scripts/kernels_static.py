#!/usr/bin/env python
"""Compile every CUDA kernel of bed without a GPU, and write down what came out.

Needs NVRTC, and for the instruction counts cuobjdump and nvdisasm: pip install
nvidia-cuda-nvrtc nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm. Writes
scripts/results/kernels_static.csv, so that a change of the kernels shows as a diff:
registers, spills, shared memory, the blocks of a multiprocessor that these allow, and
the warp instructions of a step of a QR sweep, one rotation of all matrices of a warp.
"""

import csv
import ctypes
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bed._console import ArgumentParser, show
from bed.engines.raw_cuda import _layouts, _spectral_layouts
from bed.engines.raw_cuda._layouts import Layout
from bed.engines.raw_cuda._module import OPTIONS, source

ARCHITECTURES = ("sm_80", "sm_90")
DTYPES = ("float32", "float64", "complex64", "complex128")
RESULTS = Path(__file__).parent / "results" / "kernels_static.csv"

# What CuPy's compiler adds to the package's own options, besides the architecture, and
# what its kernels from sources get besides.
CUPYS_OPTIONS = ("--device-as-default-execution-space",)
FLUSH = "-ftz=true"

# Of a multiprocessor of both architectures: four partitions of 16384 registers, given
# out in units of 8 a thread, and the shared memory all blocks together may have.
REGISTERS_OF_PARTITION, REGISTER_UNIT, PARTITIONS = 16384, 8, 4
SHARED_BYTES = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}
SHARED_RESERVED = 1024  # bytes of every block
MAX_WARPS = 64


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
    return _layouts.instantiations(dtype) + _spectral_layouts.instantiations(dtype)


def resident_blocks(layout: Layout, compiled: Compiled, architecture: str) -> int:
    """Blocks of a multiprocessor that registers and shared memory allow."""
    warps = layout.threads // 32
    registers = -(-compiled.registers // REGISTER_UNIT) * REGISTER_UNIT
    per_partition = REGISTERS_OF_PARTITION // (32 * registers)
    by_registers = per_partition * PARTITIONS // warps
    by_shared = SHARED_BYTES[architecture] // (layout.shared + SHARED_RESERVED)
    return min(by_registers, by_shared, MAX_WARPS // warps)


def disassemble(cubin: bytes) -> list[str]:
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
    return re.findall(r"^\s+/\*[0-9a-f]{4,5}\*/\s+(.*?);", text, re.M)


def sweep_steps(layout: Layout, instructions: list[str]) -> tuple[float, float]:
    """Warp instructions for one rotation: applying it, and finding it.

    Applying: of the chase kernels, what lies between the barriers around a slot of
    rotations, divided by the rotations in it. Finding: of the loop with the reciprocal
    square root, where the compiler left one. In the group kernel both are one loop.
    NaN where there is no such code.
    """
    nan = float("nan")
    kernel, n = re.match(r"bed::(\w+)<\S+ (\d+)", layout.expression).groups()
    rotations = int(n) - 1
    roots = [i for i, text in enumerate(instructions) if "MUFU.RSQ" in text]
    if not instructions or not rotations:
        return nan, nan
    if kernel == "eigh_group":
        # The last roots are those of the unrolled sweep.
        sweep = roots[-rotations:]
        return nan, (sweep[-1] - sweep[0]) / max(1, len(sweep) - 1)
    if kernel != "eigh_chase":
        return nan, nan
    syncs = [i for i, t in enumerate(instructions) if "BAR.SYNC" in t]
    arrivals = [i for i, t in enumerate(instructions) if "BAR.ARV" in t]
    applying = nan
    if layout.expression.endswith("true>"):
        # The applying warps come first: ready, then a full and a free barrier a sweep.
        full = max(i for i in syncs if i < arrivals[1])
        applying = (arrivals[1] - full) / rotations
    return applying, _loop_per_root(instructions, after=roots[-1] - 200)


def _loop_per_root(instructions: list[str], after: int) -> float:
    """Length of the shortest loop around a root, divided by its roots."""
    best = float("nan")
    for i, text in enumerate(instructions):
        target = re.search(r"BRA\S*\s.*?(0x[0-9a-f]+)", text)
        if not target or i < after:
            continue
        start = int(target[1], 16) // 16  # instructions have 16 bytes
        if start >= i:
            continue
        roots = sum("MUFU.RSQ" in t for t in instructions[start : i + 1])
        if roots and not any("BAR." in t for t in instructions[start : i + 1]):
            length = (i + 1 - start) / roots
            best = length if not best <= length else best
    return best


def row(layout: Layout, dtype: str, architecture: str) -> dict:
    """One line of the table."""
    compiled = compile_kernel(layout, architecture)
    applying, finding = sweep_steps(layout, disassemble(compiled.cubin))
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
        "apply_step": "" if np.isnan(applying) else f"{applying:.1f}",
        "chain_step": "" if np.isnan(finding) else f"{finding:.1f}",
        "nvrtc": "{}.{}".format(*max(compilers())),
    }


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
