"""Fixtures: fresh seeds, and every engine that runs here."""

import gc
import os
import random
import secrets
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import bed
import emulated
from bed._config import no_gpu
from bed.engines import register
from drivers import parameters

# In the environment, so that the processes of a parallel run share it.
SEED = int(os.environ.setdefault("BED_TEST_SEED", str(secrets.randbits(32))))
GPU_TESTS = Path(__file__).parent / "gpu"

register(emulated.ENGINE)

# Where nearly every test compiles a program of its own, which takes most of its time:
# all of these tests but one in so many are slow, as of a sweep.
COMPILING = {
    "test_autograd_jax": 7,
    "test_cases_gradients": 5,
    "test_extremal_gradients": 5,
    "test_funm_jax": 7,
    "test_generalized_gradients": 3,
    "test_generalized_jax": 3,
    "test_gradient_options": 6,
    "test_jax_modes": 6,
    "test_jax_programs": 3,
    "test_matfun_derivatives": 6,
    "test_matfun_jax": 7,
    "test_vjp": 6,
}

# Of what is slow there, one in so many is in a run with --draw.
COMPILING_SHARE = 3

# Where solvers besides `eigh` are tested, each of which takes the CPU engine seconds to
# compile for a dtype: the everyday run has a real and a complex one, up to the seed.
OF_TWO_DTYPES = {
    "test_alone",
    "test_extremal",
    "test_functions_contract",
    "test_functions_failures",
    "test_generalized",
    "test_numba_stages",
    "test_stages",
}
LEFT_OUT = [{"f4", "c16"}, {"f8", "c8"}][SEED % 2]

# Of what the emulator runs, the everyday run has a third as many cases as of the rest,
# and of a file one in so many where a test has one case for each engine.
EMULATED_STEP = 3

# Engines that take seconds here for large matrices, and the size from which on all but
# one are left to a run of everything.
SLOW_ENGINES = {"reference", emulated.ENGINE.name}
LARGE, ONE_LARGE = 24, 33


def pytest_addoption(parser):
    parser.addoption(
        "--draw",
        action="store_true",
        help="of slow cases marked `share` run a part only, which is up to the seed",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()  # nothing of what is imported and collected is garbage
    try:
        return (yield)
    finally:
        gc.freeze()  # so that later passes over all objects leave these out
        gc.enable()


def pytest_collection_modifyitems(config, items):
    # The simulator takes minutes in one test: first, so that nothing waits for it last.
    items.sort(key=lambda item: "test_in_the_simulator" not in item.name)
    reason = no_gpu()
    sweeps = defaultdict(list)
    for item in items:
        options = item.callspec.params if hasattr(item, "callspec") else {}
        engines = {str(options[name]) for name in options if name.endswith("driver")}
        n = options.get("n")
        large = isinstance(n, int) and n >= LARGE and n != ONE_LARGE
        other_dtype = str(options.get("dtype")) in LEFT_OUT
        if (large and engines & SLOW_ENGINES) or (
            other_dtype and item.path.stem in OF_TWO_DTYPES
        ):
            item.add_marker("slow")
        if item.path.parent == GPU_TESTS:
            item.add_marker("gpu")
        if reason and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif not item.get_closest_marker("slow"):
            is_emulated = emulated.ENGINE.name in engines
            of, step = item.path if is_emulated else item.function, 1
            if sweep := item.get_closest_marker("sweep"):
                of, step = item.function, sweep.args[0]
            elif item.path.stem in COMPILING:
                of, step = item.path, COMPILING[item.path.stem]
            step *= EMULATED_STEP if is_emulated else 1
            sweeps[of, is_emulated, step].append(item)
    for (*_, step), cases in sweeps.items():
        for item in _all_but_one_in(step, cases):
            item.add_marker("slow")
    if config.getoption("draw"):
        _draw(config, items)


def _draw(config, items):
    """Deselect slow cases that are marked `share`, but for one in so many."""
    shared = defaultdict(list)
    for item in items:
        share = item.get_closest_marker("share")
        if not item.get_closest_marker("slow"):
            continue
        if share:
            shared[item.function, share.args[0]].append(item)
        elif item.path.stem in COMPILING:
            shared[item.path, COMPILING_SHARE].append(item)
    left = {
        x for (_, step), cases in shared.items() for x in _all_but_one_in(step, cases)
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def _all_but_one_in(step, cases):
    """What is left of cases if one in so many is drawn, by the seed."""
    chosen = random.Random(f"{SEED} {cases[0].nodeid}")
    return chosen.sample(cases, len(cases) - -(-len(cases) // step))


def pytest_report_header():
    return f"seed: BED_TEST_SEED={SEED}"


@pytest.fixture
def rng(request):
    """Random numbers, different in every run and for every test.

    The header of a run shows the seed; setting it in the environment repeats the run.
    """
    return np.random.default_rng([SEED, *request.node.nodeid.encode()])


@pytest.fixture(params=[*parameters("cpu"), *parameters("cuda")])
def driver(request):
    """Every engine, on every device: a name that knows its `device`.

    `drivers.eigh` and `drivers.eigvalsh` solve host arrays with it.
    """
    return request.param


@pytest.fixture(params=[*parameters("cpu", True), *parameters("cuda", True)])
def steady_driver(request):
    """The same, without the engines whose bits depend on the batch."""
    return request.param


@pytest.fixture(params=parameters("cpu"))
def host_driver(request):
    """Every engine that solves host arrays, where only they can be tested."""
    return request.param


@pytest.fixture(params=parameters("cpu", True))
def steady_host_driver(request):
    """The same, without the engines whose bits depend on the batch."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Compile once, so that no single test is charged for it.

    Each worker of a parallel run begins with other dtypes than its neighbour, and reads
    from disk what that one has compiled.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    dtypes = ["f4", "c16", "f8", "c8"]  # two and two take about as long
    first = (2 * worker + worker // 2) % len(dtypes)
    for dtype in dtypes[first:] + dtypes[:first]:
        bed.warmup(dtype=dtype)  # one by one, so that no other process is started


@pytest.fixture(scope="module", autouse=True)
def _programs_are_dropped():
    """A process may map memory so many times only, and JAX does for every program."""
    yield
    if jax := sys.modules.get("jax"):
        jax.clear_caches()


@pytest.fixture
def steady_process(monkeypatch):
    """Threads and random states of torch are left as they were."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    before = torch.get_num_threads(), torch.random.get_rng_state()
    yield
    torch.set_num_threads(before[0])
    torch.random.set_rng_state(before[1])
