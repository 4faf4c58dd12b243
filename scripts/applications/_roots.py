"""Square roots of covariances from several solvers, for layers that are compared."""

from collections.abc import Callable
from functools import partial

import torch

from bed.nn._roots import inverse_root, root

SOLVERS = ("bed", "torch_eigh", "torch_svd", "reference")


def by_eigh(s, function: Callable = torch.rsqrt):
    """S^-½, or another function, from eigenvalues of torch."""
    w, v = torch.linalg.eigh(s)
    return (v * function(w)[..., None, :]) @ v.mT


def by_svd(s, function: Callable = torch.rsqrt):
    """S^-½, or another function, from singular values of torch."""
    u, w, _ = torch.linalg.svd(s)
    return (u * function(w)[..., None, :]) @ u.mT


def roots(solver: str, gradient: str = "exact") -> tuple[Callable, Callable]:
    """The functions S^½ and S^-½ of a solver of `SOLVERS`.

    Those of torch have its own gradient, and no other.
    """
    if solver in ("torch_eigh", "torch_svd"):
        if gradient != "exact":
            raise SystemExit(f"{solver} has exact gradients alone, not {gradient}")
        by = by_eigh if solver == "torch_eigh" else by_svd
        return partial(by, function=torch.sqrt), by
    driver = "reference" if solver == "reference" else "auto"
    options = {"gradient": gradient, "driver": driver}
    return partial(root, **options), partial(inverse_root, **options)


def with_inverse_root(layer: type, function: Callable) -> type:
    """A whitening layer of `bed.nn` whose S^-½ comes from a function."""
    return type(layer.__name__, (layer,), {"_inverse_root": staticmethod(function)})
