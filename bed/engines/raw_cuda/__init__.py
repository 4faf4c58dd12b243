"""The fused CUDA engine: one kernel launch per batch, no workspace, no host waiting."""

from .eigh import eigh

__all__ = ["eigh"]
