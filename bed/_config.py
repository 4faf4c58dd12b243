"""What is installed here, what runs, and where compiled code is kept."""

import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ._console import show
from ._version import __version__
from .engines import engines, known
from .engines._threads import thread_count

_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "array-api-compat",
    "threadpoolctl",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numba-cuda",
    "torch",
    "jax",
)

_NO_CUPY = (
    "CuPy, which finds them, is not installed: pip install 'batched-ed[cuda12]' or "
    "'batched-ed[cuda13]'"
)


def show_config() -> None:
    """Print versions, devices, engines and caches, for reports and for the curious.

    Examples
    --------
    >>> import bed
    >>> bed.show_config()  # doctest: +ELLIPSIS
    bed ...
    """
    show(config_text())


def config_text() -> str:
    """The text of `show_config`."""
    lines = [f"bed {__version__}, Python {platform.python_version()} on {processor()}"]
    lines.append("packages: " + ", ".join(installed_versions()))
    lines.append(f"threads: {thread_count()}")
    lines.append("devices: " + ", ".join(devices()))
    lines.append("engines:")
    for engine in engines():
        state = engine.missing()
        if state is None and "cpu" not in engine.devices:
            state = no_gpu()
        lines.append(
            f"  {engine.name:10} {'/'.join(engine.devices):8} {engine.summary}"
        )
        lines.append(f"  {'':10} {'':8} {state or 'ready'}")
    lines.append(f"compiled code: {_compiled_code_text()}")
    return "\n".join(lines)


def installed_versions() -> list[str]:
    """``name version`` of the packages that bed uses and that are installed."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def machine_and_versions() -> str:
    """What tables of measurements begin with."""
    return f"{processor()}; {', '.join(installed_versions())}"


def processor() -> str:
    """The processor's own name where the system tells it."""
    if sys.platform == "linux":
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()


def devices() -> list[str]:
    """The CPU, and the GPUs that CuPy finds a driver for."""
    gpus, problem = _gpus()
    return ["cpu", *gpus, *([problem] if problem else [])]


def no_gpu() -> str | None:
    """Why nothing can be solved in GPU memory here, or None."""
    gpus, problem = _gpus()
    if gpus:
        return None
    return f"needs a GPU: {problem or _NO_CUPY}"


def _gpus() -> tuple[list[str], str]:
    """The GPUs, and what is in the way of finding them where CuPy is."""
    if find_spec("cupy") is None:
        return [], ""
    try:
        import cupy

        runtime = cupy.cuda.runtime
        names = [
            runtime.getDeviceProperties(i)["name"].decode()
            for i in range(runtime.getDeviceCount())
        ]
    except Exception as error:  # CuPy fails in many ways on a machine without a driver
        return [], f"no CUDA device ({type(error).__name__})"
    return [f"cuda:{i} {name}" for i, name in enumerate(names)], (
        "" if names else "no CUDA device"
    )


def compiled_code() -> tuple[Path | None, list[Path]]:
    """The folder where the CPU engine's compiled code is kept, and the files in it."""
    engine = known("numba_cpu")
    return (None, []) if engine.missing() else engine.load("kept_on_disk")()


def _compiled_code_text() -> str:
    folder, files = compiled_code()
    if folder is None:
        return "none is kept"
    return f"{folder} ({len(files)} files)" if files else "none yet"
