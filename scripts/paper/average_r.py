#!/usr/bin/env python
"""How far the active part shrinks on average: the supplement's r, and what shrinks it.

    python scripts/paper/average_r.py [--smoke]

For X Xᵀ and for Gaussian symmetric matrices, by the iteration as printed (pairs of
shifts, 1e-5) and by the reference, whose thresholds are relative.
"""

from collections.abc import Iterator

import numpy as np
from _harness import Claim, Row, main, span, verdict, where
from _printed import THRESHOLD, printed, wishart

from bed.engines.reference import EighStats, eigh
from bed.testing.matrices import random_hermitian

FIGURE = {
    "x": "n", "y": "r_over_n", "line": ("solver", "kind"), "panel": "batch", "log": "",
}  # fmt: skip
SIZES, BATCHES = (4, 8, 16, 24, 32, 36), (1, 512)


def measure(options) -> Iterator[Row]:
    """A row for each kind of matrix, n, batch and solver; of single ones the mean."""
    rng = np.random.default_rng(options.seed)
    for n in SIZES[:3] if options.smoke else SIZES:
        for kind, make in (("wishart", wishart), ("gaussian", random_hermitian)):
            for batch in BATCHES:
                count = 1 if batch > 1 else 8
                shape = batch if not options.smoke else min(batch, 64)
                all_a = [make(rng, (shape, n, n), "f4") for _ in range(count)]
                for solver in ("printed", "reference"):
                    rows = [one(solver, a) for a in all_a]
                    row = {"kind": kind, "n": n, "batch": batch, "solver": solver}
                    names = dict.fromkeys(name for r in rows for name in r)
                    yield row | {
                        name: float(np.mean([r[name] for r in rows if name in r]))
                        for name in names
                    }


def one(solver: str, a) -> Row:
    """Iterations, r, iterations to lose a row, and where matrices fall apart."""
    n = a.shape[1]
    if solver == "reference":
        stats = EighStats()
        eigh(a, eigenvectors=False, stats=stats)
        sizes = stats.active_sizes
    else:
        found = printed(a)
        sizes = found.sizes
    row = {
        "iterations": len(sizes),
        "r_over_n": (n - np.mean(sizes)) / n,
        "a_row": len(sizes) / (n - 1),
    }
    if solver == "printed" and len(a) > 1:
        row |= {"different_splits": different_splits(found)}
    return row


def different_splits(found) -> float:
    """Of the iterations with an entry lost inside some matrix, how many had not all."""
    apart = [
        (abs(e[:, : size - 2]) < THRESHOLD)
        for e, size in zip(found.history, found.sizes, strict=True)
    ]
    split = [x for x in apart if x.any()]
    return float(np.mean([not x[:, x.any(0)].all() for x in split])) if split else 0.0


def claims(rows: list[Row]) -> Iterator[Claim]:
    """A7 to A9."""
    alone = span(r["a_row"] for r in where(rows, batch=1, solver="printed"))
    batches = where(rows, batch=512, solver="printed")
    yield Claim(
        "A7",
        "the matrix shrinks every or every other iteration",
        "1 to 2 iterations",
        f"{alone} for single matrices, {span(r['a_row'] for r in batches)} in batches",
        verdict(all(r["a_row"] <= 2 for r in batches)),
        "The batch loses a row when the slowest of its matrices is ready.",
    )
    of_wishart = [
        r for r in where(rows, batch=512, kind="wishart") if r["solver"] == "printed"
    ]
    found = ", ".join(f"{r['r_over_n']:.2f} (n = {r['n']})" for r in of_wishart)
    yield Claim(
        "A8",
        "the average r is mainly in [n/3, 3n/4]",
        "0.33 n to 0.75 n",
        f"r/n = {found}",
        verdict(all(1 / 3 <= r["r_over_n"] <= 3 / 4 for r in of_wishart)),
        "Equal work at each size gives (n − 2)/2, and the first sizes take the most: "
        "small n stay below n/3, and nothing comes near 3n/4.",
    )
    share = [r["different_splits"] for r in batches]
    yield Claim(
        "A9",
        "matrices of a batch fall apart at different places, so that splitting them "
        "does not suit a batch",
        "said",
        f"not at one place for all in {span(100 * x for x in share)} % of the "
        "iterations in which some matrix does",
        verdict(np.mean(share) > 0.5),
        "True of array code, which has one active size for all; a thread or a lane for "
        "each matrix splits where its own matrix does.",
    )


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, measure, claims))
