"""What trainings and pictures of scripts/applications have left, if they have."""

from _harness import RESULTS, Row, read


def table(name: str) -> list[Row]:
    """Rows of a table in scripts/results, none if it is not there."""
    path = RESULTS.parent / f"{name}.csv"
    return read(path) if path.exists() else []


def last_epochs(name: str) -> list[Row]:
    """The last row of every training."""
    rows = table(name)
    if not rows:
        return []
    last = max(row["epoch"] for row in rows)
    return [row for row in rows if row["epoch"] == last]
