""".npy files: a batch that is mapped, and results that are written in place."""

import hashlib
import io
import math
import os
from collections.abc import Mapping
from errno import EINVAL, ENOSYS, EOPNOTSUPP
from pathlib import Path
from typing import Any

import numpy as np

from .batch import SAMPLE, SAMPLES, Batch, Spec
from .windows import boxes


class NpyInput(Batch):
    """A batch in a .npy file.

    Raises
    ------
    ValueError
        Says what is wrong with the file: it is none, is cut short, holds objects, or
        what are no matrices.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is no file that can be mapped")
        self._file = path.open("rb")
        try:
            shape, self._fortran, dtype = _read_header(path, self._file)
            super().__init__(path, shape, dtype)
            self._data = self._file.tell()
            self._found = self._stat()
            self._check_length()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def _check_length(self) -> None:
        promised = self._data + math.prod(self.shape) * self.dtype.itemsize
        if self._found[0] < promised:
            raise ValueError(
                f"{self.path} is truncated: its header promises {promised} bytes, and "
                f"there are {self._found[0]}"
            )

    def fingerprint(self) -> dict[str, Any]:
        size, mtime = self._found
        digest = hashlib.sha256()
        last = max(size - SAMPLE, 0)
        for position in sorted({last * i // (SAMPLES - 1) for i in range(SAMPLES)}):
            self._file.seek(position)
            digest.update(self._file.read(SAMPLE))
        return {
            "size": size,
            "modified": mtime,
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "fortran_order": self._fortran,
            "sample": digest.hexdigest(),
        }

    def is_unchanged(self) -> bool:
        return self._stat() == self._found

    def read(self, start: int, stop: int) -> np.ndarray:
        """Some of the matrices; the file is mapped as long as they live."""
        shape = (stop - start, self.n, self.n)
        if not math.prod(shape):
            return np.empty(shape, self.dtype)
        # What is cut off behind a mapping kills who reads there.
        self.check_unchanged()
        if not self._fortran:
            step = self.n * self.n * self.dtype.itemsize
            return self._mapped(shape, "C", self._data + start * step)
        a = self._mapped(self.shape, "F", self._data)
        parts = [
            a[box].reshape((-1, self.n, self.n))
            for box in boxes(self.leading, start, stop)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _mapped(self, shape, order, offset) -> np.ndarray:
        mapped = np.memmap(self._file, self.dtype, "r", offset, shape, order)
        return mapped.view(np.ndarray)


def _read_header(path: Path, file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        shape, fortran, dtype = read[np.lib.format.read_magic(file)](file)
        if min(shape, default=0) < 0:
            raise ValueError(f"a shape of {shape}")
        return shape, fortran, dtype
    except (ValueError, KeyError) as error:
        # Pickles among them; nothing in the file is run.
        raise ValueError(f"{path} is no .npy file of numbers") from error


class NpyOutputs:
    """One .npy file for each result, as long as it will be from the beginning.

    Written to by ordinary means: on a full disk a mapping would kill the process.
    """

    def __init__(self, folder: Path, specs: Mapping[str, Spec]) -> None:
        self.folder, self._specs = folder, specs
        self._headers = {name: _header(spec) for name, spec in specs.items()}
        self.paths = {name: folder / f"{name}.npy" for name in specs}
        self._files: dict[str, io.BufferedRandom] = {}

    def _length(self, name: str) -> int:
        """Bytes of a file."""
        return len(self._headers[name]) + self._specs[name].nbytes

    def prepare(self) -> None:
        for name, path in self.paths.items():
            header, length = self._headers[name], self._length(name)
            with path.open("wb") as file:
                file.write(header)
                file.flush()
                _allocate(file.fileno(), length)
                os.fsync(file.fileno())

    def open(self) -> None:
        for name, path in self.paths.items():
            header, length = self._headers[name], self._length(name)
            if not path.is_file():
                raise ValueError(f"{path} was begun, and is gone")
            file = self._files[name] = path.open("r+b")
            if file.read(len(header)) != header or path.stat().st_size != length:
                raise ValueError(f"{path} was begun, and is another file now")

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def write(self, start: int, results: Mapping[str, np.ndarray]) -> None:
        for name, x in results.items():
            file = self._files[name]
            each = x.nbytes // len(x)
            file.seek(len(self._headers[name]) + start * each)
            file.write(np.ascontiguousarray(x).data if x.size else b"")
            file.flush()
            os.fsync(file.fileno())

    def status(self, start: int, stop: int) -> np.ndarray:
        dtype, file = self._specs["status"].dtype, self._files["status"]
        file.seek(len(self._headers["status"]) + start * dtype.itemsize)
        return np.frombuffer(file.read((stop - start) * dtype.itemsize), dtype)


def _header(spec: Spec) -> bytes:
    buffer = io.BytesIO()
    description = np.lib.format.dtype_to_descr(spec.dtype)
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": description, "fortran_order": False, "shape": spec.shape}
    )
    return buffer.getvalue()


def _allocate(file: int, length: int) -> None:
    """Lengthen a file, with room on the disk where the system can promise that."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, length)
            return
        except OSError as error:
            if error.errno not in (EINVAL, ENOSYS, EOPNOTSUPP):
                raise
    os.truncate(file, length)
