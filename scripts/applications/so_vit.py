#!/usr/bin/env python
"""Train a vision transformer whose head pools its tokens to second order, as So-ViT.

    python scripts/applications/so_vit.py --smoke
    python scripts/applications/so_vit.py --plan reduced --data PATH
    python scripts/applications/so_vit.py --plan gpu --device cuda --data PATH

The data are CIFAR-10 where the literature has ImageNet, and so no error can be compared
with its errors. The head brings the tokens of an image to d channels, takes the square
root of their covariance, and adds a linear function of its upper triangle to that of
the class token. Training is hybrid: Newton-Schulz approximates the root for the first
epochs (--approximate), then a decomposition gives the exact one. Besides the solvers of
the decomposition there are newton_schulz, which has none all along, and class_token,
which is the transformer without pooling.

AdamW with rate 1e-3 and weight decay 0.03, a linear warm-up and a cosine; mixup 0.8 or
cutmix 1, label smoothing 0.1, drop-path 0.1; crops and flips. A step whose gradient is
not finite is skipped and counted: the gradients of torch's decompositions are not where
eigenvalues coincide, as those of channels do that are zero all over an image.

Trained are all that the options combine. Plans: `paper` has the 7 layers of So-ViT-7,
`gpu` shortens its training and is meant to fit ten minutes on one card, `reduced` is a
small transformer with every solver for twenty minutes on one core. Of errors of so
short trainings differences alone tell anything, and those of one seed very little.

A training whose process was ended goes on from its last checkpoint, and one that is
finished is not repeated. Leaves so_vit.csv and .png in --out: the error on test
pictures after every epoch, and the time of S^1/2 in a forward pass.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from _adamw import Guarded, schedule, weights
from _checkpoint import Checkpoint, set_seeds
from _comparison import compare
from _data import CLASSES, Batches, Images, mean_and_deviation
from _mixing import mixed
from _roots import SOLVERS, by_eigh, by_svd, roots
from _train import (
    Clock,
    Training,
    add_numbers,
    add_plans,
    argument_parser,
    completed,
    error_rate,
    fit,
    positive,
    prepare,
)
from _transformer import Trunk
from torch import nn

import bed.nn
from bed.engines._threads import thread_count
from bed.nn._roots import FLOOR, newton_schulz
from bed.nn.functional import covariance, ridged

NAME = "so_vit"
NEWTON_SCHULZ, CLASS_TOKEN = "newton_schulz", "class_token"
CHOICES = (*SOLVERS, NEWTON_SCHULZ, CLASS_TOKEN)
SMOOTHING, DROP = 0.1, 0.1
HEADS, ITERATIONS = 4, 5
PLANS: dict[str, dict[str, Any]] = {
    "paper": {
        "epochs": 300, "batch": 768, "embed": 256, "layers": 7,
        "warmup": 5, "approximate": 50, "solver": ["bed"],
    },
    "gpu": {
        "epochs": 20, "batch": 256, "embed": 256, "layers": 7,
        "warmup": 1, "approximate": 4, "solver": ["bed"],
    },
    "reduced": {
        "epochs": 8, "batch": 64, "embed": 64, "layers": 3,
        "warmup": 1, "approximate": 2, "solver": list(CHOICES),
        "train": 5120, "test": 1920,
    },
    "smoke": {
        "epochs": 3, "batch": 16, "embed": 16, "layers": 1,
        "warmup": 1, "approximate": 1, "solver": list(CHOICES),
        "train": 64, "test": 32,
    },
}  # fmt: skip


class Run(NamedTuple):
    """One training; `size` is d, the channels that are pooled."""

    solver: str
    size: int
    seed: int

    @property
    def name(self) -> str:
        if self.solver == CLASS_TOKEN:
            return f"{CLASS_TOKEN}-{self.seed}"
        return f"{self.solver}-{self.size}-{self.seed}"


def main(arguments: list[str] | None = None) -> int:
    """Train what is to be trained, write the table and the curves."""
    options = parse(arguments)
    prepare(options)
    return compare(
        NAME,
        options,
        runs(options),
        train,
        settings=(
            "epochs", "batch", "embed", "layers", "warmup", "approximate", "device",
        ),
        labels=partial(labels, options),
        panel="matrices",
        line=lambda row: row["solver"],
        root="S^½",
        network=f"{options.layers} layers of {options.embed}",
    )  # fmt: skip


def parse(arguments) -> argparse.Namespace:
    """The command line, completed by its plan."""
    parser = argument_parser(NAME, __doc__)
    add_plans(parser, PLANS, "paper")
    add_numbers(parser)
    add = parser.add_argument
    add("--solver", nargs="+", choices=CHOICES)
    add("--size", nargs="+", type=positive, default=[32, 36], help="d, of the head")
    add("--embed", type=positive, help=f"width of the tokens, {HEADS} heads share it")
    add("--layers", type=positive)
    add("--warmup", type=from_zero, help="epochs in which the rate grows")
    add("--approximate", type=from_zero, help="epochs with Newton-Schulz")
    options = completed(parser.parse_args(arguments), PLANS)
    if options.embed % HEADS:
        parser.error(f"--embed {options.embed} is no multiple of {HEADS} heads")
    return options


def from_zero(text: str) -> int:
    """A whole number that may be zero."""
    return int(text) and positive(text)


def runs(options) -> Iterator[Run]:
    """All that options combine; without pooling there are no sizes."""
    for solver, size in product(options.solver, options.size):
        if solver != CLASS_TOKEN:
            yield Run(solver, size, options.seed)
    if CLASS_TOKEN in options.solver:
        yield Run(CLASS_TOKEN, 0, options.seed)


def train(run: Run, options, data: Images, settings: dict, title: str) -> list[dict]:
    """The rows of one training."""
    device = options.device
    set_seeds(run.seed)
    clock = Clock(device)
    part, tested = data.train.to(device), data.test.to(device)
    batches = Batches(part, options.batch, run.seed)
    trunk = Trunk(options.embed, options.layers, HEADS, drop=DROP)
    warmup = options.approximate * len(batches)
    pool = pooling(run, options.embed, warmup, clock, device)
    model = SoViT(trunk, pool, options.embed).to(device)
    adam = Guarded(weights(model))
    mean, deviation = mean_and_deviation(part.pixels)

    def prepared(x):
        return (x / 255 - mean) / deviation

    def loss(x, y):
        x, targets = mixed(prepared(x), y, CLASSES)
        found = model(x)
        return nn.functional.cross_entropy(found, targets, label_smoothing=SMOOTHING)

    def test() -> dict[str, float]:
        # Batches of the size of those in training: their times are taken together.
        error = error_rate(model, tested, prepared, options.batch)
        return {"test_error": error, "skipped": adam.skipped}

    rate = schedule(options.warmup * len(batches), options.epochs * len(batches))
    checkpoint = Checkpoint(
        options.out / "runs" / f"{run.name}.checkpoint",
        {**run._asdict(), **settings, "threads": thread_count()},
    )
    columns = "test_error", "skipped"
    training = Training(model, adam, batches, loss, rate, test, clock, columns)
    return fit(training, options.epochs, checkpoint, options.every, title)


class SoViT(nn.Module):
    """Class token and pooled tokens, each through a linear layer, added.

    `pool` takes tokens (N, embed, L) and may be None.
    """

    def __init__(self, trunk: nn.Module, pool, embed: int) -> None:
        super().__init__()
        self.trunk, self.pool = trunk, pool
        self.first = nn.Linear(embed, CLASSES)
        if pool is not None:
            self.second = nn.Linear(pool.out_features, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        token, others = self.trunk(images)
        found = self.first(token)
        return found if self.pool is None else found + self.second(self.pool(others.mT))


class Pooling(bed.nn.CovariancePooling):
    """Its exact root comes from a function."""

    def __init__(self, num_features: int, function: Callable, **options) -> None:
        super().__init__(num_features, **options)
        self.function = function

    def _by(self, root: str, x):
        if root != "exact":
            return super()._by(root, x)
        s = covariance(x, correction=0, center=self.center)
        return self.function(ridged(s, self.eps))


def pooling(
    run: Run, embed: int, warmup: int, clock: Clock, device: str = "cpu"
) -> nn.Module | None:
    """The pooling of a solver; its S^½ is timed."""
    if run.solver == CLASS_TOKEN:
        return None
    root = square_root(run.solver)
    # What is compiled or loaded before the first result is not a part of any pass.
    root(torch.eye(run.size, device=device).expand(2, -1, -1))
    return Pooling(
        embed,
        lambda s: clock.time(root, s),
        reduction=run.size,
        iterations=ITERATIONS,
        warmup_steps=0 if run.solver == NEWTON_SCHULZ else warmup,
    )


def square_root(solver: str) -> Callable:
    """S^½ of a solver, all with the floor that bed has under eigenvalues."""
    if solver == NEWTON_SCHULZ:
        return partial(newton_schulz, iterations=ITERATIONS)
    if solver in ("torch_eigh", "torch_svd"):
        by = by_eigh if solver == "torch_eigh" else by_svd
        return partial(by, function=lifted_sqrt)
    return roots(solver)[0]


def lifted_sqrt(w):
    """√λ of all but what rounding left, which may be negative and is lifted."""
    bound = FLOOR * w.shape[-1] * torch.finfo(w.dtype).eps
    return w.maximum(bound * w.detach().abs().amax(-1, True)).sqrt()


def labels(options, run: Run) -> dict[str, Any]:
    """Columns that tell the training."""
    shape = f"{options.batch}×{run.size}×{run.size}" if run.size else ""
    return {"solver": run.solver, "matrices": shape, "seed": run.seed}


if __name__ == "__main__":
    raise SystemExit(main())
