"""Eigen's solver in C++, compiled at run time where headers and a compiler are."""

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

SOURCE = Path(__file__).with_name("eigen.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-DNDEBUG")
# Largest n that Eigen knows when it is compiled. Above, that makes it no faster.
FIXED = 16
_SCALARS = {
    "float32": "float",
    "float64": "double",
    "complex64": "std::complex<float>",
    "complex128": "std::complex<double>",
}


class Solvers(NamedTuple):
    """Compiled solvers, by dtype and n, and what they were compiled from and with."""

    found: dict[tuple[str, int], Callable]
    version: str


def compiled(
    dtypes: Iterable[str], sizes: Iterable[int], given: Path | None = None
) -> Solvers:
    """Solvers for all these dtypes and n.

    Raises
    ------
    ImportError
        Says what is missing, or what the compiler finds wrong.
    ValueError
        There are no headers in the folder `given`.
    """
    headers, compiler = find_headers(given), find_compiler()
    cells = {(dtype, n): (dtype, _known(n)) for dtype in dtypes for n in sizes}
    with (
        # What is loaded stays so without its file, but not everywhere may that go.
        TemporaryDirectory(prefix="bed-eigen-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):

        def library(cell: tuple[str, int]) -> ctypes.CDLL:
            return _library(*cell, [*compiler, f"-I{headers}"], Path(folder))

        different = list(dict.fromkeys(cells.values()))
        libraries = dict(zip(different, pool.map(library, different), strict=True))
    found = {
        (dtype, n): _solver(libraries[cell], np.dtype(dtype))
        for (dtype, n), cell in cells.items()
    }
    parts = [str(next(iter(libraries.values())).version(i)) for i in range(3)]
    flags = " ".join(FLAGS[1:])
    return Solvers(found, f"{'.'.join(parts)} ({_version(compiler)} {flags})")


def _known(n: int) -> int:
    """What Eigen is told of n when it is compiled: -1, its Dynamic, is nothing."""
    return n if n <= FIXED else -1


def find_headers(given: Path | None = None) -> Path:
    """The folder with Eigen's headers: this one, or the first that has any."""
    if given is not None:
        if not _has_headers(given):
            raise ValueError(f"no Eigen/Eigenvalues in {given}")
        return given
    for place in _places():
        if _has_headers(place):
            return place
    raise ImportError(
        "its headers are not here (pip install cmeel-eigen, or --eigen FOLDER)"
    )


def _has_headers(folder: Path) -> bool:
    return (folder / "Eigen" / "Eigenvalues").is_file()


def _places() -> Iterator[Path]:
    if chosen := os.environ.get("EIGEN_INCLUDE"):
        yield Path(chosen)
    yield Path(sysconfig.get_path("purelib"), "cmeel.prefix", "include", "eigen3")
    for prefix in (os.environ.get("CONDA_PREFIX"), sys.prefix, "/usr", "/usr/local"):
        if prefix:
            yield Path(prefix, "include", "eigen3")
    if tool := shutil.which("pkg-config"):
        command = [tool, "--cflags-only-I", "eigen3"]
        flags = subprocess.run(command, capture_output=True, text=True).stdout
        yield from (Path(flag[2:]) for flag in shlex.split(flags))


def find_compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, or one that goes by a usual name."""
    if chosen := os.environ.get("CXX"):
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    raise ImportError("there is no C++ compiler (c++, g++, clang++ or $CXX)")


def _version(compiler: list[str]) -> str:
    command = [*compiler, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.partition("\n")[0]


def _library(dtype: str, n: int, command: list[str], folder: Path) -> ctypes.CDLL:
    path = folder / f"{dtype}_{n}.so"
    macros = [f"-DSCALAR={_SCALARS[dtype]}", f"-DSIZE={n}"]
    # -w: compilers see much in Eigen that is not ours.
    command = [*command, *FLAGS, *macros, "-w", "-shared", "-fPIC", str(SOURCE)]
    try:
        done = subprocess.run(
            [*command, "-o", str(path)], capture_output=True, text=True
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            told = lines[0] if lines else f"exit status {done.returncode}"
            raise ImportError(f"the compiler fails: {told}")
        return ctypes.CDLL(str(path))
    except OSError as error:  # the compiler, or a folder that nothing may run from
        raise ImportError(str(error)) from error


def _solver(library: ctypes.CDLL, dtype: np.dtype) -> Callable:
    """``solver(a, vectors, direct)`` returns for a batch what `numpy.linalg` does."""
    solve = library.solve
    pointer = np.ctypeslib.ndpointer
    real = dtype.type(0).real.dtype
    rows = {"flags": "C_CONTIGUOUS"}
    solve.argtypes = [
        ctypes.c_int64,
        ctypes.c_int64,
        pointer(dtype, 3, **rows),
        pointer(real, 2, **rows),
        ctypes.c_void_p,
        ctypes.c_bool,
    ]
    solve.restype = ctypes.c_int64

    def solver(a, vectors: bool, direct: bool):
        w = np.empty(a.shape[:2], real)
        v = np.empty_like(a) if vectors else None
        address = None if v is None else v.ctypes.data
        if failed := solve(*w.shape, a, w, address, direct):
            raise np.linalg.LinAlgError(f"Eigen fails on {failed} matrices")
        return w if v is None else (w, v)

    return solver
