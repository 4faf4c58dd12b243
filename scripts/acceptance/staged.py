"""The staged engine, which compiles with Numba: right, and its times for n > 64."""

import numpy as np

import bed
from bed import engines

from ._cases import ALL_DTYPES, hermitian, hidden, known, parallel
from ._device import get, put, release, repeated, timed

DRIVER, PEER = "staged", "cusolver"
SIZES = (2, 8, 33, 64, 100, 128)
SMOKE_SIZES = (2, 9)
# Sizes that only these two engines take, and the batches to time.
TIMED_SIZES, TIMED_COMPLEX_SIZES = (65, 80, 96, 112, 128), (96, 128)
BATCHES = (256, 4096)
# Different matrices of a timed batch, which repeats them.
PERIOD = 61
# Seconds that times may take, of the few minutes of a run.
SECONDS = 40.0


def missing(part) -> bool:
    """Whether the engine cannot run here; says why."""
    try:
        engines.get(DRIVER)
    except ImportError as error:
        part.notes.append(str(error))
        return True
    return False


def solve(a, uplo="L", *, vectors=True):
    """Host results of the engine: values, vectors if any, status."""
    call = bed.eigh if vectors else bed.eigvalsh
    return get(tuple(call(put(a), uplo, return_info=True, driver=DRIVER)))


def correct(run, part) -> None:
    """The staged engine on known spectra, n to 128; failures; any place in a batch."""
    if missing(part):
        return
    sizes = SMOKE_SIZES if run.smoke else SIZES
    tasks = [(run.seed, n, dtype.name) for n in sizes for dtype in ALL_DTYPES]
    tasks.sort(key=lambda task: -task[1])  # the slow ones first
    for _, names, a, exact in parallel(known, tasks, smoke=run.smoke)[::-1]:
        with part.attempt(f"n = {a.shape[-1]}, {a.dtype}"):
            spectra(part, a, exact, names)
            places(run, part, a.shape[-1], a.dtype)


def spectra(part, a, exact, names) -> None:
    """Both triangles, with and without vectors, and NaN where nothing is read."""
    what = f"n = {a.shape[-1]}, {a.dtype}"
    for uplo in "LU":
        w, v, status = solve(hidden(a, uplo), uplo)
        part.right(a, w, v, exact, uplo, what="staged", names=names)
        part.expect((status == 0).all(), f"{what}: status {status}")
        w, status = solve(hidden(a, uplo), uplo, vectors=False)
        part.right(a, w, exact=exact, uplo=uplo, what="staged values", names=names)
        part.expect((status == 0).all(), f"{what}: status {status}")


def places(run, part, n, dtype) -> None:
    """NaN beside good matrices, other orders, a stride that is not the usual one."""
    what = f"n = {n}, {dtype}"
    rng = run.rng("staged", n, dtype)
    a = hermitian(rng, 9, n, dtype)
    expected = solve(a)
    order = rng.permutation(9)
    part.same(solve(a[order]), tuple(x[order] for x in expected), f"{what}: order")
    part.same(solve(a[4:5]), tuple(x[4:5] for x in expected), f"{what}: alone")
    there = put(np.repeat(a, 2, axis=0))[::2]
    strided = get(tuple(bed.eigh(there, return_info=True, driver=DRIVER)))
    part.same(strided, expected, f"{what}: strided")
    a[3, n - 1, 0] = np.nan
    w, v, status = solve(a)
    good = np.arange(9) != 3
    part.expect(status.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0], f"{what}: {status}")
    part.expect(np.isnan(w[3]).all() and np.isnan(v[3]).all(), f"{what}: not NaN")
    part.same((w[good], v[good]), tuple(x[good] for x in expected[:2]), f"{what}: good")


def cells(smoke: bool) -> list[tuple[str, int, int]]:
    """Dtype, n and batch of every time."""
    if smoke:
        return [("float32", 65, 64)]
    real = [(d, n) for n in TIMED_SIZES for d in ("float32", "float64")]
    complex_ = [
        (d, n) for n in TIMED_COMPLEX_SIZES for d in ("complex64", "complex128")
    ]
    return [(*cell, batch) for batch in BATCHES[::-1] for cell in (*real, *complex_)]


def times(run, part) -> None:
    """Times of the staged engine beside those of cuSOLVER's, 64 < n ≤ 128."""
    if missing(part):
        return
    part.data["cells"] = []
    end = run.elapsed() + SECONDS
    for dtype, n, batch in cells(run.smoke):
        what = f"{dtype} {n} × {n}, batch {batch}"
        if run.elapsed() > end or run.left() <= 0:
            part.notes.append(f"{what}: left out, no time left")
            continue
        with part.attempt(what):
            one_cell(run, part, dtype, n, batch, what)


def one_cell(run, part, dtype, n, batch, what) -> None:
    """Check a few results of both, then time both."""
    base = hermitian(run.rng("staged times", dtype, n), PERIOD, n, np.dtype(dtype))
    release()
    a = repeated(base, batch)
    row = {"dtype": dtype, "n": n, "batch": batch}
    few = slice(0, min(4, batch))
    for driver in (DRIVER, PEER):
        ms, result = timed(lambda driver=driver: bed.eigh(a, driver=driver))
        w, v = get(tuple(x[few] for x in result))
        if part.right(base[few], w, v, what=f"{what}, {driver}:"):
            row[f"{driver}_ms"] = ms
        del result
    part.data["cells"].append(row)
    if len(row) == 5:
        ours, theirs = row[f"{DRIVER}_ms"], row[f"{PEER}_ms"]
        text = f"{what}: {ours:.4g} ms, cuSOLVER {theirs:.4g} ms"
        part.notes.append(text)
        run.say(f"  {text}")
