"""Whitening and colouring of features, and how near a picture comes to both others."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from _vgg import LEVELS
from torch.nn.functional import conv2d

from bed.nn.functional import covariance

# Added to the diagonal of covariances; features are of order one.
EPS = 1e-3
# Of the structural similarity: window, deviation, and constants for values in 0..1.
WINDOW, SIGMA, C1, C2 = 11, 1.5, 0.01**2, 0.03**2


def wct(
    content: torch.Tensor,
    style: torch.Tensor,
    alpha: float,
    num_groups: int,
    roots: tuple[Callable, Callable],
    matrices: list | None = None,
) -> torch.Tensor:
    """`bed.nn.functional.wct` with roots of any solver.

    `roots` are S^½ and S^-½. The covariances are added to `matrices`, for a clock.
    """
    root, inverse_root = roots
    groups = (num_groups, content.shape[1] // num_groups)
    x, y = (z.flatten(2).unflatten(1, groups) for z in (content, style))
    x_mean, y_mean = (z.mean(-1, keepdim=True) for z in (x, y))
    identity = EPS * torch.eye(groups[1], dtype=x.dtype, device=x.device)
    s, t = (covariance(z, correction=0) + identity for z in (x, y))
    if matrices is not None:
        matrices.append((s, t))
    found = (root(t) @ inverse_root(s)) @ (x - x_mean) + y_mean
    return ((1 - alpha) * x + alpha * found).reshape(content.shape)


def stylised(
    encoder,
    decoder,
    content: torch.Tensor,
    styles: Sequence[torch.Tensor],
    transform: Callable,
    detail: float,
) -> torch.Tensor:
    """A picture with the style of others' features, from the deepest level up.

    `transform` is called with features of content and style. Of what a decoder loses of
    the content's own features, the part `detail` is added again.
    """
    picture = content
    for level in range(LEVELS, 0, -1):
        features = encoder(picture, level)[-1]
        found = decoder(transform(features, styles[level - 1]), level)[-1]
        if detail:
            found = found + detail * (picture - decoder(features, level)[-1])
        picture = found.clamp(0, 1)
    return picture


def similarity(a: torch.Tensor, b: torch.Tensor) -> float:
    """The structural similarity (SSIM) of the brightness of two pictures.

    Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image Quality Assessment:
    From Error Visibility to Structural Similarity", IEEE TIP 13 (2004).
    """
    weights = a.new_tensor([0.299, 0.587, 0.114])[:, None, None]
    a, b = ((weights * x).sum(1, keepdim=True) for x in (a, b))
    at = torch.arange(WINDOW, dtype=a.dtype, device=a.device) - WINDOW // 2
    line = torch.exp(-((at / SIGMA) ** 2) / 2)
    window = torch.outer(line, line)[None, None] / line.sum() ** 2
    mean_a, mean_b, aa, bb, ab = (
        conv2d(x, window) for x in (a, b, a * a, b * b, a * b)
    )
    both = (2 * mean_a * mean_b + C1) * (2 * (ab - mean_a * mean_b) + C2)
    squares = mean_a**2 + mean_b**2
    apart = (squares + C1) * (aa + bb - squares + C2)
    return float((both / apart).mean())


def distances(features: Sequence, styles: Sequence) -> dict[str, float]:
    """Of Gram matrices and of covariances: relative, in the mean of all levels."""
    found: dict[str, Any] = {"gram_distance": 0.0, "covariance_distance": 0.0}
    for x, y in zip(features, styles, strict=True):
        for name, center in zip(found, (False, True), strict=True):
            s, t = (
                covariance(z[0].flatten(1), correction=0, center=center) for z in (x, y)
            )
            found[name] += float((s - t).norm() / t.norm()) / len(styles)
    return found
