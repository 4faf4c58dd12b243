"""Whitening in place of the batch normalisation of a model."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import nn

from .whitening import ZCAWhitening1d, ZCAWhitening2d

_REPLACED = nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm
_LAZY = nn.LazyBatchNorm1d, nn.LazyBatchNorm2d  # of no other kind until they have run


def convert_zca(
    module: nn.Module,
    *,
    num_groups: int | None = None,
    group_size: int | None = None,
    where: Callable[[str, nn.Module], bool] | None = None,
    **options: Any,
) -> nn.Module:
    """Replace the BatchNorm layers of a model by ZCA whitening, in place.

    Parameters
    ----------
    module : Module
        With `BatchNorm1d`, `BatchNorm2d` and `SyncBatchNorm` somewhere inside; the last
        becomes `ZCAWhitening2d` over its processes.
    num_groups, group_size : int
        One of them, for all layers.
    where : callable, optional
        ``where(name, layer)`` says whether a layer is replaced; the name is that of
        `named_modules`. By default all are.
    **options
        Others of `ZCAWhitening2d`. What is not given is that of the layer that is
        replaced: eps, momentum, affine with its parameters, running statistics, mode.

    Returns
    -------
    module : Module
        The same, or the new layer if it is itself one to replace.

    Examples
    --------
    >>> import torch, bed.nn
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    >>> bed.nn.convert_zca(model, group_size=4)[1].num_groups
    2
    """
    groups = {"num_groups": num_groups, "group_size": group_size}
    return _converted("", module, where, {**groups, **options}, {})


def _converted(name: str, module, where, options, done: dict) -> nn.Module:
    """`done` has what layers were replaced by, for those that stand in two places."""
    if module in done:
        return done[module]
    done[module] = module
    if isinstance(module, _REPLACED + _LAZY) and (where is None or where(name, module)):
        done[module] = _whitening(name, module, options)
    else:
        for key, child in list(module.named_children()):
            path = f"{name}.{key}" if name else key
            new = _converted(path, child, where, options, done)
            if new is not child:
                setattr(module, key, new)
    return done[module]


def _whitening(name: str, layer, options) -> nn.Module:
    """A layer that takes over what a BatchNorm has learned."""
    if isinstance(layer, _LAZY):
        raise ValueError(f"{name or 'the layer'} is lazy: run the model once before")
    one = isinstance(layer, nn.BatchNorm1d)
    tensor = next(chain(layer.parameters(), layer.buffers()), torch.empty(0))
    inherited = {
        "eps": layer.eps,
        "momentum": layer.momentum,
        "affine": layer.affine,
        "track_running_stats": layer.running_mean is not None,
        "device": tensor.device,
        "dtype": tensor.dtype,
    }
    if isinstance(layer, nn.SyncBatchNorm):
        inherited["process_group"] = layer.process_group or "world"
    make = ZCAWhitening1d if one else ZCAWhitening2d
    try:
        new = make(layer.num_features, **{**inherited, **options})
    except ValueError as error:
        raise ValueError(f"{name or 'the layer'}: {error}") from None
    if new.affine and layer.affine:
        new.weight, new.bias = layer.weight, layer.bias
    if new.track_running_stats and layer.running_mean is not None:
        _take_statistics(new, layer)
    new.training = layer.training
    return new


def _take_statistics(new, layer) -> None:
    """Variances are the diagonal of a covariance, whose other entries are not known."""
    with torch.no_grad():
        new.running_mean.copy_(layer.running_mean)
        new.num_batches_tracked.copy_(layer.num_batches_tracked)
        diagonal = layer.running_var.double()
        if new.track == "whitening":
            diagonal = (diagonal + new.eps).rsqrt()
        diagonal = diagonal.reshape(new.num_groups, new.group_size)
        getattr(new, f"running_{new.track}").copy_(torch.diag_embed(diagonal))
