"""XLA on the CPU in the place of XLA on a GPU, for tests of what is compiled for CUDA.

The handler for the host is what `jax.jit` on the CPU calls anyway. That for CUDA works
in XLA's threads, which flush subnormal numbers on the CPU: its results are to be judged
by accuracy and not by bits.
"""

from contextlib import contextmanager

import jax
import pytest
from jax.interpreters import mlir

from bed import engines
from bed.autograd.jax import eigh as rules
from bed.engines import _threads


@contextmanager
def compiled_by(rule, primitive=rules._solve_p, own=None):
    """What is compiled for the CPU inside is lowered by another rule.

    Of the solvers, or of another primitive whose `own` lowerings are put back.
    """
    own = own or rules.lowerings(rules._solve_now)
    with pytest.MonkeyPatch.context() as patch:
        # Threads that XLA's threads start flush subnormal numbers too: not for others.
        patch.setattr(_threads, "_pool", None)
        patch.setattr(_threads, "_pool_threads", 0)
        jax.clear_caches()
        mlir.register_lowering(primitive, rule, platform="cpu")
        try:
            yield
        finally:
            jax.clear_caches()
            mlir.register_lowering(primitive, dict(own)["cpu"], platform="cpu")


def engine(monkeypatch, solve, devices=("cpu",)):
    """Register a function as the engine ``temporary`` until the end of the test."""

    class Temporary(engines.Engine):
        def load(self):
            return solve

    one = Temporary("temporary", devices, "of one test")
    monkeypatch.setitem(engines._REGISTRY, "temporary", one)


@contextmanager
def x64(on=True):
    """With or without float64 in JAX."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", on)
    yield
    jax.config.update("jax_enable_x64", before)
