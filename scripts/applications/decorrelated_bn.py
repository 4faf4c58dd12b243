#!/usr/bin/env python
"""Train ResNet-18 on CIFAR-10 with ZCA whitening in place of its first normalisation.

    python scripts/applications/decorrelated_bn.py --smoke
    python scripts/applications/decorrelated_bn.py --plan reduced --data PATH
    python scripts/applications/decorrelated_bn.py --plan gpu --device cuda --data PATH

The network is that of the literature for pictures of this size: first convolution 3 × 3
with stride 1, no pooling behind it, and 64 channels, which the layer whitens in groups.
SGD with momentum 0.9 and weight decay 5e-4; the learning rate falls to a tenth at 2/7,
4/7 and 6/7 of the epochs (100, 200 and 300 of 350); pictures are cropped and flipped at
random. `--width` is that of the residual stages: the layer keeps its shape.

Trained are all that the options combine. Plans: `paper` is the experiment of the
literature, `gpu` is meant to fit ten minutes on one card, `reduced` is a comparison of
all solvers in half an hour on one core. Of errors of so short trainings differences
alone tell anything, and those only beyond what seeds differ by.

A training whose process was ended goes on from its last checkpoint, and one that is
finished is not repeated. Leaves decorrelated_bn.csv and .png in --out: the error on
test pictures after every epoch, and the time of S^-1/2 in a forward pass, which is the
decomposition and the product of its factors.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import torch
from _checkpoint import Checkpoint, set_seeds
from _comparison import compare
from _data import Batches, Images, mean_and_deviation
from _roots import SOLVERS, roots, with_inverse_root
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
from torch import nn

import bed.nn
from bed.engines._threads import thread_count

NAME = "decorrelated_bn"
STEM = 64
BATCHNORM = "batchnorm"
# Where the learning rate falls, in epochs of 350.
MILESTONES, EPOCHS = (100, 200, 300), 350
PLANS: dict[str, dict[str, Any]] = {
    "paper": {
        "epochs": EPOCHS, "batch": 128, "width": 64, "rate": 0.1,
        "solver": ["bed"], "gradient": ["exact"], "groups": [16, 8, 4],
    },
    "gpu": {
        "epochs": 30, "batch": 128, "width": 64, "rate": 0.1,
        "solver": ["bed"], "gradient": ["exact"], "groups": [8],
    },
    "reduced": {
        "epochs": 7, "batch": 32, "width": 8, "rate": 0.025,
        "train": 3500, "test": 1000,
    },
    "smoke": {
        "epochs": 2, "batch": 16, "width": 2, "rate": 0.05,
        "train": 48, "test": 32,
        "solver": [*SOLVERS, BATCHNORM], "gradient": ["exact"], "groups": [8],
    },
}  # fmt: skip


class Run(NamedTuple):
    """One training."""

    solver: str
    gradient: str
    groups: int
    seed: int

    @property
    def shape(self) -> str:
        size = STEM // self.groups
        return f"{self.groups}×{size}×{size}"

    @property
    def name(self) -> str:
        if self.solver == BATCHNORM:
            return f"{BATCHNORM}-{self.seed}"
        return f"{self.solver}-{self.gradient}-{self.groups}-{self.seed}"


def main(arguments: list[str] | None = None) -> int:
    """Train what is to be trained, write the table and the curves."""
    options = parse(arguments)
    prepare(options)
    return compare(
        NAME,
        options,
        runs(options),
        train,
        settings=("epochs", "batch", "width", "rate", "eps", "device"),
        labels=labels,
        panel="groups",
        line=lambda row: f"{row['solver']} {row['gradient']}".strip(),
        root="S^-½",
        network=f"width {options.width}",
    )


def parse(arguments) -> argparse.Namespace:
    """The command line, completed by its plan."""
    parser = argument_parser(NAME, __doc__)
    add_plans(parser, PLANS, "paper")
    add_numbers(parser)
    add = parser.add_argument
    add("--solver", nargs="+", choices=[*SOLVERS, BATCHNORM])
    add("--gradient", nargs="+", choices=["exact", "taylor"])
    add("--groups", nargs="+", type=int, choices=[4, 8, 16])
    add("--width", type=positive)
    add("--rate", type=float, help="the first learning rate")
    add("--eps", type=float, default=1e-2, help="added to the diagonal of S")
    return completed(parser.parse_args(arguments), PLANS)


def runs(options) -> Iterator[Run]:
    """All that options combine, or those of the reduced comparison that they allow."""
    if options.plan == "reduced":
        chosen = [(n, getattr(options, n)) for n in ("solver", "gradient", "groups")]
        for run in reduced_runs(options.seed):
            if all(not some or getattr(run, n) in some for n, some in chosen):
                yield run
        return
    for solver in options.solver:
        if solver == BATCHNORM:
            yield Run(BATCHNORM, "exact", 1, options.seed)
            continue
        for gradient, groups in product(options.gradient, options.groups):
            yield Run(solver, gradient, groups, options.seed)


def reduced_runs(seed: int) -> Iterator[Run]:
    """All with exact gradients, bed with Taylor's too; where seeds vary, three."""
    for other in range(seed, seed + 3):
        yield Run(BATCHNORM, "exact", 1, other)
        for groups in (16, 8, 4):
            yield Run("bed", "exact", groups, other)
    for groups in (16, 8, 4):
        for solver in SOLVERS[1:]:
            yield Run(solver, "exact", groups, seed)
        yield Run("bed", "taylor", groups, seed)


def train(run: Run, options, data: Images, settings: dict, title: str) -> list[dict]:
    """The rows of one training."""
    device = options.device
    set_seeds(run.seed)
    clock = Clock(device)
    first = first_layer(run, options.eps, clock, device)
    model = network(options.width, first).to(device)
    sgd = torch.optim.SGD(model.parameters(), momentum=0.9, weight_decay=5e-4)
    part, tested = data.train.to(device), data.test.to(device)
    batches = Batches(part, options.batch, run.seed)
    mean, deviation = mean_and_deviation(part.pixels)

    def prepared(x):
        return (x / 255 - mean) / deviation

    def loss(x, y):
        return nn.functional.cross_entropy(model(prepared(x)), y)

    def rate(step: int) -> float:
        epoch = step / len(batches) * EPOCHS / options.epochs
        return options.rate * 0.1 ** sum(epoch >= m for m in MILESTONES)

    def test() -> dict[str, float]:
        return {"test_error": error_rate(model, tested, prepared, 250)}

    checkpoint = Checkpoint(
        options.out / "runs" / f"{run.name}.checkpoint",
        {**run._asdict(), **settings, "threads": thread_count()},
    )
    training = Training(model, sgd, batches, loss, rate, test, clock)
    return fit(training, options.epochs, checkpoint, options.every, title)


def first_layer(run: Run, eps: float, clock: Clock, device: str = "cpu") -> nn.Module:
    """The normalisation behind the first convolution; S^-½ is timed."""
    if run.solver == BATCHNORM:
        return nn.BatchNorm2d(STEM)
    _, root = roots(run.solver, run.gradient)
    size = STEM // run.groups
    identity = torch.eye(size, dtype=torch.float64, device=device)
    root(identity.expand(run.groups, size, size))  # what it compiles is no time of it
    layer = with_inverse_root(bed.nn.ZCAWhitening2d, lambda s: clock.time(root, s))
    return layer(STEM, num_groups=run.groups, eps=eps)


def network(width: int, first: nn.Module, classes: int = 10) -> nn.Sequential:
    """ResNet-18 for small pictures, with a normalisation of its stem."""
    layers = [nn.Conv2d(3, STEM, 3, 1, 1, bias=False), first, nn.ReLU()]
    channels = STEM
    for stage in range(4):
        for stride in (2 if stage else 1, 1):
            layers.append(Block(channels, width << stage, stride))
            channels = width << stage
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    return nn.Sequential(*layers, *head)


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != out:
            conv = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def labels(run: Run) -> dict[str, Any]:
    """Columns that tell the training."""
    if run.solver == BATCHNORM:
        return {"solver": BATCHNORM, "gradient": "", "groups": "", "seed": run.seed}
    told = {"solver": run.solver, "gradient": run.gradient, "groups": run.shape}
    return {**told, "seed": run.seed}


if __name__ == "__main__":
    raise SystemExit(main())
