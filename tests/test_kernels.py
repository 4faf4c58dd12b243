"""Every CUDA kernel compiles, for every architecture, without a GPU."""

import csv
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import emulated

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def static():
    """scripts/kernels_static.py, which compiles."""
    emulated.engine_module("_layouts")  # where CuPy is missing, import without it
    emulated.engine_module("_spectral_layouts")
    emulated.engine_module("_module")
    path = ROOT / "scripts" / "kernels_static.py"
    spec = importlib.util.spec_from_file_location("kernels_static", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels_static"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    if module.nvrtc() is None:
        pytest.skip("compiling CUDA needs NVRTC: pip install nvidia-cuda-nvrtc")
    return module


def _instantiations():
    modules = [emulated.engine_module(x) for x in ("_layouts", "_spectral_layouts")]
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for layout in [x for m in modules for x in m.instantiations(np.dtype(dtype))]:
            yield pytest.param(layout, dtype, id=layout.expression.replace("bed::", ""))


# Seconds to compile one kernel cold, up to n = 32 and above, on a machine that is not
# busy; a test shares its machine, and only a compile time out of all bounds is a fault.
SECONDS_SMALL, SECONDS_LARGE, CROWDED = 5, 15, 6


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("layout, dtype", list(_instantiations()))
def test_compiles_within_its_registers(static, layout, dtype, architecture):
    compiled = static.compile_kernel(layout, architecture)
    print(f"{layout.expression} {architecture}: {compiled.seconds:.2f} s")
    resident = static.resident_blocks(layout, compiled, architecture)
    assert resident >= 1
    # A few words may go to local memory where registers are scarcest.
    n = int(re.search(r"<\S+ (\d+)", layout.expression)[1])
    spills = dtype != "float32" or n > 48
    assert compiled.spill_bytes <= (16 if spills else 0)
    assert compiled.seconds <= (SECONDS_SMALL if n <= 32 else SECONDS_LARGE) * CROWDED


def test_flags_are_those_of_the_package(static, monkeypatch):
    layout = emulated.engine_module("_layouts").choose(
        4, np.dtype("f4"), eigenvectors=True
    )
    monkeypatch.setattr(static, "OPTIONS", ("--no-such-option",))
    with pytest.raises(static.CompileError, match="no-such-option"):
        static.compile_kernel(layout, "sm_90")


def test_functions_of_matrices_keep_subnormal_numbers(static):
    """Products of float32 do not flush them, as those of eigh do."""
    layouts = emulated.engine_module("_layouts")
    functions = emulated.engine_module("_spectral_layouts")
    for layout in (
        functions.product(20, np.dtype("f4")),
        functions.vjp(3, np.dtype("c8")),
        layouts.choose(4, np.dtype("f4"), eigenvectors=True),
    ):
        cubin = static.compile_kernel(layout, "sm_90").cubin
        instructions = static.disassemble(cubin)
        if not instructions:
            pytest.skip("disassembling needs nvidia-cuda-cuobjdump and -nvdisasm")
        # Functions of the library flush in places of their own.
        products = [x for x in instructions if "FFMA" in x]
        flushed = [x for x in products if "FFMA.FTZ" in x]
        assert (len(flushed) < 0.1 * len(products)) == layout.exact


def test_no_flag_is_one_that_cupy_adds():
    """NVRTC up to 12.8 refuses a flag that is there twice, under either name."""
    spellings = {
        "device-as-default-execution-space",
        "default-device",
        "ftz",
        "arch",
        "gpu-architecture",
    }
    for option in emulated.engine_module("_module").OPTIONS:
        assert option.lstrip("-").partition("=")[0] not in spellings


def test_compiler_names_the_true_line(static, monkeypatch):
    layout = emulated.engine_module("_layouts").choose(
        16, np.dtype("f4"), eigenvectors=True
    )
    text = static.source(layout.source)
    broken = text.replace("int rank = 0;", "int rank = nothing;")
    assert broken != text
    monkeypatch.setattr(static, "source", lambda name: broken)
    lines = (emulated.SOURCES / "store.cuh").read_text().splitlines()
    number = lines.index("  int rank = 0;") + 1
    with pytest.raises(static.CompileError, match=rf"store\.cuh\({number}\): error"):
        static.compile_kernel(layout, "sm_90")


def test_sweep_step_is_short(static):
    """At n = 32, four float32 matrices: applying a rotation, and finding it."""
    layout = emulated.engine_module("_layouts").choose(
        32, np.dtype("f4"), eigenvectors=True
    )
    instructions = static.disassemble(static.compile_kernel(layout, "sm_90").cubin)
    if not instructions:
        pytest.skip("disassembling needs nvidia-cuda-cuobjdump and -nvdisasm")
    applying, finding = static.sweep_steps(layout, instructions)
    per_four = applying + finding * 4 / layout.matrices
    print(f"{applying:.1f} + {finding:.1f} · 4/{layout.matrices} = {per_four:.1f}")
    assert per_four <= 40


def test_table_is_complete(static):
    """scripts/results/kernels_static.csv has a line for every kernel there is."""
    with static.RESULTS.open() as file:
        written = {(row["kernel"], row["arch"]) for row in csv.DictReader(file)}
    expected = {
        (parameter.id, architecture)
        for parameter in _instantiations()
        for architecture in static.ARCHITECTURES
    }
    assert written == expected
