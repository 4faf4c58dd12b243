"""Times of bed and its peers.

Results of bed are checked before they are timed; a peer's time counts if its result is
right.
"""

from dataclasses import dataclass

import cupy
import numpy as np

import bed

from . import peers
from ._cases import hermitian
from ._device import differences, free_bytes, put, release, repeated, solve, timed

NS = (2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 33, 36, 48, 64)
BATCHES = (1, 64, 1024, 16384, 262144)
COMPLEX_NS, COMPLEX_BATCHES = (4, 8, 16, 32, 64), (1, 16384)
VALUES_NS, VALUES_BATCHES = (4, 8, 16, 32, 64), (16384,)
BANDWIDTH_NS, BANDWIDTH_BATCH = (2, 3, 4), 4194304

# Different matrices of a batch, which repeats them; prime.
PERIOD = 257
# Of them are measured; the bits of all are compared with theirs.
MEASURED = 16
# A peer is left out of a cell that would take it longer, judging by the last one.
LIMIT_MS = 1000.0
# Error of a peer's eigenvalues above which its time does not count, in n·eps.
PEER_TOLERANCE = 64
COPY_BYTES = 1 << 30
# Of the time that is left, what later parts are to have.
SHARE_LEFT = 0.5
# A cell needs this many times its input and output in free memory: itself, and half as
# much again for what libraries keep.
ROOM = 1.5


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    dtype: str
    n: int
    batch: int
    vectors: bool = True

    @property
    def input_bytes(self) -> int:
        return self.batch * self.n**2 * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """What any solver has to read and write."""
        real = np.dtype(self.dtype).type(0).real.itemsize
        return self.input_bytes * (1 + self.vectors) + self.batch * self.n * real

    def __str__(self):
        what = "" if self.vectors else ", values only"
        return f"{self.dtype} {self.n} × {self.n}, batch {self.batch}{what}"


def cells(smoke: bool) -> list[Cell]:
    """All rows, the most important first; batches of a size go up."""
    if smoke:
        return [Cell("float32", 3, 64), Cell("float32", 3, 300), Cell("float64", 9, 64)]
    real, complex_ = ("float32", "float64"), ("complex64", "complex128")
    bandwidth = [Cell(d, n, BANDWIDTH_BATCH) for d in real for n in BANDWIDTH_NS]
    grid = [Cell(d, n, b) for d in real for n in NS for b in BATCHES]
    complex_grid = [
        Cell(d, n, b) for d in complex_ for n in COMPLEX_NS for b in COMPLEX_BATCHES
    ]
    values = [
        Cell(d, n, b, False) for d in real for n in VALUES_NS for b in VALUES_BATCHES
    ]
    first = [c for c in grid if c.dtype == "float32"]
    return [*bandwidth, *first, *complex_grid, *grid[len(first) :], *values]


def timings(run, part) -> None:
    """Times against torch, CuPy, JAX and cuSolverDx on the same data."""
    wanted = cells(run.smoke)
    solvers = peers.available(run, part)
    for solver in solvers:
        if solver.name == "jax":
            count = solver.compile(wanted)
            run.say(f"  JAX has compiled for {count} shapes")
            part.data["jax_ms"] = jit_and_eager(solver.jax, run)
    bandwidth = copy_bandwidth(1 << 20 if run.smoke else COPY_BYTES)
    part.data["copy_gb_s"] = bandwidth
    run.say(f"  device copy: {bandwidth:.0f} GB/s, read and written")
    last: dict = {}
    bases: dict = {}
    reserve = SHARE_LEFT * run.left()
    for cell in wanted:
        if run.left() <= reserve:
            run.left_out.append(str(cell))
            continue
        if ROOM * cell.bytes > free_bytes():
            run.left_out.append(f"{cell}: not enough memory")
            continue
        with part.attempt(str(cell)):
            row = one_cell(run, part, cell, solvers, last, bases)
            if row is not None:
                row["share"] = row["gb_s"] / bandwidth
                run.cells.append(row)
    if run.left_out:
        run.say(f"  {len(run.left_out)} cells left out")


def jit_and_eager(jax, run) -> dict[str, float]:
    """Milliseconds of bed for an array of JAX, under `jax.jit` and outside."""
    batch = 1000 if run.smoke else 200_000
    a = jax.numpy.asarray(hermitian(run.rng("jit"), batch, 8, np.dtype("f4")))
    calls = {"jit": jax.jit(lambda x: tuple(bed.eigh(x))), "eager": bed.eigh}
    wait = jax.block_until_ready
    ms = {k: timed(lambda f=f: f(a), wait=wait)[0] for k, f in calls.items()}
    run.say(
        f"  {batch} of 8 × 8, float32: jit {ms['jit']:.3g} ms, eager {ms['eager']:.3g}"
    )
    return ms


def copy_bandwidth(size: int) -> float:
    """GB/s of a copy inside the device, bytes read and bytes written."""
    source, target = (cupy.empty(size, np.uint8) for _ in range(2))
    ms, _ = timed(lambda: target.data.copy_from_device_async(source.data, size))
    return 2 * size / ms / 1e6


def base_of(run, part, cell, bases):
    """The few matrices of a size, and their results; None if those are wrong."""
    key = (cell.dtype, cell.n, cell.vectors)
    if key not in bases:
        dtype = np.dtype(cell.dtype)
        a = hermitian(run.rng("timings", *key), PERIOD, cell.n, dtype)
        results = solve(put(a), vectors=cell.vectors)
        few = slice(None, MEASURED)
        right = part.right(a[few], *(x[few] for x in results[:-1]), what="timings:")
        bases.clear()  # of one size at a time
        bases[key] = (a, results) if right else None
    return bases[key]


def one_cell(run, part, cell, solvers, last, bases) -> dict | None:
    """Check, then time, bed and every peer; None if bed is wrong."""
    known = base_of(run, part, cell, bases)
    if known is None:
        return None
    base, expected = known
    release()
    a = repeated(base, cell.batch)
    row = {
        "dtype": cell.dtype,
        "n": cell.n,
        "batch": cell.batch,
        "vectors": cell.vectors,
        "peers": {},
    }
    ours = peers.Bed().ready(a, cell.vectors)()
    results = ours if cell.vectors else (ours,)
    wrong = [differences(x, y) for x, y in zip(results, expected, strict=False)]
    del ours, results
    part.expect(not any(wrong), f"{cell}: words that differ: {wrong}")
    if any(wrong):
        return None
    # No name for the results: they would take memory from the peers.
    row["bed_ms"], row["bed_bytes"] = time_of(peers.Bed(), a, cell)[:2]
    row["engine_ms"] = time_of(peers.Engine(), a, cell)[0]
    row["gb_s"] = cell.bytes / row["bed_ms"] / 1e6
    for solver in solvers:
        row["peers"][solver.name] = peer_time(solver, a, base, expected, cell, last)
    times = {k: x["ms"] for k, x in row["peers"].items() if "ms" in x}
    if times:
        row["best_peer"] = min(times, key=times.get)
        row["ratio"] = times[row["best_peer"]] / row["bed_ms"]
    others = ", ".join(f"{k} {x:.4g}" for k, x in times.items())
    run.say(f"  {cell}: {row['bed_ms']:.4g} ms; {others or 'no peer'}")
    return row


def time_of(solver, a, cell) -> tuple[float, int | None, object]:
    """Milliseconds of a call, the bytes that it took beside its input, its result."""
    solver.release()
    before = solver.held()
    ms, result = timed(solver.ready(a, cell.vectors), wait=solver.wait)
    after = solver.held()
    return ms, None if after is None else after - before, result


def peer_time(solver, a, base, expected, cell, last) -> dict:
    """Time of a peer, or a note that says why there is none."""
    key = (solver.name, cell.dtype, cell.n, cell.vectors)
    if key in last:
        batch, ms = last[key]
        if ms is None and cell.batch > batch:
            return {"note": f"left out: it failed at batch {batch}"}
        if ms is not None and ms * cell.batch / batch > LIMIT_MS:
            return {"note": f"left out: it took {ms:.0f} ms at batch {batch}"}
    last[key] = (cell.batch, None)
    try:
        ms, held, result = time_of(solver, a, cell)
        error = peer_error(solver, result, base, expected[0], cell)
        if not error <= PEER_TOLERANCE:
            return {"note": f"wrong: eigenvalues are off by {error:.3g} n·eps"}
    except FileNotFoundError:
        del last[key]
        return {"note": "no kernel for this size"}
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        memory = isinstance(error, MemoryError) or any(
            words in str(error).lower() for words in ("out of memory", "exhausted")
        )
        return {"note": f"out of memory ({text})" if memory else f"fails ({text})"}
    finally:
        solver.release()
    last[key] = (cell.batch, ms)
    return {"ms": ms, "bytes": held}


def peer_error(solver, result, base, w, cell) -> float:
    """Largest difference of a peer's first and last eigenvalues from ours, in n·eps."""
    unit = cell.n * np.finfo(cell.dtype).eps
    worst = 0.0
    for rows in (slice(0, 8), slice(max(0, cell.batch - 8), cell.batch)):
        found = solver.values(result, cell.vectors, rows)
        which = np.arange(cell.batch)[rows] % len(base)
        size = abs(base[which]).max(axis=(-2, -1))
        difference = abs(found.astype("f8") - w[which]).max(axis=-1)
        worst = np.maximum(worst, (difference / size / unit).max())  # keeps NaN
    return float(worst)
