"""Times of the engine that compiles with Numba, for sizes that few others take."""

import numpy as np

import bed
from bed import engines

from ._cases import hermitian
from ._device import get, release, repeated, timed

PEER = "cusolver"
# Sizes that only these two engines take, and the batches to time.
TIMED_SIZES, TIMED_COMPLEX_SIZES = (65, 80, 96, 112, 128), (96, 128)
BATCHES = (256, 4096)
# Different matrices of a timed batch, which repeats them.
PERIOD = 61
# Seconds that times may take, of the few minutes of a run.
SECONDS = 40.0


def cells(smoke: bool) -> list[tuple[str, int, int]]:
    """Dtype, n and batch of every time."""
    if smoke:
        return [("float32", 65, 4)]
    real = [(d, n) for n in TIMED_SIZES for d in ("float32", "float64")]
    complex_ = [
        (d, n) for n in TIMED_COMPLEX_SIZES for d in ("complex64", "complex128")
    ]
    return [(*cell, batch) for batch in BATCHES[::-1] for cell in (*real, *complex_)]


def times(run, part) -> None:
    """Times of the engine of Numba kernels beside those of cuSOLVER's, 64 < n ≤ 128."""
    driver = "numba_cuda"
    try:
        engines.get(driver)
    except ImportError as error:
        return part.notes.append(str(error))
    part.data["cells"] = []
    end = run.elapsed() + SECONDS
    for dtype, n, batch in cells(run.smoke):
        what = f"{dtype} {n} × {n}, batch {batch}"
        if run.elapsed() > end or run.left() <= 0:
            part.notes.append(f"{what}: left out, no time left")
            continue
        with part.attempt(what):
            one_cell(run, part, driver, dtype, n, batch, what)


def one_cell(run, part, ours, dtype, n, batch, what) -> None:
    """Check a few results of both, then time both."""
    base = hermitian(run.rng("numba times", dtype, n), PERIOD, n, np.dtype(dtype))
    release()
    a = repeated(base, batch)
    row = {"dtype": dtype, "n": n, "batch": batch}
    few = slice(0, min(4, batch))
    for driver in (ours, PEER):
        ms, result = timed(lambda driver=driver: bed.eigh(a, driver=driver))
        w, v = get(tuple(x[few] for x in result))
        if part.right(base[few], w, v, what=f"{what}, {driver}:"):
            row[f"{driver}_ms"] = ms
        del result
    part.data["cells"].append(row)
    if len(row) == 5:
        mine, theirs = row[f"{ours}_ms"], row[f"{PEER}_ms"]
        text = f"{what}: {mine:.4g} ms, cuSOLVER {theirs:.4g} ms"
        part.notes.append(text)
        run.say(f"  {text}")
