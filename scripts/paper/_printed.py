"""The paper's iteration to the letter, and the matrices that it is tried on."""

from typing import Any, NamedTuple

import numpy as np

from bed.engines.reference import EighStats
from bed.engines.reference.back_transform import back_transform
from bed.engines.reference.qr_iteration import qr_step, trailing_block, wilkinson_shifts
from bed.engines.reference.tridiagonalize import tridiagonalize

THRESHOLD = 1e-5
# Iterations after which one to the end is given up, in those that the paper makes.
PATIENCE = 20


class Printed(NamedTuple):
    """What the iteration left.

    Attributes
    ----------
    w : (batch, n) array
        The diagonal, ascending.
    v : (batch, n, n) array or None
    e : (batch, n - 1) array
        Off-diagonal entries.
    sizes : list of int
        Active size in every iteration.
    history : list of (batch, n - 1) arrays
        Off-diagonal entries before every iteration.
    """

    w: Any
    v: Any
    e: Any
    sizes: list[int]
    history: list


def printed(
    a, threshold=THRESHOLD, passes=None, shifts="pair", vectors=False
) -> Printed:
    """Passes of two QR iterations with shrinkage for the whole batch.

    The rotations and shifts are right, not as misprinted. Nothing is scaled or set to
    zero: an entry below the absolute threshold stays as it is, and the active part
    loses one row after an iteration when the last entry is below it in every matrix.

    Parameters
    ----------
    a : (batch, n, n) array
    threshold : float
    passes : int, optional
        The paper makes n. By default to the end.
    shifts : {"pair", "one", "none"}
        Both eigenvalues of the trailing block of one matrix T, as in the paper; the
        nearer one, computed anew in each iteration; zero.
    vectors : bool
        Whether to rotate eigenvectors as well.
    """
    n = a.shape[1]
    d, e, u, weights, phases = tridiagonalize(a)
    v = np.array(back_transform(u, weights, phases)) if vectors else None
    size, sizes, history = n, [], []
    for _ in range(PATIENCE * n if passes is None else passes):
        pair = wilkinson_shifts(*trailing_block(d, e, size)) if size > 1 else ()
        for shift in pair:
            if shifts == "one":
                shift, _ = wilkinson_shifts(*trailing_block(d, e, size))
            history.append(e.copy())
            qr_step(d, e, shift if shifts != "none" else 0 * shift, size, v)
            sizes.append(size)
            size -= bool((abs(e[:, size - 2]) < threshold).all())
            if size == 1:
                break
    order = np.argsort(d, axis=1)
    w = np.take_along_axis(d, order, axis=1)
    if v is not None:
        v = np.take_along_axis(v, order[:, None, :], axis=2)
    return Printed(w, v, e, sizes, history)


def counts(n: int, sizes: list[int]) -> EighStats:
    """Accounts of iterations at these active sizes."""
    stats = EighStats(n=n)
    for size in sizes:
        stats.count_qr_step(size, eigenvectors=True)
    return stats


def wishart(rng, shape, dtype="f4") -> np.ndarray:
    """X Xᵀ with normally distributed X, as in the authors' example."""
    x = rng.standard_normal(shape)
    return (x @ x.swapaxes(-1, -2)).astype(dtype)
