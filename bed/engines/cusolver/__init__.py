"""cuSOLVER through CuPy: device arrays of any size."""

from .eigh import eigh

__all__ = ["eigh"]
