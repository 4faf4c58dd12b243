#!/usr/bin/env python
"""Times of 40 × 40 matrices over the batch.

python scripts/paper/fig_batch_40.py [--smoke] [--device cuda]
"""

from collections.abc import Iterator

from _baselines import solvers
from _harness import UNTESTED, Claim, Row, main, verdict
from _timing import faster, ratios, timed

FIGURE = {"x": "batch", "y": "ms", "line": "solver", "panel": "", "log": "xy"}
NAMES = ("torch_svd", "torch_svd_loop", "torch_eigh", "reference", "bed")
N, BATCHES = 40, (1, 4, 16, 64, 256, 1024, 2048, 4096, 8192)


def measure(options) -> Iterator[Row]:
    """Rows of all batches."""
    batches = BATCHES[:4] if options.smoke else BATCHES
    yield from timed(options, [(N, b) for b in batches], solvers(options, NAMES))


def claims(rows: list[Row]) -> Iterator[Claim]:
    """S7."""
    svd, loop, fast = (
        ratios(rows, theirs, ours)
        for theirs, ours in (
            ("torch_svd", "reference"),
            ("torch_svd_loop", "reference"),
            ("torch_svd", "bed"),
        )
    )
    wins = {b for (_, b), x in svd.items() if x > 1}
    large = {b for _, b in svd if b > 1024}
    yield Claim(
        "S7",
        "at n = 40 there is a marginal advantage for batches above 1024 only",
        "1024",
        f"the reference is faster than torch.linalg.svd in {faster(svd)}, than a loop "
        f"of it in {faster(loop)}; bed than svd in {faster(fast)}; batches up to "
        f"{max(r['batch'] for r in rows)}",
        verdict(wins == large, any(x > 1 for x in loop.values()))
        if large
        else UNTESTED,
        "An advantage of array code is one over the cost of calls, which an SVD of the "
        "whole batch has once. The paper's own figure of crossings has one at 512.",
    )


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, measure, claims))
