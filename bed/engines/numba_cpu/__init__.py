"""The compiled CPU engine: what `driver="auto"` picks for small host arrays."""

from .eigh import eigh

__all__ = ["eigh"]
