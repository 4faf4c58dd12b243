"""Gradients of ⟨C, √A⟩ by the ways that there are through a decomposition."""

from collections.abc import Callable, Iterator

import numpy as np
from _harness import Row

from bed._data import real_matrices
from bed._derivative.eigh import eigh_vjp
from bed._derivative.method import METHODS
from bed.testing.matrices import planted

GAPS = (1e-2, 1e-6, 1e-10, 1e-14)


def near_equal(rng) -> Iterator[Row]:
    """Relative errors in float64 where eigenvalues come in pairs."""
    for gap in GAPS:
        w = np.repeat([0.25, 0.5, 0.75, 1], 2) * np.resize([1, 1 + gap], 8)
        a = planted(rng, np.tile(w, (16, 1)), "f8")
        w, v = np.linalg.eigh(a)
        c = rng.standard_normal(a.shape)
        c = c + c.swapaxes(1, 2)
        root, vt = np.sqrt(w), v.swapaxes(1, 2)
        cv = c @ v
        inner = vt @ cv / (root[:, :, None] + root[:, None, :])
        truth = v @ inner @ vt
        cotangents = (v * cv).sum(1) / (2 * root), 2 * cv * root[:, None, :]
        for method in METHODS:
            found = np.stack([
                eigh_vjp(*x, gradient=method)
                for x in zip(w, v, *cotangents, strict=True)
            ])  # fmt: skip
            yield {"what": "gap", "gap": gap, "solver": method} | _told(found, truth)
        for name, root_of in _through_torch().items():
            found = _gradient(root_of, a, c)
            yield {"what": "gap", "gap": gap, "solver": name} | _told(found, truth)


def covariances(rng) -> Iterator[Row]:
    """Failures in float32, and with entries rounded to bfloat16, of VGG's features."""
    import torch

    a, _ = real_matrices()["vgg_n32"]
    c = rng.standard_normal(a.shape).astype(a.dtype)
    c = c + c.swapaxes(1, 2)
    added = 1e-3 * a.max((1, 2))[:, None, None] * np.eye(32, dtype=a.dtype)
    rounded = torch.from_numpy(a).bfloat16().float().numpy()
    given = {"float32": a, "bfloat16": rounded, "bfloat16 + εI": rounded + added}
    for precision, x in given.items():
        for name, root_of in _through_torch().items():
            g = _gradient(root_of, x, c)
            finite = np.isfinite(g).all((1, 2))
            row = {"what": "covariances", "precision": precision, "solver": name}
            yield row | {"matrices": len(x), "not_finite": int((~finite).sum())}


def _through_torch() -> dict[str, Callable]:
    import torch

    from bed.nn._roots import root

    def by_eigh(x):
        w, v = torch.linalg.eigh(x)
        return (v * lifted(w).sqrt()[:, None, :]) @ v.mT

    def by_svd(x):
        u, s, _ = torch.linalg.svd(x)
        return (u * lifted(s).sqrt()[:, None, :]) @ u.mT

    def lifted(w):
        bound = w.shape[-1] * torch.finfo(w.dtype).eps * w.detach().amax(-1, True)
        return w.maximum(bound)

    return {"torch_eigh": by_eigh, "torch_svd": by_svd, "bed": root}


def _gradient(root_of: Callable, a, c) -> np.ndarray:
    """Of each matrix by itself, so that one that raises is one failure."""
    import torch

    found = []
    for one, of_one in zip(a, c, strict=True):
        x = torch.from_numpy(one[None]).requires_grad_()
        try:
            (root_of(x) * torch.from_numpy(of_one)).sum().backward()
            g = x.grad[0].numpy()
            with np.errstate(invalid="ignore"):
                found.append((g + g.T) / 2)
        except RuntimeError:  # LinAlgError of torch is one
            found.append(np.full_like(one, np.nan))
    return np.stack(found)


def _told(found, truth) -> Row:
    finite = np.isfinite(found).all((1, 2))
    error = np.linalg.norm(found - truth, axis=(1, 2)) / np.linalg.norm(
        truth, axis=(1, 2)
    )
    return {
        "matrices": len(found),
        "not_finite": int((~finite).sum()),
        "error": float(np.median(error[finite])) if finite.any() else float("nan"),
    }
