"""Symmetric tridiagonal matrices that are hard for QR iterations, for every n."""

import numpy as np

from bed.testing.matrices import (
    EXTENDED,
    tridiagonal,
    tridiagonal_eigenvalues,
    wilkinson,
)

# Couplings that join blocks of glued matrices, in units of eps: at, below and above
# what counts as nothing beside entries of order one.
GLUES = (0.25, 1.0, 1e4)
BLOCK = 7


def hard(n, dtype, rng):
    """Pairs of a diagonal ``(n,)`` and couplings ``(n - 1,)``, by name."""
    real = np.dtype(dtype)
    eps = float(np.finfo(real).eps)
    i = np.arange(n)
    inner = i[1:]
    ones = np.ones(n - 1)
    x, y = rng.standard_normal(n), rng.standard_normal(n - 1)
    members = {
        "wilkinson": wilkinson(n),
        "clement": (0 * i, np.sqrt(inner * (n - inner))),
        "toeplitz": (2 + 0 * i, -ones),
        "zero": (0 * i, 0 * ones),
        "diagonal": (rng.permutation(n) - n / 3, 0 * ones),
        "equal diagonal": (1 + 0 * i, y * eps),
        "zero diagonal": (0 * i, y),
        "every other coupling zero": (x, y * (inner % 2)),
        "graded": (10.0 ** (-i / 2), 10.0 ** (-inner / 2 - 1)),
        "graded upwards": (10.0 ** (i / 2 - n), 10.0 ** (inner / 2 - n)),
        "couplings of any size": (x, y * 10.0 ** -rng.uniform(0, 20, n - 1)),
        "negative wilkinson": (i - (n - 1) / 2, ones),
        "random": (x, y),
    }
    for glue in GLUES:
        members[f"glued by {glue} eps"] = glued(n, glue * eps)
    return {
        name: (np.asarray(d, real), np.asarray(e, real))
        for name, (d, e) in members.items()
    }


def glued(n, glue):
    """Wilkinson matrices of size up to 7, joined by weak couplings."""
    d, e = [], []
    while len(d) < n:
        block_d, block_e = wilkinson(min(BLOCK, n - len(d)))
        e += ([glue] if d else []) + list(block_e)
        d += list(block_d)
    return np.array(d), np.array(e)


def graded(n, dtype):
    """Entries from 1e-30 to 1e30, falling and rising; as `stacked`."""
    powers = np.linspace(-30, 30, n)
    between = (powers[1:] + powers[:-1]) / 2 - 1
    d = np.stack([10.0**powers, 10.0**-powers]).astype(dtype)
    e = np.stack([10.0**between, 10.0 ** between[::-1]]).astype(dtype)
    return ["rising", "falling"], d, e, *_solved(d, e)


def stacked(n, dtype, rng, scale=1.0):
    """All of a size, scaled by a power of two.

    Returns
    -------
    names : list of str
    d, e : (members, n), (members, n − 1)
    a : (members, n, n)
        The full matrices.
    exact : (members, n)
        Eigenvalues in extended precision, of what was rounded to `dtype`.
    """
    members = hard(n, dtype, rng)
    d = np.stack([d for d, _ in members.values()]) * np.dtype(dtype).type(scale)
    e = np.stack([e for _, e in members.values()]) * np.dtype(dtype).type(scale)
    return list(members), d, e, *_solved(d, e, scale)


def _solved(d, e, scale=1.0):
    """The full matrices and their eigenvalues, found at the scale of one."""
    a = np.stack([tridiagonal(*pair) for pair in zip(d, e, strict=True)])
    unit = EXTENDED(scale)
    exact = [
        np.sort(tridiagonal_eigenvalues(d_i / unit, e_i / unit)) * unit
        for d_i, e_i in zip(d.astype(EXTENDED), e.astype(EXTENDED), strict=True)
    ]
    return a, np.stack(exact)
