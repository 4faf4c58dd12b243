"""Errors of the gradients on ill-conditioned covariances, against extended precision.

``python tests/gradient_errors.py`` prints the table of `bed._derivative.gaps`.

The eigendecomposition that is differentiated is right to rounding, so that the errors
are those of the derivative alone.
"""

import warnings

import numpy as np

from bed._derivative.eigh import eigh_vjp
from bed._derivative.method import METHODS
from bed.testing.matrices import EXTENDED

CONDITIONS = (1e2, 1e4, 1e6, 1e8, 1e10, 1e12, 1e14, 1e16)
N = 8


def spectra(condition, n=N):
    """Eigenvalues ``(n,)`` by name, of the condition given unless it says otherwise."""
    pairs = np.geomspace(0.1, 1, n // 2, dtype=EXTENDED)
    return {
        "geometric": np.geomspace(1 / EXTENDED(condition), 1, n, dtype=EXTENDED),
        "even": np.linspace(1 / EXTENDED(condition), 1, n, dtype=EXTENDED),
        # Relative gaps of one over the condition, in a well-conditioned matrix.
        "close pairs": np.sort(np.concatenate([pairs, pairs * (1 + 1 / condition)])),
    }


def orthogonal(rng, n, complex_=False):
    """A random basis ``(n, n)``, unitary in extended precision."""
    v = np.eye(n, dtype=np.clongdouble if complex_ else EXTENDED)
    for _ in range(n):
        u = rng.standard_normal((n, 1)).astype(EXTENDED)
        if complex_:
            u = u + 1j * rng.standard_normal((n, 1))
        u /= np.sqrt((abs(u) ** 2).sum())
        v = v - 2 * u * (u.conj().T @ v)
    return v


def root_loss(w, v, c, xp=np):
    """Gradients in w and v of ⟨C, √A⟩."""
    root = w**0.5
    cv = c @ v
    return (v * cv).sum(axis=0) / (2 * root), 2 * cv * root


def root_truth(w, v, c):
    """Gradient of ⟨C, √A⟩: divided differences 1/(√wᵢ + √wⱼ), where nothing cancels."""
    root = np.sqrt(w)
    return v @ ((v.T @ c @ v) / (root[:, None] + root[None, :])) @ v.T


def errors(rng, condition, matrices=50, dtype="f8"):
    """Relative errors, ``{spectrum: {gradient: error}}``, mean over random matrices."""
    result = {}
    for name, w in spectra(condition).items():
        sums = dict.fromkeys(METHODS, 0.0)
        for _ in range(matrices):
            v = orthogonal(rng, N)
            c = rng.standard_normal((N, N)).astype(EXTENDED)
            c = c + c.T
            truth = root_truth(w, v, c)
            w8, v8 = w.astype(dtype), v.astype(dtype)
            grads = root_loss(w8, v8, c.astype(dtype))
            for gradient in METHODS:
                g = eigh_vjp(w8, v8, *grads, gradient=gradient)
                difference = np.linalg.norm((g - truth).astype("f8"))
                size = np.linalg.norm(truth.astype("f8"))
                sums[gradient] += float(difference / size) / matrices
        result[name] = sums
    return result


def main():
    short = {"power_iteration": "power", "truncated": "trunc."}
    heads = (f"{short.get(gradient, gradient):>7}" for gradient in METHODS)
    print(f"{'spectrum':12} {'cond.':6}", *heads)
    rng = np.random.default_rng(0)
    table = {condition: errors(rng, condition) for condition in CONDITIONS}
    for name in spectra(10):
        for condition in CONDITIONS:
            row = (f"{error:7.0e}" for error in table[condition][name].values())
            print(f"{name:12} {condition:<6.0e}", *row)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
