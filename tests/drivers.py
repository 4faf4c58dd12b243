"""Every engine on every device: arrays go there, results come back to the host.

Tests of the contract make NumPy arrays and judge NumPy arrays. Where an engine solves
in GPU memory, `eigh` and `eigvalsh` of this module carry them there and back.
"""

import numpy as np
import pytest

import bed
from bed import engines
from bed._config import no_gpu


class Driver(str):
    """Name of an engine, with the kind of memory in which it gets its arrays."""

    device: str

    def __new__(cls, name, device="cpu"):
        self = super().__new__(cls, name)
        self.device = device
        return self


def parameters(device, same_bits_only=False):
    """Parameters of a fixture: engines that solve in a kind of memory.

    Without a GPU one stands for all that need one.
    """
    marks = [pytest.mark.gpu] if device == "cuda" else []
    if device == "cuda" and no_gpu():
        yield pytest.param(Driver("any", device), marks=marks, id="gpu")
        return
    for engine in engines.engines():
        if device not in engine.devices or (same_bits_only and not engine.same_bits):
            continue
        reason = engine.missing()
        skip = [pytest.mark.skip(reason=f"{engine.name} {reason}")] if reason else []
        name = engine.name if device == engine.devices[0] else f"{engine.name}-{device}"
        yield pytest.param(Driver(engine.name, device), marks=marks + skip, id=name)


def skip_unless_taken(driver, n):
    """Skip a test at a size that an engine says it does not take."""
    engine = engines.get(driver)
    if not engine.takes(n):
        pytest.skip(f"{driver} takes n ≤ {engine.max_n}")


def eigh(a, *arguments, driver, **options):
    """`bed.eigh` of a host array, solved where the driver has its memory."""
    return fetch(bed.eigh(put(a, driver), *arguments, driver=str(driver), **options))


def eigvalsh(a, *arguments, driver, **options):
    """`bed.eigvalsh`, as above."""
    there = put(a, driver)
    return fetch(bed.eigvalsh(there, *arguments, driver=str(driver), **options))


def eigh_extremal(a, *arguments, driver, **options):
    """`bed.eigh_extremal`, as above."""
    there, driver = put(a, driver), str(driver)
    return fetch(bed.eigh_extremal(there, *arguments, driver=driver, **options))


def put(a, driver):
    """A host array in the memory of a driver, with the strides that it has.

    On a GPU gaps between elements are NaN; byte order and alignment are native, as CuPy
    knows no other.
    """
    if driver.device == "cpu":
        return a
    import cupy

    a = np.asarray(a)
    if not (a.dtype.isnative and a.flags.aligned):
        a = a.astype(a.dtype.newbyteorder("="))
    if not a.size:
        return cupy.empty(a.shape, a.dtype)
    lowest, highest = np.lib.array_utils.byte_bounds(a)
    start = a.__array_interface__["data"][0] - lowest
    memory = np.full(highest - lowest, 0xFF, np.uint8)
    np.ndarray(a.shape, a.dtype, memory, start, a.strides)[...] = a
    there = cupy.asarray(memory).data + start
    return cupy.ndarray(a.shape, a.dtype, there, strides=a.strides)


def fetch(x):
    """Results on the host; waits for the device. Tuples keep their type."""
    if isinstance(x, tuple):
        parts = map(fetch, x)
        return x._make(parts) if hasattr(x, "_make") else tuple(parts)
    return x if x is None or isinstance(x, np.ndarray | np.generic) else x.get()
