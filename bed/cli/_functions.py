"""Time functions of matrices and their gradients against peers, under torch."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import bed

from .._config import machine_and_versions
from .._console import progress, show
from .._dispatch.dtypes import compute_dtype
from ..engines._threads import thread_count
from ..testing.clock import in_turns
from ..testing.matrices import random_hermitian
from ._table import on_halves, write_table

# Matrices in a batch, for each size.
BATCHES = {2: 20000, 3: 20000, 4: 20000, 8: 5000, 16: 1000, 32: 300, 64: 100}
SIZES = (3, 4, 8, 16, 32)
# Matrices that are checked before timing. Peers that take one at a time are timed with
# them, and the time is scaled.
FEW = 50
# More than for other tables: backward passes of torch differ from call to call.
ROUNDS, ENOUGH = 21, 8.0
# Seconds that a call has in a round, about as long as the longest peers take.
TURN = 0.02
# In n·eps of the largest number: rounding in small eigenvalues and gaps stays below.
WRONG = 1000

# What bed takes behind the matrices; the power is that of the options.
ARGUMENTS: dict[str, tuple[float, ...]] = {
    "sqrtm": (),
    "invsqrtm": (),
    "logm": (),
    "expm": (),
    "powm": (),
    "absm": (),
    "signm": (),
    "clampm": (0.5, 1.5),
}
FUNCTIONS = tuple(ARGUMENTS)
# Those that do something to negative eigenvalues alone; the others get none.
OF_SIGNS = ("absm", "signm")
OF_TORCH = {"expm": "matrix_exp", "sqrtm": "matrix_sqrth"}
OF_SCIPY = ("sqrtm", "logm", "expm")


class Line(NamedTuple):
    """Milliseconds of bed.eigh, of a function, and of peers with what they did.

    `peers_ms` has the peers that were timed, `wrong` the errors of those that were not.
    """

    dtype: str
    n: int
    batch: int
    threads: int
    error: float  # of what is timed, to double precision; relative to the largest
    eigh_ms: float
    forward_ms: float
    total_ms: float
    peers_ms: dict[str, float]
    wrong: dict[str, float]

    @property
    def best(self) -> str:
        """The fastest peer."""
        return min(self.peers_ms, key=self.peers_ms.__getitem__, default="")

    def ratio(self, peer: str) -> float:
        """Time of a peer over that of bed."""
        return self.peers_ms.get(peer, np.nan) / self.total_ms

    def shown(self, peers: Sequence[str]) -> Iterator[str]:
        """The line of the table, and a sentence for each peer that is wrong."""
        times = (
            f"{self.peers_ms.get(name, np.nan):16.2f}{self.ratio(name):7.1f}"
            for name in peers
        )
        yield (
            f"{self.dtype:11}{self.n:4}{self.batch:8}{self.error:10.1e}"
            f"{self.eigh_ms:9.3f}{self.forward_ms:9.3f}"
            f"{self.forward_ms / self.eigh_ms:7.2f}{self.total_ms:9.3f}"
            f"{''.join(times)}{self.ratio(self.best):7.1f}"
        )
        for name, error in self.wrong.items():
            yield f"{name} is wrong here, and not timed: error {error:.1e}"

    def written(self, peers: Sequence[str]) -> dict[str, Any]:
        """The line of the file."""
        line = self._asdict()
        times = line.pop("peers_ms")
        del line["wrong"]
        line |= {"forward_ratio": self.forward_ms / self.eigh_ms}
        for name in peers:
            line |= {f"{name}_ms": times.get(name, np.nan)}
            line |= {f"{name}_ratio": self.ratio(name)}
        line |= {"best_peer": self.best, "best_ratio": self.ratio(self.best)}
        return line


def _header(peers: Sequence[str]) -> str:
    names = (f"{name + ' ms':>16}{'ratio':>7}" for name in peers)
    return (
        f"{'dtype':11}{'n':>4}{'batch':>8}{'error':>10}{'eigh ms':>9}{'forward':>9}"
        f"{'ratio':>7}{'in all':>9}{''.join(names)}{'best':>7}"
    )


def run(options) -> int:
    """Print one line for every combination of the options."""
    if options.device == "cuda" or options.values_only or options.eigen:
        raise ValueError(
            "--function is timed on the CPU, without --values-only and --eigen"
        )
    try:
        import torch
    except ImportError as error:
        raise ImportError("--function needs torch: pip install torch") from error

    if options.csv:
        options.csv.touch()  # before the work, if that cannot be done
    options.dtype = options.dtype or ["float32"]
    seed = secrets.randbits(32) if options.seed is None else options.seed
    threads = thread_count()
    peers = _peers(torch, options)
    machine = machine_and_versions()
    what = "forward and backward of <G, f(A)>" if options.backward else "forward"
    power = f" {options.power:g}" if options.function == "powm" else ""
    setting = (
        f"seed {seed}; {options.function}{power}; {what}; driver {options.driver}; "
        f"bed: {threads} threads, torch as many"
    )
    remarks = [f"python -m bed {options.command}", *on_halves(options.dtype)]
    if "scipy" in peers:
        remarks.append(f"scipy: one matrix at a time, {FEW} at most, time scaled")
    show(machine, setting, *remarks, _header([*peers]))
    lines = []
    with _threads(torch, threads):
        rng = np.random.default_rng(seed)
        for line in _lines(torch, rng, peers, options):
            show(*line.shown([*peers]))
            lines.append(line.written([*peers]))
    if options.csv:
        write_table(options.csv, (machine, setting, *remarks), lines)
    return 0


@contextmanager
def _threads(torch, threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _peers(torch, options) -> dict[str, Callable]:
    """Name to a function of tensors: all that is here, or what torch composes."""
    name = options.function
    peers = {"torch.eigh": _composed(torch, options)}
    if hasattr(torch.linalg, own := OF_TORCH.get(name, "")):
        peers[own] = getattr(torch.linalg, own)
    if options.peers and not options.backward and name in OF_SCIPY:
        import scipy.linalg

        of_one = getattr(scipy.linalg, name)
        peers["scipy"] = lambda a: torch.from_numpy(
            np.stack([of_one(x) for x in a.numpy()])
        )
    return peers


def _ours(options) -> Callable:
    function, name = getattr(bed, options.function), options.function
    arguments = (options.power,) if name == "powm" else ARGUMENTS[name]
    return lambda a: function(a, *arguments, driver=options.driver)


def _composed(torch, options) -> Callable:
    """f(A) as it is written by hand, from `torch.linalg.eigh`."""
    of_values = {
        "sqrtm": torch.sqrt,
        "invsqrtm": torch.rsqrt,
        "logm": torch.log,
        "expm": torch.exp,
        "powm": lambda w: w**options.power,
        "absm": torch.abs,
        "signm": torch.sign,
        "clampm": lambda w: w.clamp(*ARGUMENTS["clampm"]),
    }[options.function]

    def function(a):
        w, v = torch.linalg.eigh(a)
        return (v * of_values(w)[..., None, :]) @ v.mH

    return function


def _lines(torch, rng, peers, options) -> Iterator[Line]:
    for dtype in options.dtype:
        for n in options.n or SIZES:
            for batch in options.batch or [BATCHES.get(n, 100)]:
                progress(f"{dtype} n = {n}, batch {batch} …")
                shape = (batch, n, n)
                a = _matrices(rng, shape, compute_dtype(dtype), options.function)
                g = random_hermitian(rng, shape, a.dtype)
                line = _measure(torch, a, g, peers, options)
                progress("")
                yield line


def _matrices(rng, shape, dtype, function: str):
    """Covariances of 2 n samples, or matrices with eigenvalues of both signs."""
    if function in OF_SIGNS:
        return random_hermitian(rng, shape, dtype)
    batch, n, _ = shape
    x = rng.standard_normal((batch, n, 2 * n))
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    return (x @ x.conj().swapaxes(1, 2) / (2 * n)).astype(dtype)


def _measure(torch, a, g, peers: Mapping[str, Callable], options) -> Line:
    dtype, (batch, n, _) = a.dtype, a.shape
    a, g, ours = torch.from_numpy(a), torch.from_numpy(g), _ours(options)

    def called(f, a=a, g=g):
        if not options.backward:
            return lambda: f(a)
        leaf = a.clone().requires_grad_()
        return lambda: torch.autograd.grad(f(leaf), leaf, g)[0]

    few = a[:FEW], g[:FEW]
    wide = torch.complex128 if a.is_complex() else torch.float64
    exact = called(_composed(torch, options), *(x.to(wide) for x in few))()

    def error_of(f):
        error = (called(f, *few)() - exact).abs().amax()
        return float(error / (exact.abs().amax() or 1))  # of sign, 0 may be right

    error, limit = error_of(ours), WRONG * n * float(np.finfo(dtype).eps)
    if not error <= limit:
        raise SystemExit(f"wrong result for {dtype}, n = {n}: error {error:.1e}")
    calls = {
        "eigh": lambda: bed.eigh(a, driver=options.driver),
        "forward": lambda: ours(a),
    }
    if options.backward:
        calls["total"] = called(ours)
    wrong = {}
    for name, peer in peers.items():
        if (of_peer := error_of(peer)) <= limit:
            calls[name] = called(peer, *few) if name == "scipy" else called(peer)
        else:
            wrong[name] = of_peer
    times = in_turns(calls, rounds=ROUNDS, enough=ENOUGH, turn=TURN)
    ms = {name: seconds * 1e3 for name, seconds in times.items()}
    if "scipy" in ms:
        ms["scipy"] *= batch / len(few[0])
    eigh, forward = ms.pop("eigh"), ms.pop("forward")
    total = ms.pop("total", forward)
    return Line(
        str(dtype), n, batch, thread_count(), error, eigh, forward, total, ms, wrong
    )
