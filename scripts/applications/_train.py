"""What the applications share: their options, the loop of a training, its clock."""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _checkpoint import Checkpoint

from bed._console import ArgumentParser, progress
from bed.engines._threads import thread_count

# Columns of a table that differ from run to run.
TIMES = ("seconds", "root_ms")
# The plan of --smoke.
SMOKE = "smoke"


def argument_parser(name: str, text: str) -> ArgumentParser:
    """The options of all applications; each adds its own."""
    parser = ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--smoke", action="store_true", help="seconds, on generated pictures")
    add("--data", help="where the pictures are; else the variable BED_DATA")
    add("--device", default="cpu", help="of torch, as cpu or cuda")
    add("--out", type=Path, default=Path("build/applications") / name)
    add("--seed", type=int, default=0)
    add("--epochs", type=positive)
    add("--batch", type=positive, help="pictures of a step")
    add("--every", type=positive, default=50, help="steps between two checkpoints")
    return parser


def add_plans(parser: ArgumentParser, plans: Iterable[str], default: str) -> None:
    """The names of what `completed` takes; that of --smoke is no choice."""
    choices = [name for name in plans if name != SMOKE]
    parser.add_argument("--plan", choices=choices, default=default)


def add_numbers(parser: ArgumentParser) -> None:
    """How much of a data set to take."""
    for name in ("train", "test"):
        text = f"pictures to {name} with, by default all"
        parser.add_argument(f"--{name}", type=positive, help=text)


def completed(
    options: argparse.Namespace, plans: Mapping[str, Mapping[str, Any]]
) -> argparse.Namespace:
    """Options with those of their plan where they were not given."""
    if options.smoke:
        options.plan = SMOKE
    for name, value in plans[options.plan].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def prepare(options: argparse.Namespace) -> None:
    """Check the device, and use the threads that bed uses."""
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"--device {options.device}: torch finds no CUDA device")
    torch.set_num_threads(thread_count())


class Clock:
    """Times of a part of a forward pass.

    On a CUDA device, those between events: the host does not wait at each pass.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.on_device = torch.device(device).type == "cuda"
        self.seconds: list[float] = []
        self._events: list[tuple[Any, Any]] = []

    def time(self, function: Callable, *arguments: Any) -> Any:
        """The result of a function, whose time is kept."""
        if not self.on_device:
            began = time.perf_counter()
            result = function(*arguments)
            self.seconds.append(time.perf_counter() - began)
            return result
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = function(*arguments)
        end.record()
        self._events.append((begin, end))
        return result

    def milliseconds(self) -> float | str:
        """The median of the passes, which are forgotten; nothing if there was none."""
        self._wait()
        found = 1e3 * median(self.seconds) if self.seconds else ""
        self.seconds = []
        return found

    def state_dict(self) -> dict[str, Any]:
        self._wait()
        return {"seconds": self.seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seconds = state["seconds"]

    def _wait(self) -> None:
        if self._events:
            torch.cuda.synchronize()
            self.seconds += [a.elapsed_time(b) / 1e3 for a, b in self._events]
            self._events.clear()


@dataclass
class Training:
    """A model and how it is trained.

    `batches` is iterated once an epoch, and its items are passed to `loss`. `rate` is
    the learning rate at a step, counted from 0. `test` returns `columns` of a table.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batches: Any
    loss: Callable[..., torch.Tensor]
    rate: Callable[[int], float]
    test: Callable[[], dict[str, Any]]
    clock: Clock = field(default_factory=Clock)
    columns: tuple[str, ...] = ("test_error",)


def fit(
    training: Training, epochs: int, checkpoint: Checkpoint, every: int, title: str = ""
) -> list[dict[str, Any]]:
    """Train, from where the checkpoint is if there is one; a row for every epoch.

    A training whose loss is not finite ends there, with NaN in its last row.
    """
    parts = {
        "model": training.model,
        "optimizer": training.optimizer,
        "batches": training.batches,
        "clock": training.clock,
    }
    fresh = {"rows": [], "step": 0, "loss": 0.0, "seconds": 0.0, "finished": False}
    record = checkpoint.load(parts) or fresh
    while not record["finished"]:
        began, before = time.perf_counter(), record["seconds"]
        training.model.train()
        of_epoch = len(training.batches)
        for batch in bar(training.batches, f"{title} {len(record['rows']) + 1}"):
            _step(training, batch, record)
            record["seconds"] = before + time.perf_counter() - began
            if not math.isfinite(record["loss"]):
                break
            if record["step"] % every == 0:
                checkpoint.save(parts, record)
        diverged = not math.isfinite(record["loss"])
        row = {"epoch": len(record["rows"]) + 1, "loss": record["loss"] / of_epoch}
        nothing = dict.fromkeys(training.columns, math.nan)
        row |= nothing if diverged else training.test()
        row |= {"seconds": record["seconds"], "root_ms": training.clock.milliseconds()}
        record["rows"].append(row)
        record |= {"loss": 0.0, "seconds": 0.0}
        record["finished"] = diverged or len(record["rows"]) == epochs
        # Of a finished training the rows are enough.
        checkpoint.save({} if record["finished"] else parts, record)
    return record["rows"]


def _step(training: Training, batch, record: dict[str, Any]) -> None:
    for group in training.optimizer.param_groups:
        group["lr"] = training.rate(record["step"])
    training.optimizer.zero_grad()
    try:
        loss = training.loss(*batch)
        loss.backward()
    except torch.linalg.LinAlgError:  # torch's answer to what is not finite
        record["loss"] = math.nan
        return
    training.optimizer.step()
    record["loss"] += loss.item()
    record["step"] += 1


@torch.no_grad()
def error_rate(model: torch.nn.Module, part, prepared: Callable, size: int) -> float:
    """Percent of pictures that a model in evaluation takes for another class."""
    model.eval()
    wrong = 0
    for i in range(0, len(part.labels), size):
        found = model(prepared(part.pixels[i : i + size])).argmax(1)
        wrong += int((found != part.labels[i : i + size]).sum())
    return 100 * wrong / len(part.labels)


def bar(items: Iterable, title: str) -> Iterable:
    """The items, with a bar on a terminal that moves on."""
    try:
        from tqdm import tqdm
    except ImportError:
        return _counted(items, title)
    # None: only on a terminal. A resumed iteration may be shorter than its length.
    return tqdm(items, desc=title, disable=None, leave=False)


def _counted(items, title: str) -> Iterable:
    for i, item in enumerate(items, 1):
        progress(f"{title}: {i} of {len(items)}")
        yield item
    progress("")
