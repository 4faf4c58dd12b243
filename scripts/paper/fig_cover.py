#!/usr/bin/env python
"""Times of 4 × 4 matrices over the batch, and of batches of 512 over the dimension.

    python scripts/paper/fig_cover.py [--smoke] [--device cuda]

Beside the SVD, called for the batch and in a loop over its matrices as the paper's
version of torch did it, all solvers that are here.
"""

from collections.abc import Iterator

from _baselines import SOLVERS, solvers
from _harness import Claim, Row, main, span, verdict
from _timing import faster, ratios, timed

FIGURE = {
    "x": {"left": "batch", "right": "n"}, "y": "ms", "line": "solver",
    "panel": "part", "log": "xy",
}  # fmt: skip
SIZES = (4, 8, 16, 24, 32, 36)


def measure(options) -> Iterator[Row]:
    """Rows of both parts of the figure."""
    batches = (1, 16, 256) if options.smoke else [4**k for k in range(9)]
    batch, sizes = (64, SIZES[:3]) if options.smoke else (512, SIZES)
    some = solvers(options, [x for x in SOLVERS if not x.startswith("torch_eig_")])
    parts = {"left": [(4, b) for b in batches], "right": [(n, batch) for n in sizes]}
    for part, shapes in parts.items():
        for row in timed(options, shapes, some):
            yield {"part": part, **row}


def claims(rows: list[Row]) -> Iterator[Claim]:
    """S1, S2 and S11."""
    for id, part, claim in (
        ("S1", "left", "4 × 4 matrices are solved faster than by SVD in every batch"),
        ("S2", "right", "batches of 512 are solved faster than by SVD, n = 4 to 36"),
    ):
        against_loop = ratios(rows, "torch_svd_loop", "reference", part=part)
        reference = ratios(rows, "torch_svd", "reference", part=part)
        fast = ratios(rows, "torch_svd", "bed", part=part)
        yield Claim(
            id,
            claim,
            "36 times at 512×4×4 (readme)" if id == "S1" else "curve",
            f"the reference is faster than torch.linalg.svd in {faster(reference)}, "
            f"than a loop of it in {faster(against_loop)}; bed than svd in "
            f"{faster(fast)}",
            verdict(
                all(x > 1 for x in reference.values()),
                all(x > 1 for x in list(against_loop.values())[-3:]),
            ),
            "Array code makes hundreds of small calls, which large batches alone pay "
            "for; today's SVD takes a batch in one call. One compiled loop wins.",
        )
    gain = [
        x
        for part in ("left", "right")
        for x in ratios(rows, "reference", "bed", part=part).values()
    ]
    yield Claim(
        "S11",
        "a version in CUDA C++ might be faster",
        "said",
        f"bed's compiled engine is {span(gain)} times faster than the reference",
        verdict(min(gain) > 1),
        "One pass over memory replaces that of every array operation.",
    )


if __name__ == "__main__":
    raise SystemExit(main(__file__, __doc__, measure, claims))
