"""Trainings of one network beside each other: their table, and their curves."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from _data import generated, images
from _report import curves, heading, table

from bed._console import show

Row = dict[str, Any]


def compare(
    name: str,
    options: Namespace,
    runs: Iterable,
    train: Callable[..., list[Row]],
    *,
    settings: Sequence[str],
    labels: Callable[[Any], Row],
    panel: str,
    line: Callable[[Row], str],
    root: str,
    network: str,
) -> int:
    """Train all runs, write the table and the curves.

    Parameters
    ----------
    name : str
        Of the application, and so of its files.
    train : callable
        ``train(run, options, data, settings, title)`` returns rows of the table.
    settings : sequence of str
        Options that trainings depend on.
    labels : callable
        Columns that tell a run.
    panel, line
        See `panels`.
    root, network : str
        What is timed, and what is trained, in words.
    """
    chosen = list(runs)
    data = generated() if options.smoke else images(options.data, options.out.parent)
    data = data.some(options.train, options.test)
    known = {setting: getattr(options, setting) for setting in settings}
    counts = f"{len(data.train.labels)} + {len(data.test.labels)} pictures"
    known["data"] = f"{data.name}, {counts}, {data.checksum()}"
    lines = heading(options.device, known)
    show(*lines)
    rows: list[Row] = []
    for i, run in enumerate(chosen, 1):
        found = train(run, options, data, known, f"{i}/{len(chosen)} {run.name}")
        last = found[-1]
        time = f"{root} in {last['root_ms']:.3g} ms" if last["root_ms"] != "" else ""
        show(f"{run.name:32}{last['test_error']:8.2f} %  {time}")
        rows += [{**labels(run), "data": data.name, **row} for row in found]
    table(options.out / f"{name}.csv", lines, rows)
    note = f"{data.name}, {network}, {counts}"
    shown = panels(rows, panel, line)
    curves(options.out / f"{name}.png", shown, "test error in %", note)
    return 0


def panels(
    rows: Sequence[Row], column: str, line: Callable[[Row], str]
) -> dict[str, dict[str, tuple]]:
    """Curves for each value of a column, with those of rows that have none in it.

    `line` names what a row is of. Means over seeds, whose number stands beside the
    name: single runs scatter.
    """
    found: dict[str, dict[str, tuple]] = {}
    for value in dict.fromkeys(row[column] for row in rows if row[column]) or [""]:
        lines: dict[str, dict[int, list[float]]] = {}
        for row in rows:
            if row[column] in (value, ""):
                epochs = lines.setdefault(line(row), {})
                epochs.setdefault(row["epoch"], []).append(row["test_error"])
        found[value] = {}
        for name, epochs in lines.items():
            seeds = max(map(len, epochs.values()))
            name += f", {seeds} seeds" if seeds > 1 else ""
            means = [sum(x) / len(x) for x in epochs.values()]
            found[value][name] = list(epochs), means
    return found
