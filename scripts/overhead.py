#!/usr/bin/env python
"""Microseconds that a call costs besides the solving, for arrays of every library.

    python scripts/overhead.py
    python scripts/overhead.py --csv scripts/results/single.csv

Every library's array holds the same tiny batch. The bare engine solves the array's own
memory into outputs that are there already; what `bed.eigh` takes longer is overhead:
opening the array, choosing, allocating, handing the results back. Runs of calls take
turns, and medians count. Exits with 1 if the overhead for NumPy arrays, or for torch
tensors on the CPU without gradient, is above its limit. A second table has the pieces
of such a call, and a third one, which `--csv` keeps, single matrices beside
numpy.linalg. For calls on a GPU see scripts/acceptance/overhead.py.
"""

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import bed
from bed import engines
from bed._config import machine_and_versions
from bed._console import ArgumentParser, show
from bed._dispatch import again
from bed._dispatch.interop import library_of
from bed._dispatch.normalize import normalize
from bed._dispatch.policy import loaded
from bed._status import EighResult
from bed.cli._table import write_table
from bed.engines._threads import thread_count
from bed.testing.clock import in_turns
from bed.testing.matrices import random_hermitian

# Calls that follow each other, as in a loop of the caller.
RUN = 20
# Single matrices beside numpy.linalg: the function and n.
SINGLE = [("eigvalsh", 2), *(("eigh", n) for n in (2, 3, 4, 6, 8, 16, 32, 64))]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, return the exit code."""
    options = parse(arguments)
    shape = (options.batch, options.n, options.n)
    a = np.eye(options.n, dtype=options.dtype) + np.ones(shape, options.dtype)
    arrays = {name: wrap(a) for name, wrap in wraps().items()}
    machine = machine_and_versions()
    medians_of = f"medians of {options.calls} runs of {RUN} calls, in µs a call"
    show(machine)
    show(
        f"{a.dtype} {shape}; engine {bed.explain(a).engine}, {thread_count()} threads; "
        f"{medians_of}"
    )
    overhead = whole_calls(arrays, options.calls)
    show()
    pieces_of_calls(arrays, options.calls)
    show()
    rows = single_matrices(options.calls)
    if options.csv:
        write_table(options.csv, (machine, medians_of), rows)
    show()
    limits = {"numpy": options.limit_numpy, "torch": options.limit}
    above = [verdict(name, overhead.get(name), most) for name, most in limits.items()]
    return int(any(above))


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=15.0, help="µs, for torch")
    parser.add_argument("--limit-numpy", type=float, default=8.0, help="µs, for NumPy")
    parser.add_argument("--calls", type=int, default=200, help="runs of every kind")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--csv", type=Path, help="keep the table of single matrices")
    return parser.parse_args(arguments)


def whole_calls(arrays: dict, runs: int) -> dict[str, float]:
    """Print a line for every array; the overhead of each."""
    show(f"{'array':24}{'bed.eigh':>10}{'engine':>10}{'overhead':>10}")
    pairs = {name: calls(x) for name, x in arrays.items()}
    overhead = {}
    for name, (ours, bare) in medians(pairs, runs).items():
        overhead[name] = ours - bare
        show(f"{name:24}{ours:10.2f}{bare:10.2f}{ours - bare:10.2f}")
    return overhead


def pieces_of_calls(arrays: dict, runs: int) -> None:
    """Print what the parts of a call take, where nothing is traced."""
    there = {name: x for name, x in arrays.items() if name in ("numpy", "torch")}
    parts = {name: pieces(x) for name, x in there.items()}
    found = medians(
        {name: tuple(calls.values()) for name, calls in parts.items()}, runs
    )
    show(f"{'piece of a call':24}" + "".join(f"{name:>10}" for name in found))
    for i, piece in enumerate(parts["numpy"]):
        show(f"{piece:24}" + "".join(f"{times[i]:10.2f}" for times in found.values()))


def single_matrices(runs: int) -> list[dict]:
    """Print calls with one matrix, in double precision, beside those of NumPy."""
    rng = np.random.default_rng(0)
    named, rows = {}, []
    for name, n in SINGLE:
        a = random_hermitian(rng, (n, n), "f8")
        ours, numpys = getattr(bed, name), getattr(np.linalg, name)
        named[name, n] = (
            lambda f=ours, a=a: f(a),
            lambda f=ours, a=a: f(a, check=True),
            lambda f=numpys, a=a: f(a),
        )
    show(f"{'float64':24}{'bed':>10}{'check':>10}{'numpy':>10}{'ratio':>10}")
    for (name, n), (ours, checked, numpys) in medians(named, runs).items():
        times = f"{ours:10.2f}{checked:10.2f}{numpys:10.2f}"
        show(f"{f'{name}, one {n} × {n}':24}{times}{numpys / ours:10.3g}")
        found = {"bed_us": ours, "check_us": checked, "numpy_us": numpys}
        rows.append({"function": name, "n": n, **found})
    return rows


def verdict(name: str, overhead: float | None, limit: float) -> bool:
    """Print whether a limit was kept; True if it was not."""
    if overhead is None:
        show(f"limit of {limit:g} µs: not checked, {name} is not installed")
        return False
    above = overhead > limit
    told = "EXCEEDED" if above else "kept"
    show(f"limit of {limit:g} µs for {name}: {told}")
    return above


def wraps() -> dict:
    """By name what turns a NumPy array into an array of a library."""
    found = {"numpy": lambda a: a}
    if find_spec("torch"):
        import torch

        found["torch"] = torch.from_numpy
        found["torch, requires_grad"] = lambda a: torch.tensor(a, requires_grad=True)
    if find_spec("jax"):
        import jax

        found["jax"] = lambda a: jax.device_put(a, jax.devices("cpu")[0])
    return found


def calls(x) -> tuple:
    """A call of bed with an array, and of the engine alone on the array's memory."""
    host = x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)
    engine = engines.get(bed.explain(host).engine).load()
    out = engine(host)

    def bare():
        return engine(host, "L", eigenvectors=True, out=out)

    return (lambda: bed.eigh(x)), bare


def pieces(x) -> dict[str, Callable]:
    """The parts of a call with an array that nothing traces, by themselves."""
    library = library_of(x)
    received = library.receive(x)
    a, leading, dtype = normalize(received)
    n = a.shape[-1]
    outputs = engines.allocate(received.empty, (*leading, n), dtype)
    opened = received.open_batch(outputs, leading)
    _, solve = loaded(n, dtype, "cpu", True, "auto")
    bed.eigh(received.array)

    def context():
        with received.running():
            pass

    return {
        "library_of, traces": lambda: library.traces(x) or library_of(x),
        "receive": lambda: library.receive(x),
        "running": context,
        "normalize": lambda: normalize(received),
        "loaded": lambda: loaded(n, dtype, "cpu", True, "auto"),
        "allocate": lambda: engines.allocate(received.empty, (*leading, n), dtype),
        "open_batch": lambda: received.open_batch(outputs, leading),
        "the engine": lambda: solve(a, "L", eigenvectors=True, out=opened),
        "close": lambda: received.close(outputs, leading),
        "EighResult": lambda: EighResult(outputs[0], outputs[1]),
        "all, as NumPy, again": lambda: again.solve(received.array, "L", True),
    }


def medians(groups: dict, runs: int) -> dict[str, tuple[float, ...]]:
    """Microseconds of every call; runs of them take turns, so all see one machine."""
    flat = {
        (name, i): lambda call=call: [call() for _ in range(RUN)]
        for name, group in groups.items()
        for i, call in enumerate(group)
    }
    seconds = in_turns(flat, rounds=runs, enough=np.inf)
    return {
        name: tuple(seconds[name, i] * 1e6 / RUN for i in range(len(group)))
        for name, group in groups.items()
    }


if __name__ == "__main__":
    raise SystemExit(main())
