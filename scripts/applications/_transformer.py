"""A small vision transformer: tokens from convolutions, and layers on them.

The trunk of J. Xie, R. Zeng, Q. Wang, Z. Zhou, P. Li, "So-ViT: Mind Visual Tokens for
Vision Transformer", 2021, with strides for images of 32 × 32 in place of 224 × 224.
"""

import torch
from torch import nn
from torch.nn import functional as F

# The stem halves the image twice.
STRIDE = 4


class Residual(nn.Module):
    """Two convolutions 3×3 beside a shortcut, as in ResNet."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False),
                nn.BatchNorm2d(width),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def stem(embed: int) -> nn.Sequential:
    """Images (N, 3, H, W) to features (N, embed, H/4, W/4)."""
    narrow, middle = embed // 4, embed // 2
    return nn.Sequential(
        nn.Conv2d(3, narrow, 3, padding=1, bias=False),
        nn.BatchNorm2d(narrow),
        nn.ReLU(),
        Residual(narrow, middle, 2),
        Residual(middle, embed, 2),
    )


class DropPath(nn.Module):
    """Leave a branch out for some of the images, in training."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.probability == 0:
            return x
        keep = 1 - self.probability
        kept = torch.rand(len(x), 1, 1, device=x.device) < keep
        return x * kept / keep


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, embed: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(embed, 3 * embed)
        self.out = nn.Linear(embed, embed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, embed = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, self.heads, embed // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(n, length, embed))


class Layer(nn.Module):
    """Attention and a perceptron, each normalised before and added."""

    def __init__(self, embed: int, heads: int, mlp: int, drop: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(embed), Attention(embed, heads), DropPath(drop)
        )
        self.perceptron = nn.Sequential(
            nn.LayerNorm(embed),
            nn.Linear(embed, mlp * embed),
            nn.GELU(),
            nn.Linear(mlp * embed, embed),
            DropPath(drop),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Trunk(nn.Module):
    """Images to the class token (N, embed) and the others (N, L, embed).

    Parameters
    ----------
    embed, layers, heads : int
    mlp : int, optional
        Width of the perceptrons, in multiples of `embed`.
    drop : float, optional
        Drop-path of the last layer; it grows linearly from zero in the first.
    size : int, optional
        Height and width of the images.
    """

    def __init__(
        self,
        embed: int,
        layers: int,
        heads: int,
        *,
        mlp: int = 2,
        drop: float = 0.1,
        size: int = 32,
    ) -> None:
        super().__init__()
        self.stem = stem(embed)
        self.token = nn.Parameter(torch.zeros(1, 1, embed))
        length = 1 + (size // STRIDE) ** 2
        self.position = nn.Parameter(torch.zeros(1, length, embed))
        drops = torch.linspace(0, drop, layers).tolist()
        self.layers = nn.Sequential(*(Layer(embed, heads, mlp, x) for x in drops))
        self.norm = nn.LayerNorm(embed)
        for parameter in (self.token, self.position):
            nn.init.trunc_normal_(parameter, std=0.02)
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(images).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        x = self.norm(self.layers(x))
        return x[:, 0], x[:, 1:]
