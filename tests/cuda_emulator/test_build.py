"""Compiling kernels: errors, the cache, several processes, the sanitizer."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import Buffer, CompileError, EmulatorError, build, load, missing
from .kernels import FOLDER

reason = missing()
pytestmark = pytest.mark.skipif(
    reason is not None, reason=f"the CUDA emulator {reason}"
)
TESTS = Path(__file__).parents[1]


def test_compile_errors_show_the_log(tmp_path):
    source = tmp_path / "wrong.cu"
    source.write_text("__global__ void wrong(float* x) {\n  *x = undeclared;\n}\n")
    with pytest.raises(CompileError, match=r"wrong\.cu:2.*undeclared"):
        load(source, "wrong")
    source.write_text("__global__ void wrong() { __shared__ float x[32]; }\n")
    with pytest.raises(CompileError, match="use_BED_DYNAMIC_SHARED"):
        load(source, "wrong")


def test_the_cache_knows_what_a_kernel_is_made_of(tmp_path, monkeypatch):
    monkeypatch.setenv("BED_EMULATOR_CACHE", str(tmp_path / "cache"))
    compiled = []
    real = build._compile
    monkeypatch.setattr(build, "_compile", lambda *a: (compiled.append(a), real(*a)))
    header, source = tmp_path / "include" / "value.cuh", tmp_path / "small.cu"
    header.parent.mkdir()
    header.write_text("constexpr int value = 1;\n")
    source.write_text(
        '#include "value.cuh"\n__global__ void small(int* x) { *x = value + MORE; }\n'
    )

    def result(more=0):
        out = Buffer(1, "i4")
        load(source, "small", [header.parent], defines={"MORE": more})(1, 1, 0, [out])
        return out.array[0], len(compiled)

    assert result() == (1, 1)
    assert result() == (1, 1)
    header.write_text("constexpr int value = 5;\n")
    assert result() == (5, 2)
    assert result(more=2) == (7, 3)
    header.write_text("constexpr int value = 1;\n")
    assert result() == (1, 3)


def test_processes_may_build_at_once(tmp_path):
    environment = os.environ | {"BED_EMULATOR_CACHE": str(tmp_path)}
    code = (
        "from cuda_emulator.kernels import compile_file; "
        "compile_file('missing_barrier.cu')['reverse_warp']"
    )
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, cwd=TESTS, env=environment) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(list(tmp_path.glob("*.so"))) == 1


def test_fibers_of_other_machines(rng):
    """The same results with the switch that every system has."""
    options = {"defines": {"BED_EMULATOR_UCONTEXT": 1}}
    kernel = load(FOLDER / "collectives.cu", "running_maximum", **options)
    x, out = rng.uniform(size=(3, 100)), Buffer((3, 100), "f8")
    kernel(3, 100, 800, [Buffer.of(x), out])
    np.testing.assert_array_equal(out.array, np.maximum.accumulate(x, axis=1))
    kernel = load(FOLDER / "faults.cu", "lane_missing", **options)
    with pytest.raises(EmulatorError, match="deadlock"):
        kernel(1, 32, 0, [])


def test_address_sanitizer():
    """Started in a process of its own, which the sanitizer ends."""
    command = [build.COMPILER, "-print-file-name=libasan.so"]
    library = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("g++ came without AddressSanitizer")
    with pytest.raises(CompileError, match="LD_PRELOAD"):
        load(FOLDER / "faults.cu", "leave_local_by_pointer", sanitize=True)
    code = """
from cuda_emulator import Buffer, load
from cuda_emulator.kernels import FOLDER
sums, leave = (
    load(FOLDER / file, kernel, sanitize=True)
    for file, kernel in [
        ("collectives.cu", "group_sums<float, 8>"),
        ("faults.cu", "leave_local_by_pointer"),
    ]
)
out = Buffer(64, "f4")
sums(1, 64, 0, [Buffer(64, "f4", fill=1), out])
assert (out.array == 8).all()
print("correct", flush=True)
leave(1, 1, 0, [out, 4])
"""
    environment = os.environ | {
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "correct\n"
    assert "stack-buffer-overflow" in done.stderr
    assert "faults.cu" in done.stderr
