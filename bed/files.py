"""Batches that are larger than memory: from a file to files.

``python -m bed eigh in.npy out`` does the same from the command line. `import bed`
alone does not load this.

The input is a .npy file of matrices (..., n, n), of any dtype that `bed.eigh` takes, in
C or Fortran order; object arrays and pickles are refused. One window of it after the
other is mapped and solved, while the results of the one before are written. In the
output folder each result is a .npy file, ``status.npy`` among them, which has its full
length from the beginning; ``journal.json`` says what the run is of and how far it is.
A folder that is an array of zarr is taken as well, where zarr is installed; results are
arrays of zarr then, ``status.zarr`` among them, in chunks like those of the input.

- A run that was ended by ``kill -9`` or a full disk goes on when it is called again,
  and the files are, bit for bit, those of a run that was not disturbed. One that is
  complete does nothing more.
- The journal knows the input by size, time, header and a sample of its bytes. If that
  has changed, or the function or the version of bed has, nothing is mixed: ValueError.
- One process at a time works in a folder; a second one is refused.
- Matrices that fail are no error: see the statuses. Neighbours are untouched.

A mapped file that somebody cuts short in the moment it is read ends the process, as the
system has no other way to tell. What is in the journal stays.
"""

from pathlib import Path
from typing import Any

from . import matfun as _matfun
from ._files.run import run
from ._files.summary import Summary

__all__ = ["FUNCTIONS", "Summary", "apply", "eigh", "eigvalsh"]

#: What can be applied to a file.
FUNCTIONS = ("eigh", "eigvalsh", *_matfun.__all__)


def eigh(
    input: str | Path,
    output: str | Path,
    UPLO: str = "L",
    *,
    driver: str = "auto",
    device: str = "cpu",
    memory: int | str = "1GB",
    progress: bool = True,
) -> Summary:
    """Eigenvalues and eigenvectors of the matrices in a file.

    Parameters
    ----------
    input : str or Path
        A .npy file of shape (..., n, n), or a folder of zarr.
    output : str or Path
        A folder, which is made. Gets ``eigenvalues.npy`` (..., n), ``eigenvectors.npy``
        (..., n, n) and ``status.npy`` (...).
    UPLO, driver : str, optional
        As for `bed.eigh`.
    device : {"cpu", "cuda"}, optional
        Where it is solved. With ``"cuda"``, which needs CuPy, windows pass through
        pinned memory on two streams, so that reading, copying, solving and writing go
        on at the same time.
    memory : int or str, optional
        What windows and results may take of memory at once, in bytes or as
        ``"500MB"``. The interpreter and compiled code come on top of that, with some
        200 MB.
    progress : bool, optional
        Show on a terminal how far it is.

    Returns
    -------
    Summary
        Files, counts of statuses, and the first matrices that failed.

    Raises
    ------
    ValueError
        The file is no batch of matrices, is truncated or has changed, or the folder is
        of another run.
    BlockingIOError
        Another process is at work in the folder.
    OSError
        Nothing can be written there, or the disk is full.

    Examples
    --------
    >>> import bed.files, numpy as np, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "in.npy", [[[2.0, 1.0], [1.0, 2.0]], [[4.0, 0.0], [0.0, 3.0]]])
    >>> summary = bed.files.eigh(folder / "in.npy", folder / "out")
    >>> summary.counts
    {<Status.OK: 0>: 2}
    >>> np.load(folder / "out" / "eigenvalues.npy", mmap_mode="r")[1]
    memmap([3., 4.])
    """
    options = {"UPLO": UPLO, "driver": driver}
    return apply(
        "eigh",
        input,
        output,
        device=device,
        memory=memory,
        progress=progress,
        **options,
    )


def eigvalsh(
    input: str | Path,
    output: str | Path,
    UPLO: str = "L",
    *,
    driver: str = "auto",
    device: str = "cpu",
    memory: int | str = "1GB",
    progress: bool = True,
) -> Summary:
    """Eigenvalues alone, and statuses; all else is as for `eigh`."""
    options = {"UPLO": UPLO, "driver": driver}
    return apply(
        "eigvalsh",
        input,
        output,
        device=device,
        memory=memory,
        progress=progress,
        **options,
    )


def apply(
    function: str,
    input: str | Path,
    output: str | Path,
    *,
    device: str = "cpu",
    memory: int | str = "1GB",
    progress: bool = True,
    **options: Any,
) -> Summary:
    """A function of bed by its name, one of `FUNCTIONS`; all else is as for `eigh`.

    The results are called as in bed: ``result.npy`` of a function of matrices,
    ``sqrtm.npy`` and ``invsqrtm.npy`` of `bed.sqrtm_invsqrtm`.

    Parameters
    ----------
    function : str
    **options
        What the function takes, as keywords: ``apply("powm", ..., p=-0.25, floor=1)``.
    """
    if function not in FUNCTIONS:
        known = ", ".join(FUNCTIONS)
        raise ValueError(f"function must be one of {known}, got {function!r}")
    options = {"UPLO": "L", "driver": "auto", **options}
    if taken := options.keys() & {"b", "check", "return_info"}:
        raise ValueError(f"{', '.join(sorted(taken))}: not for files")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}")
    return run(
        function,
        input,
        output,
        options,
        device=device,
        memory=memory,
        progress=progress,
    )
