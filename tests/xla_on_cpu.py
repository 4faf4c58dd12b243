"""XLA on the CPU in the place of XLA on a GPU, for tests of what is compiled for CUDA.

XLA's threads flush subnormal numbers on the CPU, so that results are to be judged by
accuracy and not by bits.
"""

from contextlib import contextmanager

import jax
import pytest
from jax.interpreters import mlir

from bed import engines
from bed.autograd.jax import eigh as rules
from bed.autograd.jax.xla import eigh as xla_eigh
from bed.engines import _threads


@contextmanager
def compiled_by(rule):
    """What is compiled for the CPU inside is lowered by another rule."""
    with pytest.MonkeyPatch.context() as patch:
        # Threads that XLA's threads start flush subnormal numbers too: not for others.
        patch.setattr(_threads, "_pool", None)
        patch.setattr(_threads, "_pool_threads", 0)
        jax.clear_caches()
        mlir.register_lowering(rules._solve_p, rule, platform="cpu")
        try:
            yield
        finally:
            jax.clear_caches()
            mlir.register_lowering(rules._solve_p, rules._call_back, platform="cpu")


@contextmanager
def in_place():
    """What is compiled for the CPU inside calls the handler."""
    assert xla_eigh.problem("cpu") is None
    with compiled_by(lower_for_host):
        yield


def lower_for_host(context, operand, **options):
    """The lowering rule for CUDA, for host memory."""
    return xla_eigh.lower(context, operand, device="cpu", **options)


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
