"""Tables of measurements as files, and the code that they are of."""

import csv
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_table(path: Path, heading: Iterable[str], rows: Sequence[dict[str, Any]]):
    """Lines of comment, then a row for each dict; numbers have four digits.

    What a row lacks is empty.

    Raises
    ------
    ValueError
        There are no rows, and so no columns.
    """
    if not rows:
        raise ValueError(f"nothing was measured that {path} could hold")
    columns = dict.fromkeys(name for row in rows for name in row)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {text}\n" for text in heading)
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{x:.4g}" if isinstance(x, float) else x for k, x in row.items()}
            for row in rows
        )


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The lines of comment and the rows of what `write_table` left.

    Raises
    ------
    ValueError
        A part of it is missing, or it is no table.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = file.readlines()
        heading = [line[2:].rstrip("\n") for line in lines if line.startswith("#")]
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no table: {error}") from error
    # A row has None for what it lacks, and as the name of what it has too much of.
    cut = any(None in row or None in row.values() for row in rows)
    if cut or not rows or not lines[-1].endswith("\n"):
        raise ValueError(f"{path} is not whole: a part of the table is missing")
    return heading, rows


def on_halves(dtypes: Iterable[str]) -> list[str]:
    """A remark, if one of these is solved in another precision."""
    solved = "float16 is timed as float32, in which it is solved"
    return [solved] if "float16" in dtypes else []


def commit(folder: Path, besides: str | None = None) -> str:
    """Of the tree that a folder is in, if it is one of git, and whether it is changed.

    `besides` is a folder of the tree whose changes do not count.
    """

    def git(*words: str) -> str:
        call = ["git", "-C", str(folder), *words]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout

    paths = [":/"] if besides is None else [":/", f":(top,exclude){besides}"]
    try:
        changed = git("status", "--porcelain", "-uno", "--", *paths)
        return git("rev-parse", "--short", "HEAD").strip() + "-dirty" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
