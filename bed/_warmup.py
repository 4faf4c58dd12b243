"""Compile ahead of the first call, on the cores that there are."""

import operator
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._config import compiled_code, no_gpu
from ._dispatch import interop, matfun
from ._dispatch.dtypes import WIDENED, compute_dtype, unsupported
from ._dispatch.policy import choose
from .engines import DTYPES
from .engines._threads import thread_count

if TYPE_CHECKING:
    import subprocess

# A batch that fills blocks of the CPU engine, and has one matrix left over: code for
# both is apart. Its blocks have a power of two of lanes, at most this many less one.
FULL_AND_MORE = 33

# Reading compiled code from disk takes a tenth of a second, compiling it three.
COMPILED_SECONDS = 1.0
# A helper that has not ended by then is given up, and its part compiled here.
HELP_SECONDS = 300


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
    version; later processes read it in tenths of a second. Where several dtypes are
    compiled for a CPU and there are cores for it, other processes of this Python
    compile some of them.

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
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"n must be an integer, got {n!r}; see dtype=") from None
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    if device == "cuda" and (problem := no_gpu()):
        raise ImportError(f"device='cuda' {problem}")
    if dtype is None:
        dtype = DTYPES
    given = dtype if isinstance(dtype, tuple | list) else (dtype,)
    dtypes = list(dict.fromkeys(map(_computed, given)))
    # As text, which helpers read again.
    options: dict[str, Any] = {"n": n, "driver": driver, "functions": bool(functions)}
    first = 0 if _nothing_compiled(dtypes, device, n, driver) else 1
    begun = time.perf_counter()
    for each in dtypes[:first]:
        _compile(each, device, **options)
    compiled = first == 0 or time.perf_counter() - begun > COMPILED_SECONDS
    # Where no code is kept, nothing that a helper compiles can be had.
    shared = device == "cpu" and compiled and compiled_code()[0] is not None
    helpers = thread_count() - 1 if shared else 0
    with _help(dtypes[first:], helpers, options) as mine:
        for each in mine:
            _compile(each, device, **options)
    # What helpers have compiled is read from disk; where they could not, compiled here.
    for each in dtypes[first:]:
        _compile(each, device, **options)


def _nothing_compiled(
    dtypes: Sequence[np.dtype], device: str, n: int, driver: str
) -> bool:
    """Whether Numba compiles for all of them, and has kept nothing so far."""
    choices = (choose(n, each, device, driver=driver) for each in dtypes)
    return all(choice.engine.jit for choice in choices) and not compiled_code()[1]


def _computed(dtype: Any) -> np.dtype:
    """What a dtype of NumPy or torch is computed in."""
    name = str(dtype).removeprefix("torch.")
    try:
        known = np.dtype(WIDENED.get(name, name if name != str(dtype) else dtype))
    except TypeError:
        raise unsupported(repr(dtype)) from None
    return compute_dtype(known)


def _compile(
    dtype: np.dtype, device: str, n: int, driver: str, functions: bool
) -> None:
    few = np.broadcast_to(np.eye(n, dtype=dtype), (FULL_AND_MORE, n, n))
    few = interop.put(few, device)
    for wanted in (True, False):
        choice = choose(n, few.dtype, device, eigenvectors=wanted, driver=driver)
        choice.engine.load()(few, eigenvectors=wanted)
    if functions:
        matfun.warmup(few, driver)


@contextmanager
def _help(
    dtypes: Sequence[np.dtype], helpers: int, options: dict[str, Any]
) -> Iterator[Sequence[np.dtype]]:
    """Share dtypes with other processes, which end here; yields what is left to do."""
    import subprocess

    if not _is_python(sys.executable):
        helpers = 0
    parts = max(1, min(helpers + 1, len(dtypes)))
    with ExitStack() as stack:
        processes = []
        for k in range(1, parts):
            names = [str(dtype) for dtype in dtypes[k::parts]]
            code = f"import bed; bed.warmup(dtype={names}, **{options})"
            try:
                processes.append(_started(code))
            except OSError:  # no process can be had: nothing is lost but time
                break
            stack.callback(_ended, processes[-1])
        yield dtypes[::parts]
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(HELP_SECONDS)


def _ended(process: "subprocess.Popen") -> None:
    process.kill()
    process.wait()


def _is_python(executable: str) -> bool:
    """Whether it takes `-c`: a program with Python inside of it would start itself."""
    frozen = getattr(sys, "frozen", False)
    name = Path(executable or "").name.lower()
    usual = re.fullmatch(r"(python|pypy)w?[\d.]*[td]*(\.exe)?", name)
    return usual is not None and not frozen


def _started(code: str) -> "subprocess.Popen":
    """Another process of this Python, which finds what this one does and says nothing.

    It begins with the folder that it is started in, where any file may be named as a
    module is.
    """
    import subprocess

    here = str(Path(__file__).parents[1])
    found = [*(x for x in sys.path if isinstance(x, str)), here]
    return subprocess.Popen(
        [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c",
         f"import sys; sys.path[:] = {found!a}; {code}"],
        env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
