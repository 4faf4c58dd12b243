"""What a file of matrices and files of results are to a run, whatever their format."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._dispatch.dtypes import compute_dtype
from .._dispatch.normalize import raise_unless_square

# What is read of an input to tell it from another: so many pieces of so many bytes.
SAMPLES, SAMPLE = 64, 4096


class Spec(NamedTuple):
    """Shape and dtype of a result."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Batch:
    """Matrices (..., n, n) in a file.

    Parameters
    ----------
    path, shape, dtype

    Attributes
    ----------
    leading, n, count
        The leading axes, the size of the matrices, and their number.
    unit : int
        Windows should be multiples of this.

    Raises
    ------
    ValueError
        They are no matrices, or none that bed takes.
    """

    unit = 1

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        raise_unless_square(shape)
        if dtype.hasobject:
            raise ValueError(
                f"{path} holds Python objects, as a pickle; only numbers are read"
            )
        try:
            compute_dtype(dtype)
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from error
        self.path, self.shape, self.dtype = path, shape, dtype
        self.leading, self.n = shape[:-2], shape[-1]
        self.count = math.prod(self.leading)

    def fingerprint(self) -> dict[str, Any]:
        """What tells this input from another, or from itself after a change."""
        raise NotImplementedError

    def is_unchanged(self) -> bool:
        """Whether nobody seems to have written there since it was opened."""
        raise NotImplementedError

    def read(self, start: int, stop: int) -> np.ndarray:
        """Some of the matrices, counted along all leading axes."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Raise ValueError if somebody has written there."""
        if not self.is_unchanged():
            raise ValueError(
                f"{self.path} has changed while it was read, so that results are of "
                "two inputs: give another folder"
            )

    def close(self) -> None:
        """Read no more."""


class Outputs(Protocol):
    """A file for each result; see `bed._files.npy`."""

    folder: Path
    paths: dict[str, Path]

    def prepare(self) -> None:
        """Make them; what they hold is not yet anything."""

    def open(self) -> None:
        """Open what was prepared.

        Raises
        ------
        ValueError
            A file is not there, or is another one.
        """

    def write(self, start: int, results: Mapping[str, np.ndarray]) -> None:
        """Write the results of some matrices."""

    def status(self, start: int, stop: int) -> np.ndarray:
        """Of some of the matrices, as they were written."""

    def close(self) -> None:
        """Write no more."""
