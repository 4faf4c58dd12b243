"""Which engine a call would take, and getting it ready."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._config import no_gpu
from ._console import printable
from ._dispatch import interop, matfun
from ._dispatch.dtypes import WIDENED, compute_dtype
from ._dispatch.normalize import normalize
from ._dispatch.policy import choose
from .engines import DTYPES

# A batch that fills blocks of the CPU engine, and has one matrix left over: code for
# both is apart. Its blocks have a power of two of lanes, at most this many less one.
FULL_AND_MORE = 33


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
        text = (
            f"{self.batch} matrices of {self.n} × {self.n}, {self.dtype} "
            f"(computed in {self.compute_dtype}), {self.device} memory\n"
            f"engine {self.engine}: {self.summary}\n"
            f"because: {self.reason}"
            + (f"\nmeasured: {self.measured}" if self.measured else "")
        )
        return printable(text)  # by the print of whoever asked

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
    received = interop.receive(a)
    a, _, dtype = normalize(received)
    choice = choose(
        a.shape[-1],
        dtype,
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
        batch=len(a),
        n=a.shape[-1],
        dtype=received.dtype,
        compute_dtype=str(dtype),
    )


def warmup(
    n: int = 8,
    dtype: Any = None,
    *,
    device: str = "cpu",
    driver: str = "auto",
    functions: bool = False,
) -> None:
    """Compile what `bed.eigh` and `bed.eigvalsh` need, ahead of the first call.

    The compiled code is kept on disk, so this takes seconds once per machine and
    version, and milliseconds afterwards.

    Parameters
    ----------
    n : int, optional
        Size of the matrices that will come.
    dtype : dtype or sequence of dtypes, optional
        Dtypes that will come, of NumPy or torch; by default the four that engines
        compute in.
    device : {"cpu", "cuda"}, optional
        Where they will be. On a GPU every size has a kernel of its own, and this one
        is compiled; on the CPU one does for all.
    driver : str, optional
        As for `bed.eigh`.
    functions : bool, optional
        Also what `bed.sqrtm` and the other functions of matrices need, and gradients.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `bed.eigh` would for such arrays; ImportError also where CuPy finds no GPU.

    Examples
    --------
    >>> import bed
    >>> bed.warmup(8, "float32")
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}")
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    if device == "cuda" and (problem := no_gpu()):
        raise ImportError(f"device='cuda' {problem}")
    if dtype is None:
        dtype = DTYPES
    for each in dtype if isinstance(dtype, tuple | list) else (dtype,):
        name = str(each).removeprefix("torch.")
        computed = compute_dtype(WIDENED.get(name, name if name != str(each) else each))
        few = np.broadcast_to(np.eye(n, dtype=computed), (FULL_AND_MORE, n, n))
        few = interop.put(few, device)
        for wanted in (True, False):
            choice = choose(n, few.dtype, device, eigenvectors=wanted, driver=driver)
            choice.engine.load()(few, eigenvectors=wanted)
        if functions:
            matfun.warmup(few, driver)
