"""Matrices, and functions of their decompositions that have derivatives, for torch."""

import numpy as np
import pytest

from bed.testing.matrices import planted

torch = pytest.importorskip("torch")


def matrix(rng, w, dtype="f8"):
    """A matrix with eigenvalues `w` in a random basis."""
    return torch.from_numpy(planted(rng, w, dtype))


def separated(rng, dtype, leading=(2,), n=4):
    """Matrices whose gaps are 0.7 to 1.3."""
    w = np.arange(n) + 0.3 * rng.random((*leading, n))
    return matrix(rng, w, dtype)


def hermitian(x):
    """The Hermitian part."""
    return (x + x.mH) / 2


def projectors(v):
    """v vᴴ of every column, (..., i, n, n): what does not depend on phases."""
    v = v.mT
    return v.unsqueeze(-1) * v.conj().unsqueeze(-2)


def invariants(solve, **options):
    """A function of any square matrix to eigenvalues and projectors."""

    def both(x):
        w, v = solve(hermitian(x), **options)
        return w, torch.view_as_real(projectors(v) + 0j)

    return both


def invariant_loss(solve, **options):
    """A real loss of eigenvalues and eigenvectors that does not depend on phases."""

    def loss(x):
        w, p = invariants(solve, **options)(x)
        weights = torch.arange(p.numel(), dtype=w.dtype).reshape(p.shape).cos()
        return (w**3).sum() + (weights * p * w[..., None, None, None]).sin().sum()

    return loss


def close(x, y, tolerance=1e-10):
    """Assert that tensors have the same dtype and shape, and nearly the same values."""
    torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)
