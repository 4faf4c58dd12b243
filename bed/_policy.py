"""Which engine solves a call, why, and how to get it ready."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _interop
from ._normalize import compute_dtype, normalize
from .engines import DTYPES, Engine, get

# Largest n for which the compiled CPU engine is chosen. One thread each, it is faster
# than LAPACK up to 32, and at 64 between 0.84 (complex128) and 1.24 (float32) times as
# fast (5000 matrices on an AMD EPYC: `python -m bed bench`); above, LAPACK's blocked
# reduction wins.
NUMBA_CPU_MAX_N = 64


class Choice(NamedTuple):
    """An engine and the reason it was chosen."""

    engine: Engine
    reason: str


def choose(n: int, device: str, driver: str = "auto") -> Choice:
    """Pick the engine; the batch size plays no part, so that it cannot change bits.

    Parameters
    ----------
    n : int
        Size of the matrices.
    device : str
        ``"cpu"`` or ``"cuda"``.
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
        return Choice(engine, "asked for by driver=")
    if device == "cuda":
        fused = get("raw_cuda")
        if fused.takes(n):
            return Choice(fused, f"array in GPU memory, n ≤ {fused.max_n}")
        return Choice(get("cusolver"), f"array in GPU memory, n > {fused.max_n}")
    if n <= NUMBA_CPU_MAX_N:
        return Choice(get("numba_cpu"), f"host array, n ≤ {NUMBA_CPU_MAX_N}")
    return Choice(get("lapack"), f"host array, n > {NUMBA_CPU_MAX_N}")


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `bed.eigh` would do with an array; prints as text."""

    engine: str
    summary: str
    reason: str
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
        )

    __repr__ = __str__


def explain(a: Any, *, driver: str = "auto") -> Explanation:
    """Say which engine `bed.eigh` would use for an array, and why, without solving.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        As for `bed.eigh`.
    driver : str, optional
        As for `bed.eigh`.

    Returns
    -------
    Explanation
        Has the fields ``engine``, ``reason``, ``device``, ``batch``, ``n``, ``dtype``
        and ``compute_dtype``; prints as three lines.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `bed.eigh` would.

    Examples
    --------
    >>> import bed, numpy as np
    >>> print(bed.explain(np.ones((1000, 8, 8), np.float16)))
    1000 matrices of 8 × 8, float16 (computed in float32), cpu memory
    engine numba_cpu: Householder and implicit QR, a matrix in each SIMD lane, threads
    because: host array, n ≤ 64
    """
    received = _interop.receive(a)
    problem = normalize(received)
    choice = choose(problem.n, received.device, driver)
    return Explanation(
        engine=choice.engine.name,
        summary=choice.engine.summary,
        reason=choice.reason,
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
    solve = choose(n, device, driver).engine.load()
    for each in dtype if isinstance(dtype, tuple | list) else (dtype,):
        one = _interop.put(np.eye(n, dtype=compute_dtype(each))[None], device)
        solve(one)
        solve(one, eigenvectors=False)
