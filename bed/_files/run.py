"""One run: from a batch in a file to results in files, as far as they are not there."""

import errno
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np

import bed

from .._config import no_gpu
from .._dispatch.dtypes import compute_dtype
from .._dispatch.interop import put
from .._dispatch.policy import choose
from .batch import Batch, Outputs, Spec
from .journal import Journal
from .npy import NpyInput, NpyOutputs
from .progress import Progress
from .summary import Summary, counted
from .windows import in_bytes, matrices_at_once


def run(
    name: str,
    source: str | Path,
    folder: str | Path,
    options: Mapping[str, Any],
    *,
    device: str,
    memory: int | str,
    progress: bool,
) -> Summary:
    """Apply `bed`'s function of this name, with options, to the matrices in a file."""
    began, folder, limit = time.monotonic(), Path(folder), in_bytes(memory)
    function = functools.partial(getattr(bed, name), return_info=True, **options)
    with ExitStack() as stack:
        batch = stack.enter_context(closing(_opened(Path(source))))
        if Path(realpath(folder)).is_relative_to(realpath(batch.path)):
            raise ValueError(
                f"{folder} lies in the input, which would change: give another folder"
            )
        if device == "cuda" and (problem := no_gpu()):
            raise ValueError(f"device='cuda' {problem}")
        # Options that are wrong are found here, before anything is written.
        specs = _specs(function, batch, device)
        window = matrices_at_once(limit, _bytes_of_one(specs, batch), batch.unit)
        task = _task(name, options, device, batch, window)
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            journal = stack.enter_context(closing(Journal(folder, task)))
            outputs = stack.enter_context(closing(_outputs(folder, specs, batch)))
            _begin(journal, outputs)
        first = journal.done
        solve = _solver(function, device, batch, window)
        each = batch.n**2 * batch.dtype.itemsize
        bar = Progress(batch.count, first, each) if progress else None
        _work(batch, outputs, journal, window, solve, bar)
        counts, failed = counted(outputs, batch.count)
    seconds = time.monotonic() - began
    return Summary(outputs.paths, counts, failed, batch.count - first, seconds)


def _opened(path: Path) -> Batch:
    """The matrices in a file, or in a folder of zarr."""
    if path.is_dir():
        from .zarr import ZarrInput

        return ZarrInput(path)
    return NpyInput(path)


def _outputs(folder: Path, specs: Mapping[str, Spec], batch: Batch) -> Outputs:
    """Files of the format that the matrices have."""
    if isinstance(batch, NpyInput):
        return NpyOutputs(folder, specs)
    from .zarr import ZarrInput, ZarrOutputs

    assert isinstance(batch, ZarrInput)
    return ZarrOutputs(folder, specs, batch.chunks)


def _specs(function: Callable, batch: Batch, device: str) -> dict[str, Spec]:
    """Names, shapes and dtypes of the results, as the function gives them for none."""
    none = function(put(np.empty((0, batch.n, batch.n), batch.dtype), device))
    return {
        name: Spec((*batch.leading, *x.shape[1:]), x.dtype)
        for name, x in none._asdict().items()
    }


def _bytes_of_one(specs: Mapping[str, Spec], batch: Batch) -> int:
    """Bytes of a matrix, as it comes and as it may be computed, and of its results."""
    entries = batch.n**2
    results = sum(spec.nbytes for spec in specs.values()) // max(batch.count, 1)
    of_input = batch.dtype.itemsize + compute_dtype(batch.dtype).itemsize
    return max(results + entries * of_input, 1)


def _task(name, options, device, batch: Batch, window: int) -> dict[str, Any]:
    """What determines the results to the last bit."""
    engine = choose(
        batch.n,
        compute_dtype(batch.dtype),
        device,
        eigenvectors=name != "eigvalsh",
        driver=options["driver"],
    ).engine
    return {
        "bed": bed.__version__,
        "function": name,
        "options": dict(options),
        "device": device,
        "engine": engine.name,
        "window": None if engine.same_bits else window,
        "input": batch.fingerprint(),
    }


def _begin(journal: Journal, outputs: Outputs) -> None:
    """Make the outputs, unless that is done, and open them."""
    if journal.is_new:
        there = [str(path) for path in outputs.paths.values() if path.exists()]
        if there:
            raise ValueError(
                f"{', '.join(there)} would be overwritten: give another folder"
            )
        journal.write()
    if not journal.prepared:
        outputs.prepare()
        journal.note(0)
    outputs.open()


def _solver(function, device: str, batch: Batch, window: int) -> Callable:
    """``solve(a)`` begins with some matrices; what it returns waits for the results."""
    if device == "cpu":

        def solve(a):
            results = function(a)
            return lambda: results

        return solve
    from .on_cuda import OnCuda

    return OnCuda(function, batch.n, batch.dtype, window)


def _work(
    batch: Batch,
    outputs: Outputs,
    journal: Journal,
    window: int,
    solve: Callable,
    bar: Progress | None,
) -> None:
    """Solve and write what is left, one window beside the other."""

    def write(start: int, stop: int, wait: Callable) -> None:
        results = wait()
        batch.check_unchanged()
        with _told(outputs.folder):
            outputs.write(start, results._asdict())
            journal.note(stop)
        if bar:
            bar.show(stop)

    with ThreadPoolExecutor(1, "bed-files") as writer:
        writing: Future | None = None
        try:
            for start in range(journal.done, batch.count, window):
                stop = min(start + window, batch.count)
                wait = solve(batch.read(start, stop))
                if writing is not None:
                    writing.result()
                writing = writer.submit(write, start, stop, wait)
            if writing is not None:
                writing.result()
        finally:
            if bar:
                bar.end()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Errors of the system in a sentence, with what can be done."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            told = (
                f"no room for the results in {folder}: once there is, the same command "
                "goes on from what is done"
            )
        else:
            told = f"cannot write to {folder}: {error.strerror or error}"
        raise OSError(told) from error
