"""Which engine solves a call, and why."""

import json
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from ..engines import Engine, engines, get, known, registered


class Choice(NamedTuple):
    """An engine, the reason it was chosen, and where that was measured."""

    engine: Engine
    reason: str
    measured: str


class Row(NamedTuple):
    """One line of the table in `table.json`, which scripts/tune_policy.py writes.

    Attributes
    ----------
    dtype, eigenvectors
        What it is for; ``"any"`` and None are for all.
    largest_n
        Largest size it is for; None is any.
    engine
        Name of the fastest engine.
    speedups
        Size to the best time of another engine over that of this one, for a batch.
    """

    dtype: str
    eigenvectors: bool | None
    largest_n: int | None
    engine: str
    speedups: dict[str, float]

    def covers(self, n: int, dtype: str, eigenvectors: bool) -> bool:
        return (
            self.dtype in (dtype, "any")
            and self.eigenvectors in (eigenvectors, None)
            and (self.largest_n is None or n <= self.largest_n)
        )

    def reason(self, device: str, n: int) -> str:
        kind = {True: " with eigenvectors", False: ", eigenvalues alone", None: ""}
        size = "any n" if self.largest_n is None else f"n ≤ {self.largest_n}"
        text = f"{_MEMORY[device]}, {self.dtype}{kind[self.eigenvectors]}, {size}"
        if self.speedups:
            nearest = min(self.speedups, key=lambda measured: abs(int(measured) - n))
            ratio = self.speedups[nearest]
            text += f"; at n = {nearest} {ratio} × as fast as any other, in batches"
        return text


_MEMORY = {"cpu": "host array", "cuda": "array in GPU memory"}


@cache
def table() -> dict[str, Any]:
    """Device to its rows, the first that covers a call counts, and the measurement."""
    text = (files("bed._dispatch") / "table.json").read_text(encoding="utf-8")
    return {
        device: {**part, "rows": [Row(**row) for row in part["rows"]]}
        for device, part in json.loads(text).items()
    }


@lru_cache(maxsize=4096)
def _decide(
    n: int, dtype: np.dtype, device: str, eigenvectors: bool
) -> tuple[str, str, str]:
    """Name of the engine, reason, measurement; remembered, as calls are short."""
    part, name = table()[device], dtype.name
    row = next(row for row in part["rows"] if row.covers(n, name, eigenvectors))
    return row.engine, row.reason(device, n), part["measured"]


def choose(
    n: int,
    dtype: np.dtype,
    device: str,
    *,
    eigenvectors: bool = True,
    driver: str = "auto",
) -> Choice:
    """Pick the engine; the batch size plays no part, so that it cannot change bits.

    Parameters
    ----------
    n : int
        Size of the matrices.
    dtype : numpy.dtype
        That they are computed in.
    device : str
        ``"cpu"`` or ``"cuda"``.
    eigenvectors : bool
        Whether they are wanted.
    driver : str
        ``"auto"``, or the name of an engine.

    Raises
    ------
    ValueError
        Unknown engine, or one that does not take this size or device.
    ImportError
        Something the engine needs is not installed.
    """
    if driver != "auto":
        engine = get(driver)
        if device not in engine.devices:
            raise ValueError(
                f"driver={driver!r} works on {' and '.join(engine.devices)} arrays; "
                f"this one is in {device} memory"
            )
        if not engine.takes(n):
            raise ValueError(
                f"driver={driver!r} takes n <= {engine.max_n}, got n = {n}"
            )
        return Choice(engine, "asked for by driver=", "")
    name, reason, measured = _decide(n, dtype, device, eigenvectors)
    engine = known(name)
    if not engine.missing():
        return Choice(engine, reason, measured)
    if off := engine.switched_off():
        return Choice(get(SPARE), f"{name} {off}; other engine, other bits", "")
    return Choice(get(name), reason, measured)  # it raises, and says what to install


# The driver that leaves the choice to the table.
AUTO = "auto"

# What `loaded` found, of so many calls of different kinds.
_MOST = 4096
_loaded: dict[tuple, tuple[Engine, Callable]] = {}


def loaded(
    n: int, dtype: np.dtype, device: str, eigenvectors: bool, driver: str
) -> tuple[Engine, Callable]:
    """The engine that `choose` picks, with its errors, and the engine's `eigh`.

    What is loaded misses nothing any more, and stands in for the table.
    """
    key = n, dtype, device, eigenvectors
    if driver == "auto":
        found = _loaded.get(key)
        if found is not None and registered(found[0]):
            return found
    choice = choose(n, dtype, device, eigenvectors=eigenvectors, driver=driver)
    found = choice.engine, choice.engine.load()
    if driver == "auto" and choice.measured:  # nothing stands in for another engine
        if len(_loaded) >= _MOST:
            _loaded.clear()
        _loaded[key] = found
    return found


def forget() -> None:
    """Look at the table anew."""
    _decide.cache_clear()
    _loaded.clear()


class Stage(NamedTuple):
    """An engine, and its function for one stage of the decomposition."""

    engine: Engine
    function: Callable


# What solves host arrays where Numba may not compile.
SPARE = "lapack"

# The engines whose stages are used, by the memory they work in.
STAGED = {"cpu": "numba_cpu", "cuda": "numba_cuda"}


def choose_stage(
    stage: str, n: int, dtype: np.dtype, device: str, driver: str = "auto"
) -> Stage:
    """The function of an engine for one stage of the decomposition.

    Parameters
    ----------
    stage : {"tridiagonalize", "eigh_tridiagonal"}
    n, dtype, device, driver
        As for `choose`, with its errors.

    Raises
    ------
    ValueError
        The engine does not have the stage.
    """
    name = STAGED[device] if driver == "auto" else driver
    engine = choose(n, dtype, device, driver=name).engine
    if not engine.stages:
        having = " and ".join(
            repr(engine.name) for engine in engines() if engine.stages
        )
        raise ValueError(f"driver={name!r} has no {stage}; {having} have")
    return Stage(engine, engine.load(stage))
