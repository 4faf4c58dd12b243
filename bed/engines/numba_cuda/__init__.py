"""The CUDA engine in Python: one kernel for each stage, in Python, by Numba."""

from .eigh import eigh, eigh_tridiagonal, tridiagonalize

__all__ = ["eigh", "eigh_tridiagonal", "tridiagonalize"]
