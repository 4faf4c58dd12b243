"""Every CUDA kernel compiles, for every architecture, without a GPU."""

import csv
import importlib
import locale
import re
from pathlib import Path

import numpy as np
import pytest

import emulated

ROOT = Path(__file__).parents[1]
TABLES = "_layouts", "_split_layouts", "_spectral_layouts"


@pytest.fixture(scope="module")
def static():
    """scripts/kernels_static.py, which compiles."""
    for name in (*TABLES, "_module"):  # where CuPy is missing, import without it
        emulated.engine_module(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        module = importlib.import_module("kernels_static")
    if not module.compilers():
        pytest.skip("compiling CUDA needs NVRTC: pip install nvidia-cuda-nvrtc")
    return module


def _instantiations():
    modules = [emulated.engine_module(x) for x in TABLES]
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for layout in [x for m in modules for x in m.instantiations(np.dtype(dtype))]:
            yield pytest.param(layout, dtype, id=layout.expression.replace("bed::", ""))


# Of CUDA releases, the least that is supported.
OLDEST = 12, 4

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


@pytest.fixture
def oldest(static):
    """Version of the oldest compiler that is supported."""
    version = min(static.compilers())
    if version > OLDEST:
        pytest.skip(
            "needs the oldest NVRTC: pip install nvidia-cuda-nvrtc-cu12==12.4.*"
        )
    return version


def _of_each_source():
    """Of each file and dtype one kernel, which is not its smallest."""
    found = {}
    for parameter in _instantiations():
        layout, dtype = parameter.values
        found.setdefault((layout.source, dtype), []).append(layout)
    for (source, dtype), layouts in found.items():
        layout = layouts[len(layouts) // 4]
        yield pytest.param(layout, id=f"{source} {dtype}")


@pytest.mark.sweep(12)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("layout", list(_of_each_source()))
def test_the_oldest_compiler_takes_them(static, oldest, layout, architecture):
    """With what CuPy adds to the flags; up to 12.8 none may be there twice."""
    encoding = locale.getpreferredencoding(False)
    compiled = static.compile_kernel(layout, architecture, oldest)
    assert locale.getpreferredencoding(False) == encoding
    assert compiled.registers > 0 and compiled.spill_bytes <= 32


def test_a_flag_that_is_given_twice_is_seen_by_the_oldest_compiler(
    static, oldest, monkeypatch
):
    layout = next(_of_each_source()).values[0]
    monkeypatch.setattr(static, "OPTIONS", (*static.OPTIONS, "-default-device"))
    with pytest.raises(static.CompileError, match="more than once"):
        static.compile_kernel(layout, "sm_90", oldest)


ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.sweep(5)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", ["tiny", "group", "chase", "values", "block"])
def test_shared_memory_is_the_same_for_every_architecture(
    static, monkeypatch, kernel, architecture
):
    """As the compiler for that device sees the structs."""
    layout = next(
        parameter.values[0]
        for parameter in _instantiations()
        if parameter.values[0].source == f"eigh_{kernel}.cu"
    )
    sizes = [
        (size, expected)
        for dtype in ("float32", "float64", "complex64", "complex128")
        for size, expected in emulated.shared_memory(np.dtype(dtype))
        if re.search(rf"{kernel}(Memory|_shared)<", size, re.IGNORECASE)
    ]
    assert sizes
    text = static.source(layout.source)
    lines = [f"static_assert({size} == {expected});" for size, expected in sizes]
    monkeypatch.setattr(static, "source", lambda name: "\n".join([text, *lines]))
    assert static.compile_kernel(layout, architecture).registers > 0
    lines[-1] = lines[-1].replace(" == ", " == 1 + ")
    with pytest.raises(static.CompileError, match="static assertion failed"):
        static.compile_kernel(layout, architecture)


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
        instructions = static.machine_code.disassemble(cubin)
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
    instructions = static.machine_code.disassemble(
        static.compile_kernel(layout, "sm_90").cubin
    )
    if not instructions:
        pytest.skip("disassembling needs nvidia-cuda-cuobjdump and -nvdisasm")
    steps = static.sweep_steps(layout, instructions)
    per_four = steps.applying + steps.finding * 4 / layout.matrices
    print(
        f"{steps.applying:.1f} + {steps.finding:.1f} · 4/{layout.matrices}"
        f" = {per_four:.1f}"
    )
    assert per_four <= 40


@pytest.mark.sweep(2)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype, most", [("f4", 69), ("f8", 195)])
def test_chain_is_short(static, dtype, most, architecture):
    """Modelled cycles of a rotation at n = 32: 94 and 279 before it was shortened."""
    layout = emulated.engine_module("_layouts").choose(
        32, np.dtype(dtype), eigenvectors=True
    )
    compiled = static.compile_kernel(layout, architecture)
    instructions = static.machine_code.disassemble(compiled.cubin)
    if not instructions:
        pytest.skip("disassembling needs nvidia-cuda-cuobjdump and -nvdisasm")
    assert static.sweep_steps(layout, instructions).cycles <= most


@pytest.fixture(scope="module")
def table(static):
    """scripts/results/kernels_static.csv, by kernel and architecture."""
    with static.RESULTS.open() as file:
        return {(row["kernel"], row["arch"]): row for row in csv.DictReader(file)}


def test_table_is_complete(static, table):
    assert set(static.ARCHITECTURES) == set(ARCHITECTURES)
    assert set(table) == {
        (parameter.id, architecture)
        for parameter in _instantiations()
        for architecture in ARCHITECTURES
    }


def test_every_kernel_runs_where_the_table_says(static, table):
    """One that no multiprocessor has room for is one that needs too much memory."""
    for (kernel, architecture), row in table.items():
        reserved = 0 if architecture == "sm_75" else static.SHARED_RESERVED
        most = static.SHARED_BYTES[architecture] - reserved
        fits = int(row["shared_bytes"]) <= most
        assert (int(row["blocks_per_sm"]) > 0) == fits, (kernel, architecture)
        assert fits or architecture == "sm_75", (kernel, architecture)
        assert int(row["spill_bytes"]) <= 32, (kernel, architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_table_is_what_the_compiler_says(static, table, rng, architecture):
    """Of some of the kernels, another choice in every run."""
    cases = list(_instantiations())
    for k in rng.choice(len(cases), 4, replace=False):
        (layout, dtype), row = cases[k].values, table[cases[k].id, architecture]
        found = static.row(layout, dtype, architecture)
        if found["nvrtc"] == row["nvrtc"]:
            assert {name: str(x) for name, x in found.items()} == row
        else:
            assert abs(found["registers"] - int(row["registers"])) <= 32


@pytest.mark.parametrize("dtype, n", [("float64", 32), ("complex64", 64)])
def test_model_of_three_launches_is_of_the_kernels_there_are(
    static, monkeypatch, dtype, n
):
    """scripts/results/split_model.csv, from registers and from shared memory."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    model = importlib.import_module("split_model")
    if not static.machine_code.disassemble(
        static.compile_kernel(next(_of_each_source()).values[0], "sm_90").cubin
    ):
        pytest.skip("disassembling needs nvidia-cuda-cuobjdump and -nvdisasm")
    with model.RESULTS.open() as file:
        written = {(row["dtype"], row["n"]): row for row in csv.DictReader(file)}
    expected = written[dtype, str(n)]
    assert len(written) == sum(len(sizes) for sizes in model.CASES.values())
    found = model.row(dtype, n)
    assert found["kernel"] == expected["kernel"]
    # Another compiler counts a little differently.
    cycles = [name for name in found if name.endswith(("_cycles", "_alone"))]
    assert len(cycles) == 11
    for name in cycles:
        assert float(found[name]) == pytest.approx(float(expected[name]), rel=0.1)
    for place in model.PLACES:
        ratio = float(expected["today_cycles"]) / float(expected[f"{place}_cycles"])
        assert float(expected[f"{place}_ratio"]) == pytest.approx(ratio, abs=0.01)
