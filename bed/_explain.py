"""Which engine a call would take."""

from dataclasses import dataclass
from typing import Any

from ._console import printable
from ._dispatch import interop
from ._dispatch.normalize import normalize
from ._dispatch.policy import choose


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
