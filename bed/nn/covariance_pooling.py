"""Pooling of second order: the square root of the covariance of an image's features.

P. Li, J. Xie, Q. Wang, W. Zuo, "Is Second-order Information Helpful for Large-scale
Visual Recognition?", ICCV 2017; on tokens, J. Xie, R. Zeng, Q. Wang, Z. Zhou, P. Li,
"So-ViT: Mind Visual Tokens for Vision Transformer", 2021.
"""

import torch
from torch import nn

from ._inputs import full_precision, is_again, number_from_zero, raise_unless_real
from ._roots import raise_unless_method
from .functional import covariance_pool, raise_unless_root, triangular_vec


class CovariancePooling(nn.Module):
    """(S + eps·I)^½ of the covariance S of each image, as a vector.

    Parameters
    ----------
    num_features : int
        Channels C of the input (N, C, ...). Tokens (N, L, C) are passed as ``x.mT``.
    reduction : int, optional
        Channels d that a convolution 1×1, BatchNorm and ReLU leave before; by default
        there is none, and d = C.
    root : {"exact", "newton_schulz"}, optional
        The latter approximates it by so many `iterations`.
    center : bool, optional
        Subtract the mean of every channel of an image.
    eps : float, optional
    triangular : bool, optional
        Return the upper triangle, (N, d·(d + 1)/2), else matrices (N, d, d).
    warmup_steps : int, optional
        So many forward passes in training use Newton–Schulz before the exact root does
        its work. They are counted in the buffer `steps`; a compiled layer computes both
        roots until `warmup_steps` is set to zero.
    gradient, degree : optional
        Of the exact root, as of `bed.eigh`.

    Examples
    --------
    >>> import torch, bed.nn
    >>> pool = bed.nn.CovariancePooling(64, reduction=8)
    >>> pool(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 36])
    """

    steps: torch.Tensor

    def __init__(
        self,
        num_features: int,
        *,
        reduction: int | None = None,
        root: str = "exact",
        iterations: int = 5,
        center: bool = True,
        eps: float = 1e-5,
        triangular: bool = True,
        warmup_steps: int = 0,
        gradient: str = "exact",
        degree: int = 9,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        raise_unless_root(root)
        raise_unless_method(gradient, degree)
        for name, value in (("iterations", iterations), ("warmup_steps", warmup_steps)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} must be a whole number from 0 on")
        self.num_features, self.reduction = num_features, reduction
        self.root, self.iterations = root, iterations
        self.center, self.triangular = center, triangular
        self.eps = number_from_zero(eps, "eps")
        self.warmup_steps = warmup_steps
        self.gradient, self.degree = gradient, degree
        self.reduce: nn.Module = nn.Identity()
        if reduction is not None:
            made = {"device": device, "dtype": dtype}
            self.reduce = nn.Sequential(
                nn.Conv1d(num_features, reduction, 1, bias=False, **made),
                nn.BatchNorm1d(reduction, **made),
                nn.ReLU(),
            )
        count = torch.tensor(0, dtype=torch.long, device=device)
        self.register_buffer("steps", count)

    @property
    def out_features(self) -> int:
        """Length of what comes out of an image, or n of its matrix."""
        n = self.num_features if self.reduction is None else self.reduction
        return n * (n + 1) // 2 if self.triangular else n

    def reset_parameters(self) -> None:
        """Of the reduction, and the count of steps."""
        self.steps.zero_()
        if isinstance(self.reduce, nn.Sequential):
            for layer in self.reduce[:2]:
                layer.reset_parameters()

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, reduction={self.reduction}, root={self.root!r}, "
            f"iterations={self.iterations}, center={self.center}, eps={self.eps}, "
            f"triangular={self.triangular}, warmup_steps={self.warmup_steps}"
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise_unless_real(input)
        if input.dim() < 3 or input.shape[1] != self.num_features:
            raise ValueError(
                f"expected input (N, {self.num_features}, L, ...), got shape "
                f"{tuple(input.shape)}"
            )
        x = self.reduce(input.flatten(2))
        with full_precision(x):
            y = self._pooled(x)
        return triangular_vec(y) if self.triangular else y

    def _pooled(self, x):
        if self.root != "exact" or not self.warmup_steps:
            return self._by(self.root, x)
        again = is_again()
        # What backward runs again was counted, and takes the root that it took.
        warming = self.steps - int(again) < self.warmup_steps
        if self.training and not again:
            self.steps += 1
        if not torch.compiler.is_compiling() and not x.is_meta:
            return self._by("newton_schulz" if warming else "exact", x)
        return torch.where(warming, self._by("newton_schulz", x), self._by("exact", x))

    def _by(self, root: str, x):
        return covariance_pool(
            x,
            root=root,
            iterations=self.iterations,
            center=self.center,
            eps=self.eps,
            gradient=self.gradient,
            degree=self.degree,
        )
