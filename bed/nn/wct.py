"""Style transfer by whitening and colouring of features.

Y. Li, C. Fang, J. Yang, Z. Wang, X. Lu, M.-H. Yang, "Universal Style Transfer via
Feature Transforms", NeurIPS 2017; in groups, W. Cho, S. Choi, D. K. Park, I. Shin,
J. Choo, "Image-to-Image Translation via Group-wise Deep Whitening-and-Coloring
Transformation", CVPR 2019.
"""

import torch
from torch import nn

from ._inputs import number_from_zero, raise_unless_one
from ._roots import raise_unless_method
from .functional import wct


class WCT(nn.Module):
    """Whiten content features and colour them as those of a style are.

    Called with content (N, C, ...) and style (N, C, ...) or (1, C, ...).

    Parameters
    ----------
    alpha : float, optional
        ``alpha`` of the result and ``1 - alpha`` of the content.
    num_groups, group_size : int
        One of them: groups of channels are transformed by themselves.
    learn_alpha : bool, optional
        Make it a parameter.
    eps : float, optional
        Added to the diagonal of both covariances.
    gradient, degree : optional
        As of `bed.eigh`.

    Examples
    --------
    >>> import torch, bed.nn
    >>> transfer = bed.nn.WCT(0.6, num_groups=4)
    >>> transfer(torch.randn(2, 16, 9, 9), torch.randn(1, 16, 5, 7)).shape
    torch.Size([2, 16, 9, 9])
    """

    alpha: float | torch.Tensor

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        num_groups: int | None = None,
        group_size: int | None = None,
        learn_alpha: bool = False,
        eps: float = 1e-5,
        gradient: str = "exact",
        degree: int = 9,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        raise_unless_one(num_groups, group_size)
        raise_unless_method(gradient, degree)
        self.num_groups, self.group_size = num_groups, group_size
        self.eps = number_from_zero(eps, "eps")
        self.gradient, self.degree = gradient, degree
        self.initial_alpha = number_from_zero(alpha, "alpha")
        if learn_alpha:
            self.alpha = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        else:
            self.alpha = self.initial_alpha
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Alpha, if it is learned."""
        if isinstance(self.alpha, nn.Parameter):
            nn.init.constant_(self.alpha, self.initial_alpha)

    def extra_repr(self) -> str:
        groups = "num_groups" if self.group_size is None else "group_size"
        learned = isinstance(self.alpha, nn.Parameter)
        return (
            f"alpha={self.initial_alpha:g}, {groups}={getattr(self, groups)}, "
            f"learn_alpha={learned}, eps={self.eps}"
        )

    def forward(self, content: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        return wct(
            content,
            style,
            self.alpha,
            num_groups=self.num_groups,
            group_size=self.group_size,
            eps=self.eps,
            gradient=self.gradient,
            degree=self.degree,
        )
