"""Time functions of matrices and their gradients against peers, under torch."""

import csv
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import bed

from .._config import installed_versions, processor
from .._console import progress, show
from ..engines._threads import thread_count
from ..testing.clock import in_turns

# Matrices in a batch, for each size.
BATCHES = {2: 20000, 3: 20000, 4: 20000, 8: 5000, 16: 1000, 32: 300, 64: 100}
SIZES = (3, 4, 8, 16, 32)
POWER = -0.25
# SciPy takes one matrix at a time: so many are timed, and the time is scaled.
OF_SCIPY = 50

FUNCTIONS: dict[str, Callable] = {
    "sqrtm": bed.sqrtm,
    "invsqrtm": bed.invsqrtm,
    "logm": bed.logm,
    "expm": bed.expm,
    "powm": lambda a: bed.powm(a, POWER),
    "absm": bed.absm,
    "signm": bed.signm,
    "clampm": lambda a: bed.clampm(a, 0.5, 1.5),
}


class Line(NamedTuple):
    """Milliseconds of bed.eigh, of a function, and of peers with what they did."""

    dtype: str
    n: int
    batch: int
    error: float  # of the gradient, or of the function, to double precision
    eigh_ms: float
    forward_ms: float
    total_ms: float
    peers_ms: dict[str, float]

    def shown(self) -> str:
        """The line of the table."""
        times = (
            f"{ms:14.2f}{ms / self.total_ms:7.1f}" for ms in self.peers_ms.values()
        )
        return (
            f"{self.dtype:11}{self.n:4}{self.batch:8}{self.error:10.1e}"
            f"{self.eigh_ms:9.3f}{self.forward_ms:9.3f}"
            f"{self.forward_ms / self.eigh_ms:7.2f}{self.total_ms:9.3f}{''.join(times)}"
        )

    def written(self) -> dict[str, Any]:
        """The line of the file."""
        line = self._asdict()
        peers = line.pop("peers_ms")
        line |= {"forward_ratio": self.forward_ms / self.eigh_ms}
        for name, ms in peers.items():
            line |= {f"{name}_ms": ms, f"{name}_ratio": ms / self.total_ms}
        return {k: f"{x:.4g}" if isinstance(x, float) else x for k, x in line.items()}


def run(options) -> int:
    """Print one line for every combination of the options."""
    try:
        import torch
    except ImportError as error:
        raise SystemExit("--function needs torch: pip install torch") from error

    threads = thread_count()
    torch.set_num_threads(threads)
    rng = np.random.default_rng(options.seed)
    peers = _peers(torch, options)
    machine = f"{processor()}; {', '.join(installed_versions())}"
    what = "forward and backward of <G, f(A)>" if options.backward else "forward"
    setting = f"{options.function}; {what}; {threads} threads, torch as many"
    names = (f"{name + ' ms':>14}{'ratio':>7}" for name in peers)
    show(
        machine,
        setting,
        f"{'dtype':11}{'n':>4}{'batch':>8}{'error':>10}{'eigh ms':>9}{'forward':>9}"
        f"{'ratio':>7}{'in all':>9}{''.join(names)}",
    )
    lines = []
    for line in _lines(torch, rng, peers, options):
        show(line.shown())
        lines.append(line.written())
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            file.writelines(f"# {text}\n" for text in (machine, setting))
            writer = csv.DictWriter(file, lines[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    return 0


def _peers(torch, options) -> dict[str, Callable]:
    """Name to a function of tensors: all that is here, or what torch composes."""
    own = {"expm": "matrix_exp", "sqrtm": "matrix_sqrth"}.get(options.function, "")
    peers = {"torch.eigh": _composed(torch, options.function)}
    if hasattr(torch.linalg, own):
        peers[own] = getattr(torch.linalg, own)
    if options.peers and not options.backward and options.function in _SCIPY:
        peers["scipy"] = _of_scipy(torch, options.function)
    return peers


_SCIPY = ("sqrtm", "logm", "expm")


def _of_scipy(torch, name):
    import scipy.linalg

    function = getattr(scipy.linalg, name)
    return lambda a: [function(x) for x in a.detach().numpy()]


def _composed(torch, name):
    """f(A) as it is written by hand, from `torch.linalg.eigh`."""
    of_values = {
        "sqrtm": torch.sqrt,
        "invsqrtm": torch.rsqrt,
        "logm": torch.log,
        "expm": torch.exp,
        "powm": lambda w: w**POWER,
        "absm": torch.abs,
        "signm": torch.sign,
        "clampm": lambda w: w.clamp(0.5, 1.5),
    }[name]

    def function(a):
        w, v = torch.linalg.eigh(a)
        return (v * of_values(w)[..., None, :]) @ v.mH

    return function


def _lines(torch, rng, peers, options) -> Iterator[Line]:
    for dtype in options.dtype:
        for n in options.n or SIZES:
            for batch in options.batch or [BATCHES.get(n, 100)]:
                progress(f"{dtype} n = {n}, batch {batch} …")
                line = _measure(torch, rng, peers, options, dtype, n, batch)
                progress("")
                yield line


def _measure(torch, rng, peers, options, dtype, n, batch) -> Line:
    x = rng.standard_normal((batch, n, 2 * n)) / np.sqrt(2 * n)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(x.shape) / np.sqrt(2 * n)
    a = torch.from_numpy((x @ x.conj().swapaxes(1, 2)).astype(dtype))
    g = torch.from_numpy(rng.standard_normal(a.shape).astype(dtype))
    ours = FUNCTIONS[options.function]

    def called(f, a=a, g=g):
        if not options.backward:
            return lambda: f(a)
        leaf = a.clone().requires_grad_()

        def call():
            return torch.autograd.grad(f(leaf), leaf, g)[0]

        return call

    few = slice(0, OF_SCIPY)
    wide = torch.complex128 if a.is_complex() else torch.float64
    found = called(ours, a[few], g[few])()
    exact = called(ours, a[few].to(wide), g[few].to(wide))()
    error = float((found - exact).abs().amax() / exact.abs().amax())
    calls = {
        "eigh": lambda: bed.eigh(a),
        "forward": lambda: ours(a),
        "total": called(ours),
    }
    for name, peer in peers.items():
        calls[name] = called(peer) if name != "scipy" else called(peer, a[few])
    times = in_turns(calls, rounds=21, enough=6.0)
    ms = {name: seconds * 1e3 for name, seconds in times.items()}
    if "scipy" in ms:
        ms["scipy"] *= batch / len(a[few])
    return Line(
        dtype,
        n,
        batch,
        error,
        ms.pop("eigh"),
        ms.pop("forward"),
        ms.pop("total"),
        ms,
    )
