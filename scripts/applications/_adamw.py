"""AdamW as vision transformers are trained with it, on gradients that may fail."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

RATE, DECAY = 1e-3, 0.03


def schedule(warmup: int, steps: int) -> Callable[[int], float]:
    """The learning rate at a step: up linearly, then down to zero as a cosine."""

    def rate(step: int) -> float:
        if step < warmup:
            return RATE * (step + 1) / warmup
        return RATE * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2

    return rate


def weights(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices decay; biases and scales do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


class Guarded(torch.optim.AdamW):
    """A step is skipped if its gradient is not finite."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, lr=RATE)

    @property
    def skipped(self) -> int:
        """How many were, in all; it is kept with the state."""
        return self.param_groups[0].get("skipped", 0)

    @torch.no_grad()
    def step(self, closure=None):
        groups = self.param_groups
        gradients = [p.grad for g in groups for p in g["params"] if p.grad is not None]
        if torch.nn.utils.get_total_norm(gradients).isfinite():
            return super().step(closure)
        groups[0]["skipped"] = self.skipped + 1
        return None
