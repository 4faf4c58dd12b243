"""Folders of zarr: chunks, each a file that zarr replaces in one step."""

import hashlib
import itertools
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .batch import SAMPLE, SAMPLES, Batch, Spec
from .windows import boxes

_METADATA = ("zarr.json", ".zarray")


def load() -> Any:
    """The module `zarr`.

    Raises
    ------
    ImportError
        Says what to install.
    """
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "a folder of zarr needs zarr: pip install 'batched-ed[zarr]'"
        ) from error
    return zarr


class ZarrInput(Batch):
    """A batch that is an array of zarr, in a folder.

    Raises
    ------
    ValueError
        The folder is no such array, its chunks are pickles, or what they hold are no
        matrices.
    """

    def __init__(self, path: Path) -> None:
        zarr = load()
        try:
            codecs = _codecs(path)
            if "pickle" not in codecs:
                self._array = zarr.open_array(path, mode="r")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is no array of zarr: {error}") from error
        if "pickle" in codecs:
            raise ValueError(f"{path} holds pickles; only numbers are read")
        super().__init__(path, tuple(self._array.shape), np.dtype(self._array.dtype))
        self.chunks = tuple(self._array.chunks[:-2])
        if self.leading:
            self.unit = max(self.chunks[0] * math.prod(self.leading[1:]), 1)
        self._found = self._stat()

    def _stat(self) -> list[tuple[int, int]]:
        return [(x.st_size, x.st_mtime_ns) for x in map(Path.stat, _files(self.path))]

    def is_unchanged(self) -> bool:
        return self._stat() == self._found

    def fingerprint(self) -> dict[str, Any]:
        paths = list(_files(self.path))
        digest = hashlib.sha256()
        for place in sorted({len(paths) * i // SAMPLES for i in range(SAMPLES)}):
            with paths[place].open("rb") as file:
                digest.update(file.read(SAMPLE))
        return {
            "size": sum(size for size, _ in self._found),
            "modified": max(time for _, time in self._found),
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "chunks": list(self.chunks),
            "files": len(paths),
            "sample": digest.hexdigest(),
        }

    def read(self, start: int, stop: int) -> np.ndarray:
        shape = (-1, self.n, self.n)
        if not self.n:
            return np.empty((stop - start, 0, 0), self.dtype)
        try:
            parts = [
                np.asarray(self._array[box]).reshape(shape)
                for box in boxes(self.leading, start, stop)
            ]
        except (RuntimeError, ValueError, OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{self.path}: matrices {start} to {stop - 1} cannot be read: {error}"
            ) from error
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _codecs(path: Path) -> str:
    """What makes numbers of the bytes of an array, as its metadata have it."""
    texts = [path / name for name in _METADATA if (path / name).is_file()]
    found = [json.loads(text.read_text(encoding="utf-8")) for text in texts]
    keys = ("codecs", "compressor", "filters")
    return json.dumps([of_one.get(key) for of_one in found for key in keys]).lower()


def _files(path: Path) -> Iterator[Path]:
    """All files of the array, always in the same order."""
    yield from sorted(x for x in path.rglob("*") if x.is_file())


class ZarrOutputs:
    """An array for each result, in chunks like those of the input."""

    def __init__(
        self, folder: Path, specs: Mapping[str, Spec], chunks: tuple[int, ...]
    ) -> None:
        self.folder, self._specs, self._chunks = folder, specs, chunks
        self.paths = {name: folder / f"{name}.zarr" for name in specs}
        self._arrays: dict[str, Any] = {}

    def prepare(self) -> None:
        axes = len(self._chunks)
        for name, path in self.paths.items():
            shape, dtype = self._specs[name]
            chunks = (*self._chunks, *(max(size, 1) for size in shape[axes:]))
            load().create_array(
                path, shape=shape, dtype=dtype, chunks=chunks, overwrite=True
            )
            _synchronise(path / "zarr.json")

    def open(self) -> None:
        for name, path in self.paths.items():
            if not path.is_dir():
                raise ValueError(f"{path} was begun, and is gone")
            array = self._arrays[name] = load().open_array(path, mode="r+")
            if Spec(tuple(array.shape), np.dtype(array.dtype)) != self._specs[name]:
                raise ValueError(f"{path} was begun, and is another array now")

    def write(self, start: int, results: Mapping[str, np.ndarray]) -> None:
        axes = len(self._chunks)
        for name, x in results.items():
            array, taken = self._arrays[name], 0
            leading = array.shape[:axes]
            for box in boxes(leading, start, start + len(x)):
                rows = (s.stop - s.start for s in box if isinstance(s, slice))
                place = (*rows, *leading[len(box) :])
                count = math.prod(place)
                part = x[taken : taken + count].reshape((*place, *x.shape[1:]))
                if part.size:
                    array[box] = part
                    for key in _keys(array, box):
                        _synchronise(self.paths[name] / key)
                taken += count

    def status(self, start: int, stop: int) -> np.ndarray:
        array = self._arrays["status"]
        parts = [np.ravel(array[box]) for box in boxes(array.shape, start, stop)]
        return np.concatenate(parts)

    def close(self) -> None:
        """Nothing is open between calls."""


def _keys(array: Any, box: tuple) -> Iterator[str]:
    """Names of the chunks that a box of leading axes lies in."""
    bounds = [(x.start, x.stop) if isinstance(x, slice) else (x, x + 1) for x in box]
    leading = [
        range(start // size, (stop - 1) // size + 1)
        for (start, stop), size in zip(bounds, array.chunks, strict=False)
    ]
    others = map(range, array.cdata_shape[len(box) :])
    for place in itertools.product(*leading, *others):
        yield array.metadata.encode_chunk_key(place)


def _synchronise(path: Path) -> None:
    """Wait until a file is on the disk, which zarr does not; chunks may be absent."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:  # all of it is the fill value
        return
    with file:
        os.fsync(file.fileno())
