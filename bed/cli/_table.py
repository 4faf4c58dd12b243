"""Tables of measurements as files."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_table(path: Path, heading: Iterable[str], rows: Sequence[dict[str, Any]]):
    """Lines of comment, then a row for each dict; numbers have four digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {text}\n" for text in heading)
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{x:.4g}" if isinstance(x, float) else x for k, x in row.items()}
            for row in rows
        )
