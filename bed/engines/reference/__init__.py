"""The paper's algorithm in array-namespace code, written to be read."""

from .eigh import eigh
from .stats import EighStats

__all__ = ["EighStats", "eigh"]
