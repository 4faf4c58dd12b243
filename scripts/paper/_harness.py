"""What the scripts share: options, one thread, tables that say where they are from."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bed._config import installed_versions, no_gpu, processor
from bed._console import ArgumentParser, progress, show
from bed.cli import _table
from bed.engines._threads import limited_to

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "scripts" / "results" / "paper"

HOLDS, DOES_NOT = "holds", "does not"
OF_BASELINE, UNTESTED = "of their baseline only", "cannot be tested"
VERDICTS = HOLDS, DOES_NOT, OF_BASELINE, UNTESTED

Row = dict[str, Any]


class Claim(NamedTuple):
    """What the paper says, what was found, and what follows."""

    id: str
    claim: str
    paper: str
    ours: str
    verdict: str
    why: str


def verdict(holds: bool, against_loop: bool = False) -> str:
    """Of a claim: of the baseline only, if it holds beside a loop over matrices."""
    if holds:
        return HOLDS
    return OF_BASELINE if against_loop else DOES_NOT


def main(script: str, text: str, measure: Callable, claims: Callable) -> int:
    """Measure, write the table, and say of every claim whether it holds."""
    options = parse(text)
    rows = result(Path(script).stem, measure, options)
    for claim in claims(rows):
        show("", f"{claim.id}: {claim.claim}", f"    the paper: {claim.paper}")
        show(f"    here: {claim.ours}", f"    {claim.verdict}: {claim.why}")
    return 0


def parse(text: str, arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line of every script."""
    parser = ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    return completed(parser.parse_args(arguments))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that are the same for one script and for all of them."""
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--out", type=Path, help="folder of the tables")
    add("--smoke", action="store_true", help="seconds, to see that it runs")
    add("--seed", type=int, default=0)
    add("--public-code", type=Path, help="folder with the authors' utils_ed.py to time")


def completed(options: argparse.Namespace) -> argparse.Namespace:
    """The options with the folder that they lead to, or an error."""
    if options.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("--device cuda: torch finds no CUDA device")
        if problem := no_gpu():
            raise SystemExit(f"--device cuda {problem}")
    if options.out is None:
        options.out = ROOT / "build" / "paper" if options.smoke else RESULTS
        options.out /= options.device
    return options


def result(
    name: str, measure: Callable, options: argparse.Namespace, resume: bool = False
) -> list[Row]:
    """Measure and write the table, or read it if it is there and `resume` is set."""
    path = options.out / f"{name}.csv"
    lines = heading(name, options)
    if resume and path.exists():
        with suppress(ValueError):  # what is not whole is measured again
            if comments(path) == lines:
                return read(path)
    rows = []
    with one_thread():
        for row in measure(options):
            rows.append(row)
            told = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in list(row.items())[:5])  # fmt: skip
            progress(f"{name}: {', '.join(told)}")
    progress("")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    _table.write_table(unfinished, lines, rows)
    unfinished.replace(path)
    show(f"wrote {path}")
    return read(path)


def heading(name: str, options: argparse.Namespace) -> list[str]:
    """Machine, versions, commit, command and clock, as lines above a table."""
    where = processor()
    clock = "processor time of the process, on one thread"
    if options.device == "cuda":
        import torch

        where = f"{torch.cuda.get_device_name()}; {where}"
        clock = "wall time, the device awaited"
    versions = [f"Python {sys.version.split()[0]}", *installed_versions()]
    return [
        f"{where}; {', '.join(versions)}",
        f"commit {commit()}",
        command(name, options) + f" --seed {options.seed}",
        f"times: {clock}",
    ]


def command(name: str, options: argparse.Namespace) -> str:
    """What makes a table."""
    words = ["python", f"scripts/paper/{name}.py"]
    words += ["--device cuda"] if options.device == "cuda" else []
    return " ".join(words + ["--smoke"] * options.smoke)


def commit() -> str:
    """Of the tree that the scripts are in.

    Results do not count as changes: a run that has replaced some of them goes on.
    """
    return _table.commit(ROOT, besides="scripts/results")


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS, bed and torch, where it is here, with one thread each."""
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        stack.enter_context(limited_to(1))
        try:
            import torch
        except ImportError:
            yield
            return
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        yield


def clock_of(device: str) -> Callable[[], float]:
    """Seconds: on the CPU those that this process had, whatever else runs."""
    return time.process_time if device == "cpu" else time.perf_counter


def read(path: Path) -> list[Row]:
    """The rows of a table, with numbers where there are some."""
    _, rows = _table.read_table(path)
    return [{k: _number(x) for k, x in row.items()} for row in rows]


def comments(path: Path) -> list[str]:
    """The lines above a table."""
    return _table.read_table(path)[0]


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[k] == x for k, x in values.items())]


def exponent(x, y) -> float:
    """Slope of y over x where both are drawn in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def span(values: Iterable[float], digits: int = 3) -> str:
    """The smallest and the largest of some numbers."""
    values = list(values)
    if not values:
        return "none"
    low, high = (f"{x:.{digits}g}" for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
