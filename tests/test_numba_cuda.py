"""The Numba-CUDA engine without a GPU: its kernels compile, and run in a simulator."""

import contextlib
import os
import re
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import emulated
from bed import engines
from bed._functions import Function, Spectral
from bed.testing.matrices import DTYPES, random_hermitian

ROOT = Path(__file__).parents[1]
SIMULATED = sorted((Path(__file__).parent / "cuda_simulator").glob("test_*.py"))
CAPABILITY = (9, 0)
MAX_N = {e.name: e.max_n for e in engines.engines()}["numba_cuda"]

needs_numba_cuda = pytest.mark.skipif(
    find_spec("numba_cuda") is None,
    reason="needs numba-cuda: pip install 'numba-cuda[cu13]'",
)


@pytest.mark.slow
@needs_numba_cuda
@pytest.mark.parametrize("path", SIMULATED, ids=lambda path: path.stem)
def test_in_the_simulator(path, request):
    """Numba is told at its import, so that the simulator needs its own process."""
    options = ["-q", "-p", "no:cacheprovider"]
    if request.config.getoption("draw"):
        options += ["-m", "not slow"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(path)],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_there_is_something_to_simulate():
    found = {path.stem for path in SIMULATED}
    assert found == {"test_contract", "test_functions", "test_stages", "test_zoo"}


@pytest.fixture
def launchers(monkeypatch):
    """The launchers, with NumPy in CuPy's place; `launches` of it lists what is run."""
    if find_spec("numba_cuda") is None:
        pytest.skip("needs numba-cuda: pip install 'numba-cuda[cu13]'")
    module = emulated.engine_module("eigh", "numba_cuda")
    functions = emulated.engine_module("spectral", "numba_cuda")
    gradients = emulated.engine_module("spectral_vjp", "numba_cuda")
    launches = []
    monkeypatch.setattr(module._launch, "launch", lambda *x: launches.append(x))
    monkeypatch.setattr(module._launch, "on_device", contextlib.nullcontext)
    stand_in = types.SimpleNamespace(empty=np.empty, zeros=np.zeros)
    for each in (module, functions, gradients):
        monkeypatch.setattr(each, "cupy", stand_in)
    monkeypatch.setattr(module, "functions", functions, raising=False)
    monkeypatch.setattr(module, "gradients", gradients, raising=False)
    monkeypatch.setattr(module, "launches", launches, raising=False)
    return module


@pytest.fixture
def compile_launches(launchers, monkeypatch):
    """A function that compiles kernels for a GPU that need not be there."""
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="needs cuda-pathfinder")
    for library in ("nvvm", "nvrtc", "nvJitLink"):
        try:
            pathfinder.load_nvidia_dynamic_lib(library)
        except pathfinder.DynamicLibNotFoundError:
            pytest.skip(f"{library} is missing: pip install 'numba-cuda[cu13]'")
    from numba import cuda
    from numba.cuda import dispatcher
    from numba.cuda.typing.typeof import typeof

    # For functions that kernels call, Numba asks for the capability of a device.
    device = types.SimpleNamespace(compute_capability=CAPABILITY)
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)

    def compile_launches(launches):
        """The assembly for each kind of arguments."""
        kinds = {
            (kernel, tuple(typeof(x) for x in arguments))
            for kernel, _, _, _, *arguments in launches
        }
        return [
            cuda.compile_ptx(kernel.py_func, signature, cc=CAPABILITY)[0]
            for kernel, signature in kinds
        ]

    return compile_launches


def spilled_bytes(ptx):
    """What the assembler spills, with as many registers as a launch has."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    from bed.engines.numba_cuda._compile import MAX_REGISTERS

    options = LinkerOptions(
        arch="sm_{}{}".format(*CAPABILITY),
        max_register_count=MAX_REGISTERS,
        ptxas_options=["-v"],
    )
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    linker.link("cubin")
    used = re.findall(r"Used (\d+) registers", linker.get_info_log())
    assert max(map(int, used)) <= MAX_REGISTERS
    spills = re.findall(r"(\d+) bytes spill", linker.get_info_log())
    assert spills
    return sum(map(int, spills))


@pytest.mark.sweep(8)
@pytest.mark.parametrize("kernel", ["tridiagonalize", "back_transform", "qr_iteration"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_compile(launchers, compile_launches, rng, dtype, kernel):
    """With the arguments that they are launched with, of every memory order."""
    a = random_hermitian(rng, (3, 6, 6), dtype)
    for order in (a, a.swapaxes(1, 2), a[:, ::2, ::2]):
        launchers.eigh(order)
    launchers.eigh(a, "U", eigenvectors=False)
    launchers.tridiagonalize(a)
    if a.dtype.kind == "f":
        launchers.eigh_tridiagonal(a[:, 0], a[:, 0, 1:])
    chosen = [x for x in launchers.launches if x[0].py_func.__name__ == kernel]
    assert len(chosen) >= 4
    for ptx in compile_launches(chosen):
        assert ".entry" in ptx
        if a.dtype.char in "fF":
            assert ".f64" not in ptx, "single precision is widened"
        held = re.findall(r"\.shared \.align \d+ \.b8 \S+\[(\d+)\]", ptx)
        reserved = launchers._launch.RESERVED_ELEMENTS * a.itemsize
        assert 0 < sum(map(int, held)) <= reserved
        assert spilled_bytes(ptx) == 0


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_of_functions_compile(launchers, compile_launches, rng, dtype):
    """With the arguments that they are launched with, in single precision as well."""
    a = random_hermitian(rng, (3, 6, 6), dtype)
    w, function = a[:, 0].real.copy(), Spectral(Function.POWER, 0.5)
    launchers.functions.spectral(a, "L", function)
    launchers.gradients.spectral_vjp(w, a, a, function)
    launchers.gradients.spectral_vjp(w, a, a, function, a.real.copy())
    for by_w, by_v in ((w, a), (None, a), (w, None)):
        launchers.gradients.eigh_vjp(w, a, by_w, by_v)
    stages = ("tridiagonalize", "back_transform", "qr_iteration")
    chosen = [x for x in launchers.launches if x[0].py_func.__name__ not in stages]
    assert len({x[0] for x in chosen}) == 7
    for ptx in compile_launches(chosen):
        assert ".entry" in ptx
        if a.dtype.char in "fF":
            assert ".f64" not in ptx, "single precision is widened"
        # Where it calls the library, a few words.
        assert spilled_bytes(ptx) <= (64 if dtype == "c16" else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_launches_are_within_the_limits_of_every_device(launchers, dtype):
    limit = launchers._launch.SHARED_BYTES
    reserved = launchers._launch.RESERVED_ELEMENTS * np.dtype(dtype).itemsize
    for n in range(1, MAX_N + 1):
        a = np.empty((1, n, n), dtype)
        launchers.eigh(a)
        launchers.eigh(a, eigenvectors=False)
    sizes = set()
    for _, blocks, threads, shared, *_ in launchers.launches:
        assert threads[0] * threads[1] <= 256
        assert blocks >= 128
        assert shared == 0 or shared + reserved <= limit
        sizes.add(shared)
    assert {0} < sizes


def test_scratch_does_not_grow_with_the_batch(launchers):
    """Without eigenvectors a matrix is worked on in memory of its block."""
    a = np.broadcast_to(np.zeros((), "c16"), (5000, 100, 100))
    launchers.eigh(a, eigenvectors=False)
    reduce = launchers.launches[0]
    blocks, h = reduce[1], reduce[6]
    assert h.shape == (blocks, 100 * 100)
    assert blocks == launchers._launch.SCRATCH_BLOCKS
