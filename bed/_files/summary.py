"""What came of a run, in numbers and in words."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._status import NAMED_FAILURES, Status, name_failures
from .batch import Outputs

# Statuses that are in memory at once.
_AT_ONCE = 2**20


class Summary(NamedTuple):
    """What came of a run.

    Attributes
    ----------
    outputs : dict of str to Path
        The files, by the names of the results.
    counts : dict of Status to int
        How many matrices ended how.
    failed : list of int
        The first that failed, by their place in the batch.
    solved : int
        Matrices that were solved now; what an earlier run has done is kept.
    seconds : float
        That this took.
    """

    outputs: dict[str, Path]
    counts: dict[Status, int]
    failed: list[int]
    solved: int
    seconds: float

    @property
    def failures(self) -> int:
        """Number of matrices that failed."""
        return sum(n for status, n in self.counts.items() if status != Status.OK)

    def __str__(self) -> str:
        total = sum(self.counts.values())
        line = f"{total} matrices, {self.solved} of them now, in {self.seconds:.1f} s"
        if self.solved:
            line += f" ({self.solved / self.seconds:.3g} matrices/s)"
        lines = [line]
        for status, count in sorted(self.counts.items()):
            lines.append(f"status {int(status)}: {count} ({status.reason})")
        if self.failed:
            named = name_failures([(index,) for index in self.failed])
            hidden = self.failures - len(self.failed)
            lines.append(f"failed: {named}" + (f"; and {hidden} more" * (hidden > 0)))
        return "\n".join(lines)


def counted(outputs: Outputs, count: int) -> tuple[dict[Status, int], list[int]]:
    """How many matrices ended how, from what was written, and the first that failed."""
    counts: dict[Status, int] = {}
    failed: list[int] = []
    for start in range(0, count, _AT_ONCE):
        status = outputs.status(start, min(start + _AT_ONCE, count))
        for value, number in zip(*np.unique(status, return_counts=True), strict=True):
            key = Status(int(value))
            counts[key] = counts.get(key, 0) + int(number)
        if len(failed) < NAMED_FAILURES:
            failed += (start + np.flatnonzero(status)).tolist()
            del failed[NAMED_FAILURES:]
    return counts, failed
