"""Random Hermitian matrices, planted spectra, and the zoo for every n and dtype.

Eigenvalues are in extended precision. A matrix is stored in the dtype asked for, and
differs from the one that has these eigenvalues by at most the rounding of its entries,
which moves them by less than n·eps/2 of the largest entry; most members are exact.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

DTYPES = ("f4", "f8", "c8", "c16")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 36, 48, 63, 64, 65)

EXTENDED = np.longdouble
PI = EXTENDED("3.14159265358979323846264338327950288")


class Member(NamedTuple):
    """One matrix ``(n, n)`` and its ascending eigenvalues ``(n,)``."""

    name: str
    a: np.ndarray
    w: np.ndarray


def random_hermitian(rng, shape, dtype):
    """Normally distributed entries, exactly Hermitian; `shape` ends in (n, n)."""
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return ((x + x.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def planted(rng, w, dtype):
    """A matrix ``(..., n, n)`` with eigenvalues `w` ``(..., n)`` in a random basis.

    The basis is a product of n random reflectors, applied in extended precision.
    """
    w = np.asarray(w, EXTENDED)
    n = w.shape[-1]
    complex_ = np.dtype(dtype).kind == "c"
    a = np.zeros((*w.shape, n), np.clongdouble if complex_ else EXTENDED)
    a[..., np.arange(n), np.arange(n)] = w
    for _ in range(n):
        u = rng.standard_normal((*w.shape, 1)).astype(EXTENDED)
        if complex_:
            u = u + 1j * rng.standard_normal(u.shape).astype(EXTENDED)
        u /= np.sqrt((abs(u) ** 2).sum(axis=-2, keepdims=True))
        uh = u.conj().swapaxes(-1, -2)
        a = a - 2 * u * (uh @ a)
        a = a - 2 * (a @ u) * uh
    return ((a + a.conj().swapaxes(-1, -2)) / 2).astype(dtype)


def tridiagonal_eigenvalues(d, e):
    """Eigenvalues of a symmetric tridiagonal matrix by bisection on Sturm counts."""
    return np.array(_bisected(*(tuple(np.asarray(x, EXTENDED)) for x in (d, e))))


@lru_cache  # most are members of the zoo, which is made again and again
def _bisected(d, e):
    d, e2 = np.array(d, EXTENDED), np.array(e, EXTENDED) ** 2
    n = len(d)
    bound = abs(d).max() + 2 * np.sqrt(e2.max(initial=0))
    low, high = np.full(n, -bound), np.full(n, bound)
    wanted = np.arange(n)
    guard = np.finfo(EXTENDED).tiny ** EXTENDED(0.5)
    for _ in range(2 * np.finfo(EXTENDED).nmant):
        x = (low + high) / 2
        count = np.zeros(n, int)  # eigenvalues below x
        q = np.ones(n, EXTENDED)
        for i in range(n):
            q = d[i] - x - (e2[i - 1] / q if i else 0)
            q = np.where(abs(q) < guard, -guard, q)
            count += q < 0
        low, high = np.where(count <= wanted, x, low), np.where(count > wanted, x, high)
    return (low + high) / 2


def tridiagonal(d, e):
    """The full matrix of a diagonal and an off-diagonal."""
    return np.diag(d) + np.diag(e, 1) + np.diag(e, -1)


def wilkinson(n):
    """Diagonal |i − (n−1)/2| and off-diagonal one: pairs that nearly coincide."""
    return abs(np.arange(n) - (n - 1) / 2), np.ones(n - 1)


def zoo(n, dtype, rng):
    """All members of size n, as a list of `Member`."""
    dtype = np.dtype(dtype)
    limits = np.finfo(dtype)
    eps, real = float(limits.eps), limits.dtype

    def spectrum(name, w):
        return Member(name, planted(rng, w, dtype), np.sort(np.asarray(w, EXTENDED)))

    def exact(name, a, w):
        return Member(name, _with_phases(np.asarray(a), dtype), np.sort(w))

    def from_tridiagonal(name, d, e):
        d, e = np.asarray(d, real), np.asarray(e, real)
        return exact(name, tridiagonal(d, e), tridiagonal_eigenvalues(d, e))

    i = np.arange(n)
    zeros = np.zeros(n, EXTENDED)
    diagonal = rng.permutation(n).astype(real) - real.type(n // 3)
    x = rng.integers(1, 4, n)
    laplace = tridiagonal(np.full(n, 2), np.full(n - 1, -1))
    laplace_w = 4 * np.sin(PI * (i + 1) / (2 * (n + 1))) ** 2
    half_dead = np.where(i < n // 2, 0, 1 + i / n)
    pairs = np.zeros((n, n))
    for k in range(0, n - 1, 2):
        pairs[k, k + 1] = pairs[k + 1, k] = k + 1
    pairs_w = np.concatenate(
        [[k + 1, -k - 1] for k in range(0, n - 1, 2)] + [[0] * (n % 2)]
    )
    glued_d, glued_e = _glued_wilkinson(n, np.sqrt(eps))

    members = [
        exact("zero", np.zeros((n, n)), zeros),
        exact("identity", np.eye(n), zeros + 1),
        exact("minus identity", -2.5 * np.eye(n), zeros - 2.5),
        exact("ones", np.ones((n, n)), _one_nonzero(n, n)),
        exact("rank one", np.outer(x, x), _one_nonzero(n, x @ x)),
        exact("unsorted diagonal", np.diag(diagonal), diagonal.astype(EXTENDED)),
        exact(
            "diagonal with one entry", np.diag(np.eye(n)[-1] * 3), _one_nonzero(n, 3)
        ),
        exact("block diagonal", pairs, pairs_w.astype(EXTENDED)),
        exact("banded", laplace @ laplace, laplace_w**2),
        from_tridiagonal("wilkinson", *wilkinson(n)),
        from_tridiagonal("glued wilkinson", glued_d, glued_e),
        from_tridiagonal("graded", 10.0 ** (-i / 2), 10.0 ** (-i[1:] / 2 - 1)),
        from_tridiagonal(
            "graded upwards", 10.0 ** (i / 2 - n), 10.0 ** (i[1:] / 2 - n)
        ),
        spectrum("even", np.linspace(-1, 1, n)),
        spectrum("geometric", np.geomspace(1e-12, 1, n)),
        spectrum("geometric to 1e-30", np.geomspace(1e-30, 1, n)),
        spectrum("repeated", np.resize([-1.0, 0.5, 2.0], n)),
        spectrum("clustered at eps", 1 + eps * i),
        spectrum("one apart", np.where(i == 0, 1e-6, 1)),
        spectrum("half zero", half_dead),
        spectrum("random", rng.standard_normal(n)),
        spectrum("huge", np.linspace(-1, 1, n) * float(limits.max) / 4),
        spectrum("tiny", np.linspace(1, 2, n) * float(limits.tiny)),
        exact(
            "subnormal",
            (np.outer(x, x) * 64).astype(real) * limits.smallest_subnormal,
            _one_nonzero(n, x @ x * 64) * EXTENDED(limits.smallest_subnormal),
        ),
    ]
    return members


def stack(members):
    """Batch ``(len, n, n)`` and eigenvalues ``(len, n)`` of a list of members."""
    return np.stack([m.a for m in members]), np.stack([m.w for m in members])


def _one_nonzero(n, value):
    w = np.zeros(n, EXTENDED)
    w[-1] = value
    return w


def _with_phases(a, dtype):
    """The matrix itself, or D A Dᴴ with D = diag(1, i, −1, −i, …) if complex: exact."""
    if dtype.kind != "c":
        return a.astype(dtype)
    k = np.arange(len(a))
    turns = np.array([1, 1j, -1, -1j])[(k[:, None] - k[None, :]) % 4]
    return (a.astype(np.clongdouble) * turns).astype(dtype)


def _glued_wilkinson(n, glue):
    """Wilkinson matrices of size up to 7, joined by weak entries."""
    d: list[float] = []
    e: list[float] = []
    while len(d) < n:
        block_d, block_e = wilkinson(min(7, n - len(d)))
        e += ([glue] if d else []) + list(block_e)
        d += list(block_d)
    return np.array(d), np.array(e)
