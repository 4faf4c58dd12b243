"""Derivatives of the solvers in the array libraries that have them.

Each file has an `eigh` and an `eigvalsh` with the signatures of the public ones, and is
imported at the first call that needs it.
"""

from .._eigh import DIFFERENTIABLE


def _torch():
    from . import torch

    return torch


DIFFERENTIABLE["torch"] = _torch


def _jax():
    from . import jax

    return jax


DIFFERENTIABLE["jax"] = _jax
