"""Fixtures: fresh seeds, and every engine that runs here."""

import os
import secrets

import numpy as np
import pytest

import bed
import emulated
from bed.engines import engines, register

# In the environment, so that the processes of a parallel run share it.
SEED = int(os.environ.setdefault("BED_TEST_SEED", str(secrets.randbits(32))))


register(emulated.ENGINE)


def pytest_collection_modifyitems(items):
    # The simulator takes minutes in one test: first, so that nothing waits for it last.
    items.sort(key=lambda item: "test_in_the_simulator" not in item.name)


def pytest_report_header():
    return f"seed: BED_TEST_SEED={SEED}"


@pytest.fixture
def rng(request):
    """Random numbers, different in every run and for every test.

    The header of a run shows the seed; setting it in the environment repeats the run.
    """
    return np.random.default_rng([SEED, *request.node.nodeid.encode()])


def _host_engines(same_bits_only=False):
    for engine in engines():
        if "cpu" not in engine.devices or (same_bits_only and not engine.same_bits):
            continue
        reason = engine.missing()
        marks = [pytest.mark.skip(reason=f"{engine.name} {reason}")] if reason else []
        yield pytest.param(engine.name, marks=marks, id=engine.name)


@pytest.fixture(params=_host_engines())
def driver(request):
    """Name of every engine that solves host arrays."""
    return request.param


@pytest.fixture(params=_host_engines(same_bits_only=True))
def steady_driver(request):
    """The same, without the engines whose bits depend on the batch."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Compile once, so that no single test is charged for it."""
    bed.warmup()
