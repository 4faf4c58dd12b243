"""Windows of a batch: how many matrices at once, and where they lie."""

import math
import re
from collections.abc import Iterator

# Larger windows are no faster, and a run that is killed loses more.
MOST = 2**29
# Input and results of one window while those of the last are written, and what solving
# needs for itself.
COPIES = 4

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 2 ** (10 * i) for i, unit in enumerate("kmgt", 1)}


def in_bytes(size: int | str) -> int:
    """A number of bytes, also written as ``"1GB"``, ``"500 MB"`` or ``"2GiB"``.

    Examples
    --------
    >>> in_bytes("1.5GB"), in_bytes("2 KiB")
    (1500000000, 2048)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(size).lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"expected a size such as 1GB or 500MB, got {size!r}")
    return int(float(match[1]) * _UNITS[match[2]])


def matrices_at_once(memory: int, each: int, unit: int = 1) -> int:
    """Matrices in a window, if one with its results has `each` bytes.

    A multiple of `unit` if there is room for that.

    Raises
    ------
    ValueError
        There is not even room for one.
    """
    if memory < COPIES * each:
        raise ValueError(
            f"one matrix takes {COPIES * each} bytes with its results, and memory is "
            f"limited to {memory}"
        )
    window = max(min(memory, MOST) // (COPIES * each), 1)
    return window - window % unit if window >= unit else window


def boxes(shape: tuple[int, ...], start: int, stop: int) -> Iterator[tuple]:
    """Indices of an array whose items, in order, are those from `start` to `stop`.

    Each is a tuple of numbers and at most one slice, for the leading axes.

    Examples
    --------
    >>> list(boxes((3, 4), 2, 9))
    [(0, slice(2, 4, None)), (slice(1, 2, None),), (2, slice(0, 1, None))]
    """
    if len(shape) < 2:
        yield (slice(start, stop),) if shape else ()
        return
    inner = math.prod(shape[1:])
    while start < stop:
        row, offset = divmod(start, inner)
        rows = (stop - start) // inner
        if offset == 0 and rows:
            yield (slice(row, row + rows),)
            start += rows * inner
        else:
            end = min(stop - row * inner, inner)
            for box in boxes(shape[1:], offset, end):
                yield (row, *box)
            start = row * inner + end
