"""Times of solvers on the same matrices, checked before and in turns."""

from collections.abc import Iterable, Iterator

import numpy as np
from _baselines import Solver
from _harness import UNTESTED, Claim, Row, clock_of, verdict, where
from _printed import wishart

from bed.testing.accuracy import measure
from bed.testing.clock import all_turns

# Matrices of a batch whose decomposition is checked.
CHECKED = 32
# A solver that would take longer is left out, in seconds a call.
LIMIT, SMOKE_LIMIT = 2.5, 0.05


def timed(
    options, shapes: Iterable[tuple[int, int]], solvers: list[Solver], calls: int = 1
) -> Iterator[Row]:
    """A row for each solver and shape ``(n, batch)``: milliseconds, and the error.

    Matrices are X Xᵀ in float32. The error is that of eigenvalues and residual, in
    n·eps of the largest entry, whichever is larger. With `calls` a time is that of so
    many calls.
    """
    rng = np.random.default_rng(options.seed)
    limit = SMOKE_LIMIT if options.smoke else LIMIT
    rate: dict[str, float] = {}  # seconds by work that it had
    for n, batch in shapes:
        a = wishart(rng, (batch, n, n))
        work = batch * n**2
        ready, errors = {}, {}
        for solver in solvers:
            if work * rate.get(solver.name, 0) * calls > limit:
                continue
            call = solver.ready(a, options.device)
            ready[solver.name] = _repeated(call, calls)
            errors[solver.name] = _error(solver, call(), a)
        times = all_turns(
            ready,
            wait=_wait(options.device),
            clock=clock_of(options.device),
            rounds=1 if options.smoke else 5,
            enough=1.0,
            turn=0.0 if options.smoke else 0.01,
        )
        for name, seconds in times.items():
            middle = float(np.median(seconds))
            rate[name] = middle / calls / work
            low, high = np.quantile(seconds, [0.25, 0.75]) * 1e3
            yield {
                "n": n,
                "batch": batch,
                "solver": name,
                "ms": middle * 1e3,
                "lower_quartile_ms": float(low),
                "upper_quartile_ms": float(high),
                "error_n_eps": errors[name],
            }


def _repeated(call, calls):
    if calls == 1:
        return call
    return lambda: [call() for _ in range(calls)]


def _error(solver: Solver, result, a) -> float:
    w, v = (x[:CHECKED] for x in solver.decomposed(result))
    a = a[:CHECKED]
    exact = np.linalg.eigvalsh(a.astype("f8"))
    errors = measure(a, w, v, exact)
    return max(float(errors.residual.max()), float(errors.values.max()))


def _wait(device: str):
    if device == "cpu":
        return None
    import torch

    return torch.cuda.synchronize


def ms(rows: list[Row], solver: str, n: int, batch: int) -> float:
    """The time of a solver at a shape, NaN where it was not taken."""
    found = where(rows, solver=solver, n=n, batch=batch)
    return found[0]["ms"] if found else float("nan")


def ratios(rows: list[Row], theirs: str, ours: str, **values) -> dict:
    """How much faster `ours` is, by ``(n, batch)``, wherever both were timed."""
    mine = {(r["n"], r["batch"]): r["ms"] for r in where(rows, solver=ours, **values)}
    return {
        (r["n"], r["batch"]): r["ms"] / mine[r["n"], r["batch"]]
        for r in where(rows, solver=theirs, **values)
        if (r["n"], r["batch"]) in mine
    }


def faster(found: dict) -> str:
    """In how many of the shapes, and by which factors."""
    wins = sum(x > 1 for x in found.values())
    if not found:
        return "not timed"
    return f"{wins} of {len(found)}, {min(found.values()):.2g} to " + (
        f"{max(found.values()):.3g} times"
    )


def time_claim(id: str, rows: list[Row], shape, paper, calls: int = 1) -> Claim:
    """Of one time of a table; the paper's seconds are those of SVD and its own."""
    n, batch = shape
    svd, ours = paper
    key = {"n": n, "batch": batch}
    found = {
        (theirs, mine): next(iter(ratios(rows, theirs, mine, **key).values()), np.nan)
        for theirs in ("torch_svd", "torch_svd_loop")
        for mine in ("reference", "bed")
    }
    claimed = svd / ours
    many = f", {calls} calls" if calls > 1 else ""
    return Claim(
        id,
        f"{batch}×{n}×{n}{many}: {claimed:.3g} times as fast as SVD",
        f"{svd:g} s and {ours:g} s",
        f"svd {ms(rows, 'torch_svd', n, batch):.3g} ms, reference "
        f"{ms(rows, 'reference', n, batch):.3g} ms, bed "
        f"{ms(rows, 'bed', n, batch):.3g} ms: the reference is "
        f"{found['torch_svd', 'reference']:.2g} times as fast as svd and "
        f"{found['torch_svd_loop', 'reference']:.2g} times as its loop, bed "
        f"{found['torch_svd', 'bed']:.3g} and "
        f"{found['torch_svd_loop', 'bed']:.3g} times",
        verdict(
            found["torch_svd", "reference"] > claimed / 1.5,
            found["torch_svd_loop", "reference"] > claimed / 1.5,
        )
        if np.isfinite(found["torch_svd_loop", "reference"])
        else UNTESTED,
        f"{1e3 * svd / batch / calls:.2g} ms for an SVD of one such matrix is what a "
        "call costs, not arithmetic; today's SVD takes the batch in one call.",
    )
