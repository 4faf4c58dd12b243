"""Eigenvectors in several launches beside one: for the table in `_split_layouts.py`."""

import numpy as np

from ._cases import ALL_DTYPES, hermitian, launches, sizes_of_several
from ._device import engine, free_bytes, get, put, release, repeated, timed

BATCHES = (64, 1024, 16384)
# Different matrices of a batch, which repeats them.
PERIOD = 67
# Times its input and output that a cell needs in free memory.
ROOM = 1.5
# Seconds that it may take, of the few minutes of a run.
SECONDS = 30.0


def several(run, part) -> None:
    """Eigenvectors in several launches and in one: the same bits, and the times."""
    end = run.elapsed() + SECONDS
    cases = [(dtype, n) for dtype in ALL_DTYPES for n in sizes_of_several(dtype)]
    for dtype, n in cases[:1] if run.smoke else cases:
        what = f"{dtype} {n} × {n}"
        if run.elapsed() > end or run.left() <= 0:
            part.notes.append(f"{what}: left out, no time left")
            continue
        with part.attempt(what):
            base = hermitian(run.rng("several", n, dtype), PERIOD, n, dtype)
            if checked(part, base, what):
                for batch in BATCHES[:1] if run.smoke else BATCHES:
                    compare(run, part, base, batch)


def solved(a, uplo="L", *, several: bool, out=None):
    """Results of the engine on the device."""
    with launches(a.dtype, several=several):
        return engine()(a, uplo, out=out)


def checked(part, base, what) -> bool:
    """Both triangles, and a matrix with NaN among the others; whether both are right.

    Where bits differ times still say something.
    """
    good, right = np.arange(len(base)) != len(base) // 2, True
    for uplo in "LU":
        a = base.copy()
        a[~good] = np.nan
        ways = {x: get(solved(put(a), uplo, several=x)) for x in (False, True)}
        part.same(ways[True], ways[False], f"{what}, {uplo}: several launches and one")
        for way, (w, v, status) in ways.items():
            where = f"{what}, {'several launches' if way else 'one launch'}"
            wrong = (status != 0) != ~good
            part.expect(not wrong.any(), f"{where}, {uplo}: status {status.tolist()}")
            right &= not wrong.any()
            right &= part.right(base[good], w[good], v[good], uplo=uplo, what=where)
    return right


def compare(run, part, base, batch) -> None:
    """Time both, into given outputs."""
    what = "{} {} × {}, batch {}".format(base.dtype, *base.shape[1:], batch)
    release()
    if 2 * ROOM * batch * base[0].nbytes > free_bytes():
        part.notes.append(f"{what}: not enough memory")
        return
    a = repeated(base, batch)
    out = tuple(solved(a, several=False))
    one, more = (
        timed(lambda x=x: solved(a, several=x, out=out))[0] for x in (False, True)
    )
    row = {"dtype": str(base.dtype), "n": base.shape[-1], "batch": batch}
    row |= {"one_ms": one, "several_ms": more, "ratio": one / more}
    part.data.setdefault("times", []).append(row)
    text = f"{what}: one launch {one:.4g} ms, several {more:.4g}: {one / more:.2f} ×"
    part.notes.append(text)
    run.say(f"  {text}")
