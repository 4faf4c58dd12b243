"""Machine code on disk, beside what CuPy keeps there.

CuPy's own way to a kernel, `RawModule` of a source, flushes float32 subnormals to zero,
whatever it is told. Its compiler by itself does as it is told, and its modules load
what others compiled.
"""

import atexit
import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path


def compiled(code: str, expression: str, options: tuple[str, ...]) -> tuple[str, str]:
    """Compile an instantiation for the current device, or find it compiled.

    Returns
    -------
    path : str
        The file of the machine code.
    name : str
        Of the kernel in it.

    Raises
    ------
    cupy.cuda.compiler.CompileException
        With the compiler's log.
    """
    import cupy

    versions = cupy.__version__, cupy.cuda.nvrtc.getVersion()
    key = (*versions, cupy.cuda.Device().compute_capability, options)
    text = repr((key, expression, code)).encode()
    folder = _folder() / f"bed-{hashlib.sha256(text).hexdigest()[:32]}"
    if not folder.exists():
        binary, names = cupy.cuda.compiler.compile_using_nvrtc(
            code, options, name_expressions=(expression,)
        )
        _store(folder, {"kernel.cubin": binary, "name": names[expression].encode()})
    return str(folder / "kernel.cubin"), (folder / "name").read_text()


@cache
def _folder() -> Path:
    """CuPy's folder, or where that cannot be written one for this process."""
    kept = os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"
    folder = Path(kept).expanduser()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    scratch = tempfile.TemporaryDirectory(prefix="bed-")
    atexit.register(scratch.cleanup)
    return Path(scratch.name)


def _store(folder: Path, files: dict[str, bytes]) -> None:
    """Write files to a folder that is there with all of them, or not at all."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        whole = Path(scratch, "whole")
        whole.mkdir()
        for name, content in files.items():
            (whole / name).write_bytes(content)
        with suppress(OSError):  # another process was faster
            whole.rename(folder)
