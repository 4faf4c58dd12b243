"""These tests run in Numba's simulator, which needs a process of its own.

`tests/test_numba_cuda.py` starts it, and so does

    NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/cuda_simulator

Without the variable nothing is collected here.
"""

import os
import sys

import pytest

from drivers import Driver

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    import simulated
    from bed.engines import register

    register(simulated.ENGINE)
else:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def driver():
    """The one engine that is tested here, in place of all that there are."""
    return Driver(simulated.ENGINE.name)


@pytest.fixture(scope="session")
def _compiled():
    """Nothing here needs the compiled CPU engine."""


@pytest.fixture(scope="session", autouse=True)
def _switch_often():
    """Threads take turns often: waiting for a barrier is most of what they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # seconds
    yield
    sys.setswitchinterval(before)


def pytest_collection_modifyitems(items):
    # Kernels overflow where eigenvalues do, and NumPy's scalars warn of it.
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning"))
