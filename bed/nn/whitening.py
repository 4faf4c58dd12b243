"""Decorrelated batch normalisation: ZCA whitening of the channels of a batch.

L. Huang, D. Yang, B. Lang, J. Deng, "Decorrelated Batch Normalization", CVPR 2018.
"""

from typing import Any

import torch
from torch import nn

from ._inputs import (
    full_precision,
    groups_of,
    is_again,
    number_from_zero,
    raise_unless_real,
    widened,
)
from ._moments import Moments, moments
from ._roots import inverse_root, raise_unless_method
from .functional import grouped, ridged, transformed

TRACKED = ("whitening", "covariance")
# The default process group, looked for in forward: it may not be there before.
WORLD = "world"


class _ZCAWhitening(nn.Module):
    _version = 1
    _axes: tuple[int, ...]

    num_batches_tracked: Any
    running_mean: Any

    def __init__(
        self,
        num_features: int,
        *,
        num_groups: int | None = None,
        group_size: int | None = None,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        track: str = "whitening",
        process_group: Any = None,
        gradient: str = "exact",
        degree: int = 9,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        if track not in TRACKED:
            accepted = " or ".join(repr(name) for name in TRACKED)
            raise ValueError(f"track must be {accepted}, got {track!r}")
        raise_unless_method(gradient, degree)
        self.num_features = num_features
        groups = groups_of(num_features, num_groups, group_size)
        self.num_groups, self.group_size = groups
        self.eps = number_from_zero(eps, "eps")
        self.momentum = momentum
        if momentum is not None and not number_from_zero(momentum, "momentum") <= 1:
            raise ValueError(f"momentum must be at most 1, got {momentum!r}")
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.track = track
        self.process_group = process_group
        self.gradient, self.degree = gradient, degree
        made = {"device": device, "dtype": dtype}
        for name in ("weight", "bias"):
            of_channels = nn.Parameter(torch.empty(num_features, **made))
            self.register_parameter(name, of_channels if affine else None)
        tracked = f"running_{track}"
        if track_running_stats:
            matrices = self.num_groups, self.group_size, self.group_size
            self.register_buffer("running_mean", torch.empty(num_features, **made))
            self.register_buffer(tracked, torch.empty(matrices, **made))
            count = torch.tensor(0, dtype=torch.long, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", tracked, "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean zero, and the identity as covariance and whitening matrix."""
        if self.track_running_stats:
            self.running_mean.zero_()
            matrices = getattr(self, f"running_{self.track}")
            with torch.no_grad():
                identity = torch.eye(self.group_size, device=matrices.device)
                matrices.copy_(identity)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Also weight 1 and bias 0."""
        self.reset_running_stats()
        if self.affine:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        shown = (
            f"{self.num_features}, num_groups={self.num_groups}, eps={self.eps}, "
            f"momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )
        if self.track_running_stats:
            shown += f", track={self.track!r}"
        if self.gradient != "exact":
            shown += f", gradient={self.gradient!r}"
        return shown

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._raise_unless_fitting(input)
        with full_precision(input):
            x = grouped(widened(input), self.num_groups, self.group_size)
            if self.training or not self.track_running_stats:
                found, w = self._of_batch(x)
            else:
                found, w = self._of_before(x)
            return transformed(input, found, w, self.weight, self.bias)

    def _of_batch(self, x) -> tuple[Moments, torch.Tensor]:
        """Statistics of a batch, from all processes if there are more."""
        group = self._group() if self.training else None
        found = moments(x, group)
        s = found.covariance
        w = self._inverse_root(ridged(s, self.eps))
        if self.training and self.track_running_stats and not is_again():
            self._update(found, w if self.track == "whitening" else s)
        return found, w

    def _of_before(self, x) -> tuple[Moments, torch.Tensor]:
        """The same, of what was tracked."""
        mean = self.running_mean.reshape(self.num_groups, self.group_size)
        centred = x - mean.to(x.dtype)[:, :, None]
        matrices = getattr(self, f"running_{self.track}").double()
        found = Moments(centred, 0, mean, matrices)
        if self.track == "whitening":
            return found, matrices
        return found, self._inverse_root(ridged(matrices, self.eps))

    def _inverse_root(self, s) -> torch.Tensor:
        return inverse_root(s, self.gradient, self.degree)

    @torch.no_grad()
    def _update(self, found: Moments, matrices) -> None:
        """Take a batch into the running statistics, unless it is empty."""
        seen: Any = 1.0
        if not isinstance(found.number, torch.Tensor):
            if not found.number:
                return
            self.num_batches_tracked += 1
        else:  # of all processes, which is not waited for
            some = found.number > 0
            self.num_batches_tracked += some
            seen = some.double()
        share = self.momentum
        if share is None:
            share = 1 / self.num_batches_tracked.clamp(min=1).double()
        share = seen * share
        tracked = getattr(self, f"running_{self.track}")
        for running, new in (
            (self.running_mean, found.mean.flatten()),
            (tracked, matrices),
        ):
            if isinstance(share, torch.Tensor):
                share = share.to(running.dtype)
            running.lerp_(new.to(running.dtype), share)

    def _group(self):
        """The processes to sum over; None where there is one."""
        group = self.process_group
        if group is None:
            return None
        if isinstance(group, str):
            group = torch.distributed.group.WORLD
            if group is None:
                raise RuntimeError(
                    "process_group='world' needs torch.distributed.init_process_group"
                )
        return group if group.size() > 1 else None

    def _raise_unless_fitting(self, x) -> None:
        raise_unless_real(x)
        if x.dim() not in self._axes or x.shape[1] != self.num_features:
            behind = {2: "", 3: ", L", 4: ", H, W"}
            shapes = (f"(N, {self.num_features}{behind[n]})" for n in self._axes)
            raise ValueError(
                f"expected input {' or '.join(shapes)}, got shape {tuple(x.shape)}"
            )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
        # A state without a version is of a layer that has not counted.
        name = prefix + "num_batches_tracked"
        if local_metadata.get("version") is None and self.track_running_stats:
            state_dict.setdefault(name, torch.tensor(0, dtype=torch.long))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


class ZCAWhitening2d(_ZCAWhitening):
    """ZCA whitening of inputs (N, C, H, W).

    y = (S + eps·I)^-½ (x − mean), times `weight` plus `bias`, for each group of
    channels that follow each other. In training mean and covariance S are those of the
    batch, else running ones. Gradients are exact, also where eigenvalues of S coincide,
    and finite where S is singular. Half types are computed in float32, under autocast
    too; sums over images and the root are in float64.

    Parameters
    ----------
    num_features : int
        Channels C of the input.
    num_groups, group_size : int
        One of them.
    eps : float, optional
        With zero, a group whose channels are all constant becomes NaN.
    momentum : float or None, optional
        Share of the batch in the running statistics; None: their mean over all batches.
    affine : bool, optional
        Learn `weight`, at first 1, and `bias`, at first 0.
    track_running_stats : bool, optional
        If not, statistics are those of the batch in evaluation too.
    track : {"whitening", "covariance"}, optional
        What is averaged beside the mean: the whitening matrix, as the literature does,
        or the covariance, of which the root is taken at every call then. Both are of
        S divided by the number of samples, so that evaluation repeats training.
    process_group : ProcessGroup or "world", optional
        Statistics are those of all processes of a group of `torch.distributed`, or of
        all there are, by one all_reduce forward and one backward. Their batches may
        differ in size and be empty. By default of the own process.
    gradient, degree : optional
        As of `bed.eigh`: an approximation in place of the exact derivative.

    Notes
    -----
    A batch that activation checkpointing runs again in backward is not counted twice,
    nor is an empty one.

    Examples
    --------
    >>> import torch, bed.nn
    >>> layer = bed.nn.ZCAWhitening2d(8, group_size=4)
    >>> layer(torch.randn(2, 8, 5, 5)).shape
    torch.Size([2, 8, 5, 5])
    """

    _axes = (4,)


class ZCAWhitening1d(_ZCAWhitening):
    """ZCA whitening of inputs (N, C) or (N, C, L); see `ZCAWhitening2d`."""

    _axes = (2, 3)
