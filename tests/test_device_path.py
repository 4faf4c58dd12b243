"""Tests of GPUs run on a device: on the stand-in, where there is none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cuda_emulator
from bed._config import no_gpu
from drivers import Driver, fetch, put
from interpreter import run_python

TESTS = Path(__file__).parent
QUIET = ("-q", "-p", "no:cacheprovider")
# One kernel of each kind: a thread, lanes, a block for each matrix.
KERNELS = ("4-f4", "9-c16", "36-f4")


def pytest_on_the_stand_in(*words, kernels="", change=""):
    """Counts of outcomes and the output of a run in a process of its own."""
    code = f"import cuda_stand_in\ncuda_stand_in.install()\n{change}\n"
    code += "import pytest, sys\nsys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *QUIET, "-m", "gpu", *words],
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "BED_STAND_IN_KERNELS": kernels,
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    last = done.stdout.strip().splitlines()[-1]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", last)}
    return counts, done.stdout + done.stderr


@pytest.mark.skipif(
    cuda_emulator.missing() is not None,
    reason=f"the CUDA emulator {cuda_emulator.missing()}",
)
def test_the_zoo_through_the_kernels():
    """Arrays of the stand-in, bed's launches, the kernels themselves."""
    names = [f"tests/test_engines.py::test_zoo[raw_cuda-{each}]" for each in KERNELS]
    counts, output = pytest_on_the_stand_in(*names, kernels="emulated")
    assert counts == {"passed": len(KERNELS)}, output


@pytest.mark.slow
@pytest.mark.skipif(
    cuda_emulator.missing() is not None,
    reason=f"the CUDA emulator {cuda_emulator.missing()}",
)
def test_functions_of_matrices_through_the_kernels():
    names = "float32_that_is or (gradients and (3-f4 or 5-c16)) or (bits and 6-f8)"
    words = "tests/gpu/test_functions.py", "-k", names
    counts, output = pytest_on_the_stand_in(*words)
    assert counts.keys() <= {"passed", "deselected"}, output
    assert counts["passed"] >= 6, output


WRONG = """
from bed.engines import numba_cpu
right = numba_cpu.eigh

def wrong(a, *arguments, **options):
    w, v, status = right(a, *arguments, **options)
    w[-1] += 1
    return w, v, status

numba_cpu.eigh = wrong
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("change", ["", WRONG], ids=["right", "wrong"])
def test_every_engine_of_the_device_is_tested(change):
    words = ("tests/test_eigh.py", "tests/test_engines.py", "-k")
    names = "(batched_equals or bad_matrices or any_strides or fills) and not reference"
    counts, output = pytest_on_the_stand_in(*words, names, change=change)
    if change:
        assert counts["failed"] > 40, output
    else:
        assert counts.keys() <= {"passed", "skipped", "deselected"}, output
        assert counts["passed"] > 100 > counts["skipped"]


@pytest.mark.skipif(no_gpu() is None, reason="there is a GPU")
def test_without_a_device_it_is_said_what_is_missing():
    test = "tests/test_eigh.py::test_one_by_one"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, "-rs", "-m", "gpu", test],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 skipped" in done.stdout
    assert "needs a GPU: " in done.stdout


def test_host_arrays_stay_where_they_are(rng):
    a = rng.standard_normal((2, 3, 3))
    assert put(a, Driver("numba_cpu")) is a
    assert fetch((a, None)) == (a, None)
    assert isinstance(fetch(np.linalg.eigh(a)), type(np.linalg.eigh(a)))


STRIDES = """
import cuda_stand_in
cuda_stand_in.install()
import cupy, numpy as np
from drivers import Driver, fetch, put
from interpreter import run_python

x = np.arange(240.0).reshape(4, 6, 10)
views = x[::-1, ::2, 1::3], x.T, np.broadcast_to(x[:1], x.shape), x[:0], x[2, 3, 4:5]
for view in (*views, x.astype(">f4"), np.frombuffer(b"0" + x.tobytes(), "f8", 9, 1)):
    there = put(view, Driver("raw_cuda", "cuda"))
    assert isinstance(there, cupy.ndarray) and there.dtype.isnative
    np.testing.assert_array_equal(fetch(there), view)
    print(not view.dtype.isnative or there.strides == view.strides)
"""


def test_arrays_on_a_device_have_the_strides_of_the_host():
    assert run_python(STRIDES).split() == ["True"] * 7
