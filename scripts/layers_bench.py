#!/usr/bin/env python
"""Time whitening layers beside the same layers on decompositions of torch.

    python scripts/layers_bench.py

Forward and backward of `bed.nn.ZCAWhitening2d` on one activation, for some groups of
channels, and of the same layer with its root composed from `torch.linalg.eigh` and from
`torch.linalg.svd`. All take turns in one run, in another order each round; a ratio is
the median over rounds of a layer's time to that of a peer in the same round, and that
to the faster peer is shown. The share is that of the root and its gradient, by
themselves, in the time of the layer. Exits with 1 if a ratio is above its limit.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from applications._roots import by_eigh, by_svd, with_inverse_root

import bed.nn
from bed._config import machine_and_versions
from bed._console import ArgumentParser, show
from bed.engines._threads import thread_count
from bed.nn._roots import inverse_root
from bed.testing.clock import in_turns

# Groups and channels of each.
GROUPS = ((16, 4), (8, 8), (4, 16))
PEERS = ("torch eigh", "torch svd")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, return the exit code."""
    options = parse(arguments)
    torch.set_num_threads(thread_count())
    torch.manual_seed(options.seed)
    x = torch.randn(options.shape)
    show(machine_and_versions())
    show(
        f"float32 {tuple(x.shape)}; {thread_count()} threads; medians of "
        f"{options.rounds} rounds, in ms"
    )
    show(f"{'groups':10}{'bed':>9}{'share':>8}{'eigh':>9}{'svd':>9}{'ratio':>8}")
    ratios = [line(x, groups, options.rounds) for groups in GROUPS]
    above = max(ratios) > options.limit
    show(f"limit of {options.limit:g}: {'EXCEEDED' if above else 'kept'}")
    return int(above)


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", type=int, nargs=4, default=(128, 64, 32, 32))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def line(x, groups: tuple[int, int], rounds: int) -> float:
    """Print the times for groups of a size; the ratio to the faster peer."""
    count, size = groups
    roots = {"bed": inverse_root, PEERS[0]: by_eigh, PEERS[1]: by_svd}
    calls = {name: step(x, size, root) for name, root in roots.items()}
    calls["root"] = root_alone(count, size)
    names, turns = list(calls), []
    for _ in range(rounds):
        turns.append(in_turns({name: calls[name] for name in names}, rounds=1))
        names.append(names.pop(0))
    ms = {name: float(np.median([t[name] for t in turns])) * 1e3 for name in calls}
    # Not to the minimum of the peers in each round: that of two noisy times is low.
    ratio = max(float(np.median([t["bed"] / t[name] for t in turns])) for name in PEERS)
    show(
        f"{f'{count} × {size}':10}{ms['bed']:9.2f}{ms['root'] / ms['bed']:8.1%}"
        f"{ms[PEERS[0]]:9.2f}{ms[PEERS[1]]:9.2f}{ratio:8.3f}"
    )
    return ratio


def step(x, size: int, root: Callable) -> Callable[[], None]:
    """Forward and backward of a layer with a root of its own."""
    made = with_inverse_root(bed.nn.ZCAWhitening2d, root)
    layer = made(x.shape[1], group_size=size)
    x, g = x.clone().requires_grad_(), torch.randn_like(x)

    def call():
        x.grad = None
        layer(x).backward(g)

    return call


def root_alone(count: int, size: int) -> Callable[[], None]:
    """S^-½ of as many matrices as the layer has, and its gradient."""
    samples = torch.randn(count, size, 4 * size, dtype=torch.float64)
    s = (samples @ samples.mT / (4 * size)).requires_grad_()
    g = torch.randn_like(s)
    return lambda: torch.autograd.grad(inverse_root(s), s, g)


if __name__ == "__main__":
    raise SystemExit(main())
