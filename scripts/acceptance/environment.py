"""Where the numbers of a run come from."""

import platform
import re
import shutil
import subprocess

import cupy

import bed
from bed._config import installed_versions, processor

from . import ROOT


def describe() -> dict:
    """Device, driver, versions and commit; what cannot be found is left out."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    facts = {
        "device": properties["name"].decode(),
        "multiprocessors": properties.get("multiProcessorCount"),
        "memory_gib": round(runtime.memGetInfo()[1] / 2**30, 1),
        "driver": _command("nvidia-smi", "--query-gpu=driver_version", *_FIRST_GPU),
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "processor": processor(),
        "python": platform.python_version(),
        "bed": bed.__version__,
        "cupy": cupy.__version__,
        "commit": _commit(),
    }
    facts |= dict(each.split() for each in installed_versions())
    return {key: value for key, value in facts.items() if value not in (None, "")}


def short_name(device: str) -> str:
    """What a device is called in file names: "NVIDIA H100 80GB HBM3" is "h100"."""
    found = re.search(r"\b[A-Z]{1,3}\d{2,4}[a-z]*\b", device)
    return (found[0] if found else re.sub(r"\W+", "-", device).strip("-")).lower()


_FIRST_GPU = ("--format=csv,noheader", "--id=0")


def _command(*words) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, timeout=10, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _commit() -> str | None:
    commit = _command("git", "rev-parse", "HEAD")
    if commit and _command("git", "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    return commit
