"""Pictures that are blends of two, with classes to match.

Mixup: H. Zhang, M. Cisse, Y. Dauphin, D. Lopez-Paz, ICLR 2018; CutMix: S. Yun, D. Han,
S. J. Oh, S. Chun, J. Choe, Y. Yoo, ICCV 2019. A batch is mixed by one or the other.
"""

import torch
from torch.nn.functional import one_hot

MIXUP, CUTMIX = 0.8, 1.0  # both parameters of the beta distributions


def mixed(
    x: torch.Tensor, y: torch.Tensor, classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each picture mixed with the one as far from the end; classes as probabilities.

    Drawn from torch's generator of the host.
    """
    targets = one_hot(y, classes).to(x.dtype)
    if torch.rand(()) < 0.5:
        share = _beta(MIXUP)
        x = share * x + (1 - share) * x.flip(0)
    else:
        share = _beta(CUTMIX)
        height, width = x.shape[-2:]
        top, bottom = _interval(height, 1 - share)
        left, right = _interval(width, 1 - share)
        inside = torch.zeros(height, width, dtype=torch.bool, device=x.device)
        inside[top:bottom, left:right] = True
        x = torch.where(inside, x.flip(0), x)
        # What the borders of the picture cut off is not mixed in.
        share = 1 - (bottom - top) * (right - left) / (height * width)
    return x, share * targets + (1 - share) * targets.flip(0)


def _beta(parameter: float) -> float:
    return torch.distributions.Beta(parameter, parameter).sample().item()


def _interval(length: int, area: float) -> tuple[int, int]:
    """A side of a square of that share of the area, around any point."""
    half = length * area**0.5 / 2
    middle = length * torch.rand(()).item()
    return max(round(middle - half), 0), min(round(middle + half), length)
