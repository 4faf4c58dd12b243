"""What layers take, in which precision they compute, and whether they do it again."""

import math
from contextlib import nullcontext

import torch

_HALVES = (torch.float16, torch.bfloat16)


def raise_unless_real(x: torch.Tensor, name: str = "input") -> None:
    """Complex and whole numbers are refused."""
    if x.is_complex():
        raise TypeError(
            f"expected a real {name}, got {x.dtype}: pass real and imaginary parts as "
            "channels (torch.view_as_real)"
        )
    if not x.is_floating_point():
        raise TypeError(f"expected a floating point {name}, got {x.dtype}")


def raise_unless_channels(x: torch.Tensor, name: str = "input", axes: int = 2) -> None:
    """Real, with a batch axis, channels behind it, and so many axes at least."""
    raise_unless_real(x, name)
    if x.dim() < axes:
        expected = ("N", "C", "L")[:axes]
        raise ValueError(
            f"expected {name} ({', '.join(expected)}, ...), got shape {tuple(x.shape)}"
        )


def raise_unless_one(num_groups: int | None, group_size: int | None) -> None:
    """One of both ways to tell the groups."""
    if (num_groups is None) == (group_size is None):
        raise ValueError("pass num_groups or group_size, and not both")


def groups_of(
    channels: int, num_groups: int | None = None, group_size: int | None = None
) -> tuple[int, int]:
    """``(num_groups, group_size)`` from the one that was given.

    Raises
    ------
    ValueError
        Both or none were given, or it does not divide the number of channels.
    """
    raise_unless_one(num_groups, group_size)
    name = "num_groups" if group_size is None else "group_size"
    given = num_groups if group_size is None else group_size
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, got {given!r}")
    if channels % given:
        raise ValueError(f"{name} must divide the {channels} channels, got {given}")
    if group_size is None:
        return given, channels // given
    return channels // given, given


def number_from_zero(x, name: str) -> float:
    """A finite number that is not negative."""
    if isinstance(x, bool) or not isinstance(x, int | float) or not 0 <= x < math.inf:
        raise ValueError(f"{name} must be a number from 0 on, got {x!r}")
    return float(x)


def widened(x: torch.Tensor) -> torch.Tensor:
    """In the precision of computing: half types become float32."""
    return x.float() if x.dtype in _HALVES else x


def full_precision(x: torch.Tensor):
    """Keep an autocast out: statistics and roots are of float32 at least."""
    if x.is_meta:  # autocast does not know it
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def is_again() -> bool:
    """In backward, where activation checkpointing computes what it did not keep."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._current_graph_task_id() != -1
