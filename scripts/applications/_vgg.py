"""The convolutions of VGG-16 up to conv4_1, and the decoder that mirrors them.

Features are those behind the ReLU of conv1_1, conv2_1, conv3_1 and conv4_1, of levels 1
to 4. Pictures are RGB in 0..1, (N, 3, height, width), with sides that 8 divides.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d, pad, relu

import bed

WEIGHTS = "vgg16_hed_conv1-4.npz"
LEVELS = 4
# Sides of pictures are multiples of it: three poolings.
MULTIPLE = 8
# Convolutions of a level: after the first of them the features are taken, and the rest
# leads to the pooling before the next level.
CONVOLUTIONS = (2, 2, 3, 1)
# What the weights expect: colours from 0 to 255, less these, in the order B, G, R.
MEANS = (104.00699, 116.66877, 122.67892)
# Divides colours and biases, so that features are of order one.
SCALE = 128.0
# Bounds how much more weak directions of features, and weak channels, count: they are
# taken as if there were so much of the mean in them as well.
RIDGE = 0.01


class Encoder(nn.Module):
    """Features of pictures at the levels; its weights are not trained.

    Pictures are continued by their mirror image, and not by zeros as in the training of
    VGG: what zeros do to the features near an edge would become a frame.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        for name in layer_names():
            for kind, divisor in (("w", 1.0), ("b", SCALE)):
                value = torch.from_numpy(np.array(weights[f"{name}_{kind}"]))
                self.register_buffer(f"{name}_{kind}", value.float() / divisor)
        self.register_buffer("means", torch.tensor(MEANS)[:, None, None] / 255)

    def forward(self, pictures: torch.Tensor, level: int = LEVELS) -> list:
        """Features of level 1 to `level`."""
        x = (pictures.flip(1) - self.means) * (255 / SCALE)
        found = []
        for block, count in enumerate(CONVOLUTIONS[:level], 1):
            if block > 1:
                x = max_pool2d(x, 2)
            x = self._convolved(x, f"conv{block}_1")
            found.append(x)
            if block < level:
                for i in range(2, count + 1):
                    x = self._convolved(x, f"conv{block}_{i}")
        return found

    def _convolved(self, x, name: str):
        w, b = (self.get_buffer(f"{name}_{kind}") for kind in "wb")
        return relu(conv2d(pad(x, (1, 1, 1, 1), "reflect"), w, b))

    @property
    def channels(self) -> list[int]:
        """Of the features, level by level."""
        return [len(self.get_buffer(f"conv{i}_1_b")) for i in range(1, LEVELS + 1)]


class Decoder(nn.Module):
    """Pictures from features of any level.

    A block leads from one level to the one above, and the first to the picture:
    features of a level pass through the blocks from its own to the first.
    """

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        blocks = [Block(channels[0], 3, 0)]
        for level in range(2, LEVELS + 1):
            wide, narrow = channels[level - 1], channels[level - 2]
            blocks.append(Block(wide, narrow, CONVOLUTIONS[level - 2] - 1))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, features: torch.Tensor, level: int) -> list:
        """What each block gives, from that of the level to the picture."""
        found = []
        for block in reversed(self.blocks[:level]):
            features = block(features)
            found.append(features)
        return found

    def set(self, pictures: torch.Tensor, features: list) -> None:
        """Let the blocks take features with the moments of these."""
        outputs = [pictures, *features]
        for block, x, y in zip(self.blocks, features, outputs, strict=False):
            block.set(x, y)


class Block(nn.Module):
    """The convolutions of the encoder between two levels, in reverse.

    They take decorrelated channels, and give channels in units of their deviation: of
    VGG's, some are a hundred times as large as others, and most are correlated, so that
    convolutions between them learn slowly.
    """

    def __init__(self, channels: int, out: int, more: int) -> None:
        super().__init__()
        layers = [_convolution(channels, out)]
        if more:
            layers += [nn.ReLU(), nn.Upsample(scale_factor=2)]
        for _ in range(more):
            layers += [_convolution(out, out), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("matrix", torch.eye(channels))
        self.register_buffer("shift", torch.zeros(out, 1, 1))
        self.register_buffer("scale", torch.ones(out, 1, 1))

    def set(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """The moments of what goes in and of what comes out."""
        x, y = (z.movedim(1, 0).flatten(1).double() for z in (x, y))
        s = torch.cov(x)
        ridge = RIDGE * s.diagonal().mean() * torch.eye(len(s), dtype=s.dtype)
        self.mean = x.mean(1).float()
        self.matrix = bed.invsqrtm(s + ridge).float()
        scale = y.std(1)
        self.scale = (scale + RIDGE * scale.mean()).float()[:, None, None]
        if not isinstance(self.layers[-1], nn.ReLU):
            self.shift = y.mean(1).float()[:, None, None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.matrix[:, :, None, None]
        x = conv2d(x, w, -self.matrix @ self.mean)
        return self.shift + self.scale * self.layers(x)


def _convolution(channels: int, out: int) -> nn.Module:
    return nn.Conv2d(channels, out, 3, padding=1, padding_mode="reflect")


def layer_names() -> list[str]:
    """conv1_1 to conv4_1."""
    return [f"conv{b}_{i + 1}" for b, n in enumerate(CONVOLUTIONS, 1) for i in range(n)]


def pretrained(folder: Path) -> Encoder:
    """The encoder with the weights of a file in a folder."""
    with np.load(folder / WEIGHTS) as weights:
        return Encoder(weights)


def random_encoder(width: int, seed: int) -> Encoder:
    """A narrow one whose weights are random, for runs without data."""
    rng = np.random.default_rng(seed)
    weights, inputs = {}, 3
    for name in layer_names():
        outputs = width * 2 ** (int(name[4]) - 1)
        scale = np.sqrt(2 / (9 * inputs))
        weights[f"{name}_w"] = scale * rng.standard_normal((outputs, inputs, 3, 3))
        weights[f"{name}_b"] = np.zeros(outputs)
        inputs = outputs
    return Encoder(weights)
