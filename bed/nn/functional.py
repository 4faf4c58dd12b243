"""The layers of `bed.nn` as functions of tensors, without state.

All take real tensors of torch and compute in float32 at least, under autocast too; half
types come back as such. Gradients are exact where eigenvalues of a covariance coincide,
and finite where it is singular. `gradient` and `degree` are those of `bed.eigh`, for
comparison with the approximations of the literature.
"""

import math
from typing import Any

import torch

from ._inputs import (
    full_precision,
    groups_of,
    raise_unless_channels,
    raise_unless_real,
    widened,
)
from ._moments import Moments, is_plain, moments
from ._roots import inverse_root, newton_schulz, root

__all__ = [
    "color",
    "covariance",
    "covariance_pool",
    "triangular_vec",
    "wct",
    "whiten",
    "zca_whiten",
]

ROOTS = ("exact", "newton_schulz")


def zca_whiten(
    x: torch.Tensor,
    *,
    num_groups: int | None = None,
    group_size: int | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    gradient: str = "exact",
    degree: int = 9,
) -> torch.Tensor:
    """Whiten the channels of a batch, group by group: (S + eps·I)^-½ (x − mean).

    Parameters
    ----------
    x : tensor, shape (N, C, ...)
        Samples are all but the channels; mean and covariance S (divided by their
        number) are taken over them.
    num_groups, group_size : int
        One of them: channels that follow each other form a group.
    weight, bias : tensor, shape (C), optional
        Scale and shift of what is whitened.
    eps : float, optional
        With zero, a group whose channels are all constant becomes NaN.

    Returns
    -------
    y : tensor, as x
    """
    raise_unless_channels(x)
    groups = groups_of(x.shape[1], num_groups, group_size)
    with full_precision(x):
        found = moments(grouped(widened(x), *groups))
        w = inverse_root(ridged(found.covariance, eps), gradient, degree)
        return transformed(x, found, w, weight, bias)


def grouped(x: torch.Tensor, num_groups: int, group_size: int) -> torch.Tensor:
    """(N, C, ...) as (N, G, c, L); of vectors (N, C) as (1, G, c, N)."""
    if x.dim() == 2:
        return x.mT.reshape(1, num_groups, group_size, x.shape[0])
    samples = math.prod(x.shape[2:])
    return x.reshape(x.shape[0], num_groups, group_size, samples)


def transformed(x, found: Moments, w, weight=None, bias=None) -> torch.Tensor:
    """W (x − mean) of every group, scaled and shifted, in the form of x."""
    num_groups, size, _ = w.shape
    dtype = found.centred.dtype
    if found.shift is not None:
        constant = w @ found.shift[..., None]
        if weight is not None:
            constant = weight.reshape(num_groups, size, 1) * constant
        if bias is not None:
            constant = bias.reshape(num_groups, size, 1) + constant
    else:
        constant = None if bias is None else bias.reshape(num_groups, size, 1)
    if weight is not None:
        w = weight.reshape(num_groups, size, 1) * w
    y = torch.matmul(w.to(dtype), found.centred)
    if constant is not None:
        constant = constant.to(dtype)
        y = y.add_(constant) if is_plain(y) else y + constant
    return as_given(y, x)


def as_given(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(N, G, c, L) in the shape, dtype and memory format of x."""
    if x.dim() == 2:
        y = y.reshape(x.shape[1], x.shape[0]).mT.contiguous()
    y = y.reshape(x.shape).to(x.dtype)
    last = torch.channels_last
    if x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=last):
        return y.contiguous(memory_format=last)
    return y


def ridged(a: torch.Tensor, eps: float) -> torch.Tensor:
    """S + eps·I."""
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return torch.add(a, identity, alpha=eps)


def covariance(
    x: torch.Tensor, *, correction: int = 1, center: bool = True
) -> torch.Tensor:
    """Covariance of variables (..., n, m), as `torch.cov` has it, of every matrix.

    Parameters
    ----------
    x : tensor, shape (..., n, m)
        A row is a variable, and a column a sample.
    correction : int, optional
        Products are divided by m − correction, or by 1 if that is less.
    center : bool, optional
        Subtract the mean, which is done before they are multiplied.

    Returns
    -------
    s : tensor, shape (..., n, n)
    """
    raise_unless_real(x)
    with full_precision(x):
        y = widened(x)
        if center:
            y = y - _mean(y)
        return _products(y, correction).to(x.dtype)


def covariance_pool(
    x: torch.Tensor,
    *,
    root: str = "exact",
    iterations: int = 5,
    center: bool = True,
    eps: float = 1e-5,
    gradient: str = "exact",
    degree: int = 9,
) -> torch.Tensor:
    """Square root of the covariance of every image: (S + eps·I)^½.

    Parameters
    ----------
    x : tensor, shape (N, C, ...)
        Samples of an image are all that follows the channels.
    root : {"exact", "newton_schulz"}, optional
        The latter approximates the root by so many `iterations`.
    center : bool, optional
        Subtract the mean of every channel of an image.

    Returns
    -------
    y : tensor, shape (N, C, C)
    """
    raise_unless_channels(x)
    raise_unless_root(root)
    with full_precision(x):
        y = widened(x).flatten(2) if x.dim() > 2 else widened(x)[..., None]
        if center:
            y = y - _mean(y)
        s = ridged(_products(y, 0), eps)
        return rooted(s, root, iterations, gradient, degree).to(x.dtype)


def rooted(s, name: str, iterations: int, gradient: str, degree: int):
    """S^½ by one of `ROOTS`."""
    if name == "exact":
        return root(s, gradient, degree)
    return newton_schulz(s, iterations)


def raise_unless_root(name) -> None:
    """One of `ROOTS`."""
    if name not in ROOTS:
        accepted = " or ".join(repr(x) for x in ROOTS)
        raise ValueError(f"root must be {accepted}, got {name!r}")


def triangular_vec(a: torch.Tensor) -> torch.Tensor:
    """The upper triangle with the diagonal, row by row: (..., n·(n + 1)/2)."""
    n = a.shape[-1]
    if a.dim() < 2 or a.shape[-2] != n:
        raise ValueError(f"expected matrices (..., n, n), got shape {tuple(a.shape)}")
    rows, columns = torch.triu_indices(n, n, device=a.device)
    return a[..., rows, columns]


def whiten(
    x: torch.Tensor, *, eps: float = 1e-5, gradient: str = "exact", degree: int = 9
) -> torch.Tensor:
    """Whiten every matrix of variables: (S + eps·I)^-½ (x − mean), (..., n, m)."""
    raise_unless_real(x)
    with full_precision(x):
        y = widened(x)
        y = y - _mean(y)
        s = ridged(_products(y, 0), eps)
        return (inverse_root(s, gradient, degree) @ y).to(x.dtype)


def color(
    x: torch.Tensor,
    style: torch.Tensor,
    *,
    eps: float = 1e-5,
    gradient: str = "exact",
    degree: int = 9,
) -> torch.Tensor:
    """Give variables the covariance and the mean of others: (S + eps·I)^½ x + mean.

    Parameters
    ----------
    x : tensor, shape (..., n, m)
        White, as from `whiten`.
    style : tensor, shape (..., n, k)
        Whose covariance S and mean are given; leading axes are broadcast.
    """
    raise_unless_real(x)
    raise_unless_real(style, "style")
    with full_precision(x):
        wide = widened(style)
        mean = _mean(wide)
        s = ridged(_products(wide - mean, 0), eps)
        y = root(s, gradient, degree) @ widened(x) + mean
        return y.to(x.dtype)


def wct(
    content: torch.Tensor,
    style: torch.Tensor,
    alpha: float | torch.Tensor = 1.0,
    *,
    num_groups: int | None = None,
    group_size: int | None = None,
    eps: float = 1e-5,
    gradient: str = "exact",
    degree: int = 9,
) -> torch.Tensor:
    """Whiten the features of each content image and colour them as a style's are.

    Parameters
    ----------
    content : tensor, shape (N, C, ...)
    style : tensor, shape (N, C, ...) or (1, C, ...)
        Other spatial axes are fine. It has to have some: the covariance of pooled
        features is zero, and nothing would be transferred.
    alpha : float or tensor, optional
        ``alpha`` of the result and ``1 - alpha`` of the content.
    num_groups, group_size : int
        One of them; groups are whitened and coloured by themselves.

    Returns
    -------
    y : tensor, as content
    """
    raise_unless_channels(content, "content", axes=3)
    raise_unless_channels(style, "style", axes=3)
    if style.shape[1] != content.shape[1]:
        raise ValueError(
            f"content has {content.shape[1]} channels and style {style.shape[1]}"
        )
    if math.prod(style.shape[2:]) < 2:
        raise ValueError(
            f"style of shape {tuple(style.shape)} has one sample an image, and so no "
            "covariance: pass features with spatial axes"
        )
    groups = groups_of(content.shape[1], num_groups, group_size)
    options: dict[str, Any] = {"eps": eps, "gradient": gradient, "degree": degree}
    with full_precision(content):
        x, y = (widened(z).flatten(2).unflatten(1, groups) for z in (content, style))
        found = color(whiten(x, **options), y, **options)
        return as_given((1 - alpha) * x + alpha * found, content)


def _mean(x):
    """Of the samples (..., n, m), (..., n, 1); zero if there are none."""
    return x.sum(-1, keepdim=True) / max(x.shape[-1], 1)


def _products(x, correction: int):
    return (x @ x.mT) / max(x.shape[-1] - correction, 1)
