"""Time bed.eigh against its peers on random matrices; results are checked."""

import argparse
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bed

from .._config import machine_and_versions, no_gpu
from .._console import progress, show
from .._dispatch.dtypes import compute_dtype
from .._dispatch.interop import put, to_host
from ..engines import DTYPES, get
from ..engines._threads import thread_count
from ..testing.accuracy import PROMISE, Errors, measure
from ..testing.clock import in_turns
from ..testing.matrices import random_hermitian
from ._functions import FUNCTIONS
from ._functions import run as run_functions
from ._peers import NAMES, Peer, available, awaited, best_device
from ._table import on_halves, write_table

# Matrices of the batch that are checked before timing; all of a small batch.
CHECKED = 100
# Matrices of a batch by default, and the bytes that they may have. From 32 MiB on the
# memory of results is the system's each time, and handing it out may take as long.
BATCH, MEMORY = 10_000, 2**24
# In n·eps: a peer may be less accurate than bed promises to be, but not this wrong.
WRONG = 1000


class Line(NamedTuple):
    """One measurement; times in milliseconds, errors in n·eps.

    `peers_ms` has the peers that were timed, `wrong` the errors of those that were not.
    """

    dtype: str
    n: int
    batch: int
    engine: str
    threads: int
    worst_error: float
    bed_ms: float
    peers_ms: dict[str, float]
    best_peer: str
    wrong: dict[str, float]

    def ratio(self, peer: str) -> float:
        """Time of a peer over that of bed."""
        return self.peers_ms.get(peer, np.nan) / self.bed_ms

    def shown(self, peers: Sequence[Peer]) -> Iterator[str]:
        """The line of the table, and a sentence for each peer that is wrong."""
        times = (
            f"{self.peers_ms.get(peer.name, np.nan):11.3f}{self.ratio(peer.name):7.2f}"
            for peer in peers
        )
        yield (
            f"{self.dtype:11}{self.n:4}{self.batch:9} {self.engine:11}"
            f"{self.worst_error:12.2f}{self.bed_ms:11.3f}{''.join(times)}"
            f"{self.batch / self.bed_ms * 1e3:13.4g}{self.ratio(self.best_peer):7.2f}"
        )
        for name, error in self.wrong.items():
            yield f"{name} is wrong here, and not timed: error {error:.3g} n·eps"

    def written(self) -> dict[str, Any]:
        """The line of the file; it has columns for all peers that there may be."""
        line = self._asdict()
        times, best = line.pop("peers_ms"), line.pop("best_peer")
        del line["wrong"]
        line |= {f"{name}_ms": times.get(name, np.nan) for name in NAMES}
        line |= {"best_peer": best, "best_ratio": self.ratio(best)}
        return line


def _header(peers: Sequence[Peer]) -> str:
    names = (f"{peer.name + ' ms':>11}{'ratio':>7}" for peer in peers)
    return (
        f"{'dtype':11}{'n':>4}{'batch':>9} {'engine':11}{'worst n·eps':>12}"
        f"{'bed ms':>11}{''.join(names)}{'matrices/s':>13}{'best':>7}"
    )


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    parser.add_argument("--n", type=_positive, nargs="+", help="sizes")
    limit = f"{MEMORY // 2**20} MiB"
    usual = f"by default {BATCH}, fewer of those that would take more than {limit}"
    parser.add_argument("--batch", type=_positive, nargs="+", help=usual)
    names = [*(dtype.name for dtype in DTYPES), "float16"]
    parser.add_argument("--dtype", nargs="+", choices=names)
    parser.add_argument(
        "--function", choices=FUNCTIONS, help="time a function of matrices, under torch"
    )
    parser.add_argument("--backward", action="store_true", help="and its gradient")
    parser.add_argument("--power", type=float, help="of powm, by default -0.25")
    parser.add_argument("--driver", default="auto", help="engine, see `info`")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--values-only", action="store_true", help="time eigvalsh")
    parser.add_argument("--torch", action="store_true", help="time torch.linalg too")
    parser.add_argument("--peers", action="store_true", help="time all that are here")
    parser.add_argument("--eigen", type=Path, help="folder with the headers of Eigen")
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--seed", type=_positive, default=None)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def run(options) -> int:
    """Print one line for every combination of the options."""
    if options.driver != "auto":
        get(options.driver)  # one that is not here is refused before the table begins
    if options.power is not None and options.function != "powm":
        raise ValueError("--power is for --function powm")
    if options.function:
        options.power = -0.25 if options.power is None else options.power
        return run_functions(options)
    if options.backward:
        raise ValueError("--backward is for --function")
    options.n = options.n or [2, 3, 4, 8, 16, 32, 64]
    options.dtype = options.dtype or ["float32", "float64"]
    device = options.device or best_device()
    if device == "cuda" and (problem := no_gpu()):
        raise SystemExit(f"--device cuda {problem}")
    if options.csv:
        options.csv.touch()  # before the work, if that cannot be done
    seed = secrets.randbits(32) if options.seed is None else options.seed
    peers, absent = available(options)
    machine = machine_and_versions()
    setting = (
        f"seed {seed}; {_function(options)}; {device}; bed: {thread_count()} threads; "
        "the peers on the CPU, one thread each: "
        + ", ".join(f"{peer.name} {peer.version}".strip() for peer in peers)
    )
    remarks = [*absent, *(peer.remark for peer in peers if peer.remark)]
    remarks += on_halves(options.dtype)
    show(machine, setting, *remarks, _header(peers))
    lines = []
    for line in _lines(np.random.default_rng(seed), device, peers, options):
        show(*line.shown(peers))
        lines.append(line)
    if options.csv:
        rows = [line.written() for line in lines]
        write_table(options.csv, (machine, setting, *remarks), rows)
    return 0


def _function(options) -> str:
    return "eigvalsh" if options.values_only else "eigh"


def _lines(rng, device, peers, options) -> Iterator[Line]:
    for dtype in options.dtype:
        for n in options.n:
            for batch in options.batch or [_usual_batch(n, dtype)]:
                progress(f"{dtype} n = {n}, batch {batch} …")
                a = random_hermitian(rng, (batch, n, n), compute_dtype(dtype))
                line = _measure(a, device, peers, options)
                progress("")
                yield line


def _usual_batch(n: int, dtype: str) -> int:
    each = n * n * compute_dtype(dtype).itemsize
    return min(BATCH, max(1, MEMORY // each))


def _measure(a, device, peers, options) -> Line:
    function, n = _function(options), a.shape[-1]
    ours, there, few = getattr(bed, function), put(a, device), slice(0, CHECKED)
    w, v = (to_host(x) for x in bed.eigh(there[few], driver=options.driver))
    worst = _largest(measure(a[few], w, v))
    if not worst <= PROMISE:
        raise SystemExit(f"wrong result for {a.dtype}, n = {n}: error {worst} n·eps")
    explained = bed.explain(
        there, eigenvectors=not options.values_only, driver=options.driver
    )
    calls = {"bed": awaited(lambda: ours(there, driver=options.driver), device)}
    wrong = {}
    for peer in peers:
        call, checked = peer.ready(function, a), peer.ready(function, a[few])
        if call is None or checked is None:
            continue
        with peer.alone():
            error = _error(function, checked(), a[few], w)
        if error <= WRONG:
            calls[peer.name] = call
        else:
            wrong[peer.name] = error
    seconds = in_turns(calls, within={peer.name: peer.alone for peer in peers})
    times = {name: each * 1e3 for name, each in seconds.items()}
    bed_ms = times.pop("bed")
    counted = [peer.name for peer in peers if peer.counts and peer.name in times]
    return Line(
        str(a.dtype),
        n,
        len(a),
        explained.engine,
        thread_count(),
        worst,
        bed_ms,
        times,
        min(counted, key=times.__getitem__, default=""),
        wrong,
    )


def _error(function: str, result, a, w) -> float:
    """Error of a result; of eigenvalues alone, against those that were checked."""
    found, v = (result, None) if function == "eigvalsh" else result
    found = np.asarray(found).real  # complex ones of tensorflow
    if v is None:
        return _largest(measure(a, found, exact=w))
    return _largest(measure(a, found, np.asarray(v)))


def _largest(errors: Errors) -> float:
    """The largest error, NaN if a result has one."""
    return float(np.max([x.max() for x in errors if x is not None]))
