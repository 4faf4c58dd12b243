"""Which engine solves a call, why, and how to get it ready."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from . import _interop
from ._normalize import compute_dtype, normalize
from .engines import DTYPES, Engine, engines, get


class Choice(NamedTuple):
    """An engine, the reason it was chosen, and where that was measured."""

    engine: Engine
    reason: str
    measured: str


class Row(NamedTuple):
    """One line of the table in `_policy.json`, which scripts/tune_policy.py writes.

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
    text = (files("bed") / "_policy.json").read_text(encoding="utf-8")
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
            raise ValueError(f"driver={driver!r} takes n ≤ {engine.max_n}, got n = {n}")
        return Choice(engine, "asked for by driver=", "")
    name, reason, measured = _decide(n, dtype, device, eigenvectors)
    return Choice(get(name), reason, measured)


# The engines whose stages are used, by the memory they work in.
STAGED = {"cpu": "numba_cpu", "cuda": "staged"}


def choose_stage(
    stage: str, n: int, dtype: np.dtype, device: str, driver: str = "auto"
) -> Callable:
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
    return engine.load(stage)


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `bed.eigh` would do with an array; prints as text."""

    engine: str
    summary: str
    reason: str
    measured: str
    device: str
    batch: int
    n: int
    dtype: str
    compute_dtype: str

    def __str__(self) -> str:
        return (
            f"{self.batch} matrices of {self.n} × {self.n}, {self.dtype} "
            f"(computed in {self.compute_dtype}), {self.device} memory\n"
            f"engine {self.engine}: {self.summary}\n"
            f"because: {self.reason}"
            + (f"\nmeasured: {self.measured}" if self.measured else "")
        )

    __repr__ = __str__


def explain(a: Any, *, eigenvectors: bool = True, driver: str = "auto") -> Explanation:
    """Say which engine `bed.eigh` would use for an array, and why, without solving.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.eigh`.
    eigenvectors : bool, optional
        False: what `bed.eigvalsh` would use.
    driver : str, optional
        As for `bed.eigh`.

    Returns
    -------
    Explanation
        Has the fields ``engine``, ``reason``, ``measured``, ``device``, ``batch``,
        ``n``, ``dtype`` and ``compute_dtype``; prints as a few lines. The reason is a
        row of the table of engines, and ``measured`` says where that comes from.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `bed.eigh` would.

    Examples
    --------
    >>> import bed, numpy as np
    >>> explanation = bed.explain(np.ones((1000, 8, 8), np.float16))
    >>> explanation.engine, explanation.compute_dtype
    ('numba_cpu', 'float32')
    >>> print(explanation)  # doctest: +ELLIPSIS
    1000 matrices of 8 × 8, float16 (computed in float32), cpu memory
    engine numba_cpu: ...
    because: host array, float32 with eigenvectors, n ≤ ...
    measured: ...
    """
    received = _interop.receive(a)
    problem = normalize(received)
    choice = choose(
        problem.n,
        problem.dtype,
        received.device,
        eigenvectors=eigenvectors,
        driver=driver,
    )
    return Explanation(
        engine=choice.engine.name,
        summary=choice.engine.summary,
        reason=choice.reason,
        measured=choice.measured,
        device=received.device,
        batch=len(problem.a),
        n=problem.n,
        dtype=str(received.array.dtype),
        compute_dtype=str(problem.dtype),
    )


def warmup(
    n: int = 8, dtype: Any = None, *, device: str = "cpu", driver: str = "auto"
) -> None:
    """Compile what `bed.eigh` and `bed.eigvalsh` need, ahead of the first call.

    The compiled code is kept on disk, so this takes seconds once per machine and
    version, and milliseconds afterwards.

    Parameters
    ----------
    n : int, optional
        Size of the matrices that will come.
    dtype : dtype or sequence of dtypes, optional
        Dtypes that will come; by default the four that engines compute in.
    device : {"cpu", "cuda"}, optional
        Where they will be. On a GPU every size has a kernel of its own, and this one
        is compiled; on the CPU one does for all.
    driver : str, optional
        As for `bed.eigh`.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `bed.eigh` would for such arrays.

    Examples
    --------
    >>> import bed
    >>> bed.warmup(8, "float32")
    """
    if dtype is None:
        dtype = DTYPES
    for each in dtype if isinstance(dtype, tuple | list) else (dtype,):
        one = _interop.put(np.eye(n, dtype=compute_dtype(each))[None], device)
        for wanted in (True, False):
            choice = choose(n, one.dtype, device, eigenvectors=wanted, driver=driver)
            choice.engine.load()(one, eigenvectors=wanted)
