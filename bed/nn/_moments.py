"""Means and covariances of the groups of a batch, centred before they are squared.

Activations are (N, G, c, L) here: images, groups, channels of a group, samples. They
are large and the matrices small, so what counts is how often they are read and written.
Sums over images, and all that is computed from them, are in float64: in float32 their
rounding alone would be seen in what is whitened, times the condition number.
"""

from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from .._dispatch.interop.torch import recorded

# Samples of an image whose products are summed in the precision of the activation. The
# rounding of many images averages out, that of a few does not: there, sums are short.
CHUNK, FEW_IMAGES, SHORT_CHUNK = 4096, 16, 256


class Moments(NamedTuple):
    """Of all samples, which have mean `mean` and covariance `scatter` / `number`.

    `centred` are the activations less their own mean, which is `mean` plus `shift` if
    other processes have samples too; without them `shift` is None.
    """

    centred: torch.Tensor  # (N, G, c, L)
    number: int | torch.Tensor
    mean: torch.Tensor  # (G, c)
    scatter: torch.Tensor  # (G, c, c)
    shift: torch.Tensor | None = None

    @property
    def covariance(self) -> torch.Tensor:
        """Zero where there are no samples."""
        if isinstance(self.number, torch.Tensor):
            return self.scatter / self.number.clamp(min=1)
        return self.scatter / max(self.number, 1)


def moments(x: torch.Tensor, group=None) -> Moments:
    """Of activations (N, G, c, L), and of those of all processes of a group."""
    count = x.shape[0] * x.shape[3]
    found = _Centred.apply(x) if is_plain(x) else _centred(x)
    centred, mean, scatter = found
    if group is None:
        return Moments(centred, count, mean, scatter)
    counts, means, scatters = _of_all(count, mean, scatter, group)
    total = counts.sum()
    weights = counts[:, None, None] / total.clamp(min=1)
    mean_of_all = (weights * means).sum(0)
    apart = means - mean_of_all
    between = counts[:, None, None, None] * apart[..., :, None] * apart[..., None, :]
    scatter = (scatters + between).sum(0)
    return Moments(centred, total, mean_of_all, scatter, mean - mean_of_all)


def is_plain(x) -> bool:
    """Whether only backward may follow, and not a transform or a program."""
    return not (
        recorded(x)
        or torch._C._are_functorch_transforms_active()
        or getattr(forward_ad, "_current_level", 0) >= 0
    )


def _centred(x):
    """``(x - mean, mean, scatter)``, in operations that torch differentiates."""
    mean = (_sum(x) / _number(x)).to(x.dtype)
    centred = x - mean[:, :, None]
    return centred, mean.double(), _scatter(centred)


def _scatter(x):
    """Σ x xᵀ over images and samples, (G, c, c)."""
    n, groups, size, samples = x.shape
    # A program is to hold for any number of samples, and has no loop over them.
    total = None
    chunk = CHUNK if n >= FEW_IMAGES else SHORT_CHUNK
    for part in [x] if recorded(x) or samples <= chunk else x.split(chunk, -1):
        flat = part.reshape(n * groups, size, part.shape[3])
        products = torch.bmm(flat, flat.mT).reshape(n, groups, size, size)
        of_part = products.sum(0, dtype=torch.float64)
        total = of_part if total is None else total + of_part
    return total


class _Centred(torch.autograd.Function):
    """`_centred`, with two passes less in backward; its derivative is operations.

    Of a symmetric product torch computes both gradients, and its centring writes once
    for the mean and once for the difference.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        centred, mean, scatter = _centred(x)
        ctx.save_for_backward(centred)
        return centred, mean, scatter

    @staticmethod
    def backward(ctx, by_centred, by_mean, by_scatter):
        (centred,) = ctx.saved_tensors
        # Centred samples times a matrix are centred: their mean is no part of this.
        gradient, constant = by_centred, by_mean
        if by_centred is not None:
            total = _sum(by_centred)
            constant = -total if by_mean is None else by_mean - total
        if by_scatter is not None:
            gradient = _product(by_scatter + by_scatter.mT, centred, by_centred)
        if constant is None:
            return gradient
        constant = (constant / _number(centred)).to(centred.dtype)[:, :, None]
        if gradient is None:
            return constant.expand(centred.shape)
        if gradient is by_centred or torch.is_grad_enabled():
            return gradient + constant
        return gradient.add_(constant)


def _product(matrices, x, plus):
    """Matrices (G, c, c) times activations, plus activations or None."""
    n, groups, size, samples = x.shape
    matrices = matrices.to(x.dtype).expand(n, groups, size, size)
    matrices = matrices.reshape(n * groups, size, size)
    flat = x.reshape(n * groups, size, samples)
    if plus is None:
        return torch.bmm(matrices, flat).reshape(x.shape)
    plus = plus.reshape(flat.shape)
    return torch.baddbmm(plus, matrices, flat).reshape(x.shape)


def _sum(x):
    """Over images and samples, (G, c)."""
    return x.sum(3).sum(0, dtype=torch.float64)


def _number(x) -> int:
    """Of samples in all images; 1 if there are none, to divide by."""
    return max(x.shape[0] * x.shape[3], 1)


def _of_all(count: int, mean, scatter, group):
    """Counts, means and scatters of every process, (P), (P, G, c) and (P, G, c, c).

    Each process adds its own row to rows of zeros. One sum of raw moments would be
    shorter, but cancel where the mean is large.
    """
    size, rank = group.size(), group.rank()
    own = torch.cat([mean.new_tensor([count]), mean.flatten(), scatter.flatten()])
    before, behind = (
        own.new_zeros(rank, len(own)),
        own.new_zeros(size - rank - 1, len(own)),
    )
    rows = _SumOfAll.apply(torch.cat([before, own[None], behind]), group)
    means = rows[:, 1 : 1 + mean.numel()].reshape(size, *mean.shape)
    scatters = rows[:, 1 + mean.numel() :].reshape(size, *scatter.shape)
    return rows[:, 0].detach(), means, scatters


class _SumOfAll(torch.autograd.Function):
    """The sum over processes, whose gradient is the sum of their gradients."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = x.clone()
        torch.distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return _SumOfAll.apply(gradient, ctx.group), None
