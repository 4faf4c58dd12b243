"""Matrices that cannot be solved: reported, and of no effect on any other."""

import numpy as np

import bed

from ._cases import hermitian, kernels
from ._device import put, solve


def among_a_million(run, part) -> None:
    """One NaN and one Inf among a million 4 × 4: two statuses, other bits the same."""
    batch = 5_000 if run.smoke else 1_000_000
    few = hermitian(run.rng("million"), 4099, 4, np.dtype("f4"))
    a = np.resize(few, (batch, 4, 4))
    bad = {batch // 3: np.nan, batch - 77: np.inf}
    for uplo, (i, j) in {"L": (2, 1), "U": (1, 2)}.items():
        broken = a.copy()
        broken[:, j, i] = np.nan  # of the triangle that is not read
        for k, x in bad.items():
            broken[k, i, j] = x
        clean = solve(put(a), uplo)
        part.right(a[:64], clean[0][:64], clean[1][:64], uplo=uplo)
        compare(part, clean, solve(put(broken), uplo), bad, uplo)
        raises(part, broken, uplo, bad)
    try:
        bed.eigh(put(a), check=True)
    except np.linalg.LinAlgError as error:
        part.expect(False, f"check=True without a failure raised: {error}")


def compare(part, clean, found, bad, what) -> None:
    """The bad ones are NaN with status 1, all others as without them."""
    w, v, status = found
    good = np.ones(len(w), bool)
    good[list(bad)] = False
    failed = np.flatnonzero(status).tolist()
    part.expect(failed == sorted(bad), f"{what}: statuses at {failed[:10]}, not {bad}")
    part.expect((status[~good] == 1).all(), f"{what}: statuses {status[~good]}")
    for x, name in ((w, "values"), (v, "vectors")):
        part.expect(np.isnan(x[~good]).all(), f"{what}: {name} that are not NaN")
    part.same(
        tuple(x[good] for x in found), tuple(x[good] for x in clean), f"{what}: others"
    )


def raises(part, a, uplo, bad) -> None:
    """check=True names the indices."""
    try:
        bed.eigh(put(a), uplo, check=True)
    except np.linalg.LinAlgError as error:
        text = str(error)
        named = all(f"matrix {k}:" in text for k in bad)
        part.expect(named and f"{len(bad)} of {len(a)}" in text, f"message: {text}")
    else:
        part.expect(False, "check=True did not raise")


def in_every_kernel(run, part) -> None:
    """NaN and Inf beside good matrices in every kernel; eigenvalues that overflow."""
    for n, dtype, layout, _ in kernels(run.smoke):
        what = f"n = {n}, {dtype}"
        with part.attempt(what):
            rng = run.rng("every kernel", dtype, n)
            a = hermitian(rng, 2 * layout.matrices + 3, n, dtype)
            bad = {}
            broken = a.copy()
            for k in {0, layout.matrices, len(a) - 1}:
                i, j = sorted(rng.integers(0, n, 2).tolist(), reverse=True)
                bad[k] = rng.choice([np.nan, np.inf, -np.inf])
                broken[k, i, j] = bad[k]
            compare(part, solve(put(a)), solve(put(broken)), bad, what)
            if n > 1:
                overflow(part, a, what)


def overflow(part, a, what) -> None:
    """A matrix whose entries are the largest number: one eigenvalue is n times that."""
    a = a.copy()
    a[1] = np.finfo(a.dtype).max
    w, v, status = solve(put(a))
    part.expect(status[1] == 3, f"overflow, {what}: status {status[1]}")
    part.expect(w[1, -1] == np.inf, f"overflow, {what}: value {w[1, -1]}")
    part.expect(np.isfinite(w[1, :-1]).all(), f"overflow, {what}: {w[1]}")
    part.expect(np.isfinite(v[1]).all(), f"overflow, {what}: vectors")
    part.expect(np.delete(status, 1).max() == 0, f"overflow, {what}: other statuses")
