#!/usr/bin/env python
"""Times over the batch for six dimensions, beside SVD.

python scripts/paper/fig_numerical_test.py [--smoke] [--device cuda]
"""

from collections.abc import Iterator

from _baselines import solvers
from _harness import UNTESTED, Claim, Row, exponent, main, span, verdict, where
from _timing import faster, ratios, timed

FIGURE = {"x": "batch", "y": "ms", "line": "solver", "panel": "n", "log": "xy"}
NAMES = ("torch_svd", "torch_svd_loop", "reference", "bed")
SIZES, BATCHES = (4, 8, 16, 24, 32, 36), (1, 4, 16, 64, 256, 1024, 4096)


def measure(options) -> Iterator[Row]:
    """Rows of all sizes and batches."""
    sizes = SIZES[:3] if options.smoke else SIZES
    shapes = [
        (n, b) for n in sizes for b in (BATCHES[:4] if options.smoke else BATCHES)
    ]
    yield from timed(options, shapes, solvers(options, NAMES))


def claims(rows: list[Row]) -> Iterator[Claim]:
    """S3 to S5."""
    for id, claim, paper, holds in (
        ("S3", "for n < 24 faster than SVD for any batch", "all", lambda n, b: n < 24),
        ("S4", "at n = 32 faster from batches of 256 on", "256",
         lambda n, b: n == 32 and b >= 256),
    ):  # fmt: skip
        reference, loop, fast = (
            {key: x for key, x in ratios(rows, theirs, ours).items() if holds(*key)}
            for theirs, ours in (
                ("torch_svd", "reference"),
                ("torch_svd_loop", "reference"),
                ("torch_svd", "bed"),
            )
        )
        yield Claim(
            id,
            claim,
            paper,
            f"the reference is faster than torch.linalg.svd in {faster(reference)}, "
            f"than a loop of it in {faster(loop)}; bed than svd in {faster(fast)}",
            verdict(
                all(x > 1 for x in reference.values()),
                all(x > 1 for x in loop.values()),
            )
            if reference and loop
            else UNTESTED,
            "The reference pays for its array operations one by one, bed for one call; "
            "their baseline solved one matrix after the other.",
        )
    slopes = {name: list(_slopes(rows, name)) for name in NAMES}
    yield Claim(
        "S5",
        "the time of SVD is linear in the batch, that of the paper's solver hardly "
        "changes",
        "curves",
        "exponents over the batch, from 16 on: "
        + ", ".join(f"{name} {span(x, 2)}" for name, x in slopes.items()),
        verdict(
            bool(slopes["reference"])
            and max(slopes["reference"]) < 0.3
            and min(slopes["torch_svd"]) > 0.8
        ),
        "It is so while a device has room for the batch; a single core is full early, "
        "and iterations grow with the batch as well.",
    )


def _slopes(rows, solver: str) -> Iterator[float]:
    for n in SIZES:
        found = [r for r in where(rows, solver=solver, n=n) if r["batch"] >= 16]
        if len(found) > 1:
            yield exponent([r["batch"] for r in found], [r["ms"] for r in found])


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, measure, claims))
