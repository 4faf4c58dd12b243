"""LAPACK through NumPy: for matrices too large for the compiled CPU engine."""

from .eigh import eigh

__all__ = ["eigh"]
