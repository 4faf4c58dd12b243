"""Tests that need a GPU, and whatever else is on it: torch and JAX.

The stand-in for CuPy takes a GPU's place here as well (`cuda_stand_in`); then torch and
JAX work on the host.
"""

import pytest

import bed


@pytest.fixture(scope="session")
def stand_in():
    """Whether there is no GPU in truth."""
    import cupy

    return cupy.__version__ == "stand-in"


@pytest.fixture(scope="session")
def torch_device(stand_in):
    """Where torch's tensors are."""
    torch = pytest.importorskip("torch", reason="needs torch")
    if not (stand_in or torch.cuda.is_available()):
        pytest.skip("torch finds no CUDA device")
    return "cpu" if stand_in else "cuda"


@pytest.fixture(scope="session")
def jax_device(stand_in):
    """Where JAX's arrays are by default."""
    jax = pytest.importorskip("jax", reason="needs JAX")
    if not (stand_in or jax.default_backend() == "gpu"):
        pytest.skip(f"JAX runs on {jax.default_backend()} alone")
    jax.config.update("jax_enable_x64", True)
    return jax.devices()[0]


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Nothing for the CPU: in place of the fixture of the tests above."""
    assert bed.__version__
