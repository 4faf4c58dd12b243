#!/usr/bin/env python
"""Microseconds that a call costs besides the solving, for arrays of every library.

    python scripts/overhead.py

Every library's array holds the same tiny batch. The bare engine solves the array's own
memory into outputs that are there already; what `bed.eigh` takes longer is overhead:
opening the array, choosing, allocating, handing the results back. All calls take turns,
and medians count. Exits with 1 if the overhead for torch tensors on the CPU, without
gradient, is above --limit. For calls on a GPU see scripts/acceptance/overhead.py.
"""

import argparse
from importlib.util import find_spec

import numpy as np

import bed
from bed import engines
from bed._config import installed_versions, processor
from bed._console import ArgumentParser, show
from bed.engines._threads import thread_count
from bed.testing.clock import in_turns

LIMITED = "torch"  # the row that --limit is about


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, return the exit code."""
    options = parse(arguments)
    shape = (options.batch, options.n, options.n)
    a = np.eye(options.n, dtype=options.dtype) + np.ones(shape, options.dtype)
    pairs = {name: calls(wrap(a)) for name, wrap in wraps().items()}
    show(f"{processor()}; {', '.join(installed_versions())}")
    show(
        f"{a.dtype} {shape}; engine {bed.explain(a).engine}, {thread_count()} threads; "
        f"medians of {options.calls} calls, in µs"
    )
    show(f"{'array':24}{'bed.eigh':>10}{'engine':>10}{'overhead':>10}")
    overhead = {}
    for name, (ours, bare) in medians(pairs, options.calls).items():
        overhead[name] = ours - bare
        show(f"{name:24}{ours:10.1f}{bare:10.1f}{ours - bare:10.1f}")
    if LIMITED not in overhead:
        show(f"limit of {options.limit:g} µs: not checked, torch is not installed")
        return 0
    above = overhead[LIMITED] > options.limit
    verdict = "EXCEEDED" if above else "kept"
    show(f"limit of {options.limit:g} µs for {LIMITED}: {verdict}")
    return int(above)


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=60.0, help="µs, for torch")
    parser.add_argument("--calls", type=int, default=2000, help="of every kind")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--n", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    return parser.parse_args(arguments)


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


def medians(pairs: dict, count: int) -> dict[str, tuple[float, float]]:
    """Microseconds of every call, in turns: all see the same state of the machine."""
    flat = {
        (name, i): call for name, pair in pairs.items() for i, call in enumerate(pair)
    }
    seconds = in_turns(flat, rounds=count, enough=np.inf)
    return {name: (seconds[name, 0] * 1e6, seconds[name, 1] * 1e6) for name in pairs}


if __name__ == "__main__":
    raise SystemExit(main())
