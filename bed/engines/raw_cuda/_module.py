"""From the CUDA sources to a compiled kernel, once per process and device."""

from functools import cache
from importlib.resources import files

from ._cubin import compiled

# The one list of compiler flags. CuPy adds -ftz=true (float32 subnormals are flushed),
# the architecture and that functions are for the device; the sources are written for
# that, but for those of `exact_kernel`. NVRTC up to 12.8 refuses an option that is
# given twice. fmad stays on: the sums rely on nothing finer than eps.
OPTIONS = ("-std=c++17",)

# Above this much dynamic shared memory (bytes) a kernel has to ask for it.
DEFAULT_SHARED = 48 * 1024

_PACKAGE = "bed.engines.raw_cuda"


@cache
def source(name: str) -> str:
    """The text of a ``.cu`` file with its includes spliced in, each once.

    CuPy keys its cache on disk by the text alone and would not see an edited header.
    ``#line`` marks let the compiler name the true file and line.
    """
    return "\n".join(_splice(name, set()))


def _splice(name: str, seen: set[str]) -> list[str]:
    lines = [f'#line 1 "{name}"']
    text = (files(_PACKAGE) / "src" / name).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('#include "'):
            header = line.split('"')[1]
            if header not in seen:
                seen.add(header)
                lines += [*_splice(header, seen), f'#line {number + 1} "{name}"']
            else:
                lines.append("")
        else:
            lines.append("" if line.startswith("#pragma once") else line)
    return lines


@cache
def shared_limit(device: int) -> int:
    """Bytes of shared memory that a block of a device may have."""
    import cupy

    return cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]


@cache
def kernel(name: str, expression: str, shared: int, device: int):
    """Compile an instantiation for the current device, which is `device`.

    Raises
    ------
    cupy.cuda.compiler.CompileException
        With the compiler's log.
    """
    import cupy

    del device  # part of the key: a kernel is loaded into one device
    module = cupy.RawModule(
        code=source(name), options=OPTIONS, name_expressions=(expression,)
    )
    return _with_shared(module.get_function(expression), shared)


@cache
def exact_kernel(name: str, expression: str, shared: int, device: int):
    """The same, by a compiler that keeps subnormal numbers."""
    import cupy

    del device
    path, lowered = compiled(source(name), expression, OPTIONS)
    return _with_shared(cupy.RawModule(path=path).get_function(lowered), shared)


def _with_shared(function, shared: int):
    # Sizes may share an instantiation, and the limit with it: it only grows.
    if shared > max(DEFAULT_SHARED, function.max_dynamic_shared_size_bytes):
        function.max_dynamic_shared_size_bytes = shared
    return function
