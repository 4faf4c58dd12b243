"""Compiles kernels for the CPU with g++, and keeps what it compiled."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from .launch import Kernel
from .report import HERE

COMPILER = shutil.which("g++")
# Shared objects kept; each edit of a header makes new ones.
MAX_CACHED = 1024
SOURCE_SUFFIXES = {".cu", ".cuh", ".h", ".hpp", ".inc"}

FLAGS = (
    "-std=c++17",
    # Most kernels run for less time than more of -O2 than this would take to compile.
    "-O1",
    "-fexpensive-optimizations",  # without, nothing is contracted
    "-g1",  # lines, for messages
    "-fPIC",
    "-fsigned-char",  # as on the device, whatever the host
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=fast",  # a·b + c becomes one operation, as on the device
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",  # float4 loads of float arrays are common in device code
    "-w",
)
# Checks of what the compiler knows, free in time and so always on. checks.h reports
# what they find, and stands for the library that g++ would link.
CHECKS = ("-fsanitize=bounds,alignment,shift-exponent", "-fno-sanitize-recover=all")
SANITIZER_FLAGS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer")


def missing():
    """Why the emulator cannot run here, to follow its name, or None if it can."""
    if sys.platform != "linux":
        return "runs on Linux only"
    return None if COMPILER else "needs g++, which is not installed"


class CompileError(Exception):
    """The compiler refused a kernel; the message is its log."""


def load(source, expression, include_dirs=(), **options):
    """Compile one kernel: see `load_many`."""
    return load_many(source, [expression], include_dirs, **options)[0]


def load_many(source, expressions, include_dirs=(), *, defines=None, sanitize=False):
    """Compile kernels of one file together, or take them from the cache.

    Parameters
    ----------
    source : path
        The ``.cu`` or ``.cuh`` file.
    expressions : sequence of str
        Kernels, as ``"eigh_group<float, 16>"``.
    include_dirs : sequence of path
        Searched for included files. Any change in these folders, or in that of the
        source, makes the kernels compile anew.
    defines : dict, optional
        Macros and their values.
    sanitize : bool
        Check every access with AddressSanitizer too. This needs a process that was
        started with ``LD_PRELOAD`` set to the sanitizer's library, and ends it when the
        sanitizer finds something.

    Returns
    -------
    list of Kernel
    """
    if reason := missing():
        raise CompileError(f"the CUDA emulator {reason}")
    if sanitize and not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise CompileError(
            "start with LD_PRELOAD=$(g++ -print-file-name=libasan.so) to sanitize"
        )
    source = Path(source).resolve()
    folders = [source.parent, *(Path(folder).resolve() for folder in include_dirs)]
    text = _translation_unit(source, expressions)
    command = [COMPILER, *FLAGS, *CHECKS, *_machine_flags()]
    command += SANITIZER_FLAGS if sanitize else ()
    command += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    command += [f"-I{folder}" for folder in [HERE, HERE / "include", *folders]]
    key = _digest(text, command, folders)
    path = _cache_dir() / f"{source.stem}-{key}.so"
    link = [COMPILER, "-shared", *(["-fsanitize=address"] if sanitize else [])]
    library = _library(path, text, command, link)
    return [Kernel(library, path, i, e) for i, e in enumerate(expressions)]


def _translation_unit(source, expressions):
    entries = "\n".join(
        f"    bed_emulator::make_kernel<(&{e})>(&{e})," for e in expressions
    )
    return f"""#include "emulator.h"
#include "{source}"
static constexpr bed_emulator::Kernel kernels[] = {{
{entries}
}};
BED_EMULATOR_EXPORT(kernels)
"""


@cache
def _machine_flags():
    """Flags that not every machine knows: fused multiply-add, filled variables."""
    # A variable that is read before it is written must not hold what the last thread
    # left on the same stack, which tends to be right.
    fill = (
        ("-ftrivial-auto-var-init=pattern",)
        if int(_compiler_version().partition(".")[0]) >= 12
        else ()
    )
    if platform.machine() != "x86_64":
        return fill
    cpuinfo = Path("/proc/cpuinfo")
    words = cpuinfo.read_text().split() if cpuinfo.exists() else []
    return (*fill, "-mfma", "-mavx2") if {"fma", "avx2"} <= set(words) else fill


@cache
def _compiler_version():
    command = [COMPILER, "-dumpfullversion"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _digest(text, command, folders):
    digest = hashlib.sha256()
    for part in [text, *command, _compiler_version(), platform.machine()]:
        digest.update(part.encode() + b"\0")
    files = {*HERE.glob("*.h"), *HERE.glob("include/*.h")}
    files |= {f for folder in folders for f in folder.rglob("*") if _is_source(f)}
    for file in sorted(files):
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:24]


def _is_source(path):
    return path.suffix in SOURCE_SUFFIXES and path.is_file()


def _cache_dir():
    folder = Path(os.environ.get("BED_EMULATOR_CACHE", HERE / ".cache"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _library(path, text, command, link):
    """The shared object at `path`, compiled if it is not there."""
    with _lock(path.with_suffix(".lock")):
        if path.exists():
            os.utime(path)  # used: the oldest go first
        else:
            _compile(path, text, command, link)
            _prune(path.parent)
        return ctypes.CDLL(str(path))


def _compile(path, text, command, link):
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        unit, code, library = (
            Path(folder, path.stem + suffix) for suffix in (".cpp", ".o", ".so")
        )
        unit.write_text(text)
        for step in ([*command, "-c", unit, "-o", code], [*link, code, "-o", library]):
            done = subprocess.run(step, capture_output=True, text=True)
            if done.returncode:
                raise CompileError(done.stderr)
        library.replace(path)


@contextmanager
def _lock(path):
    """Held by one process at a time, so that none compiles what another compiles."""
    import fcntl  # not on every platform

    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _prune(folder):
    entries = []
    for path in folder.glob("*.so"):
        with suppress(FileNotFoundError):  # another process prunes too
            entries.append((path.stat().st_mtime, path))
    for _, path in sorted(entries)[:-MAX_CACHED]:
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
