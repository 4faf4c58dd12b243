"""How far a long run is, on one line of a terminal."""

import time

from .._console import progress

WIDTH = 24


class Progress:
    """A bar, the rate of this run, and the time that is left at that rate.

    Parameters
    ----------
    total, done : int
        Matrices in all, and those that an earlier run has done.
    each : int
        Bytes of a matrix in the input.
    """

    def __init__(self, total: int, done: int, each: int) -> None:
        self._total, self._first, self._each = total, done, each
        self._began = time.monotonic()

    def show(self, done: int) -> None:
        """Over the line before; nothing where there is no terminal."""
        progress(self.line(done, time.monotonic() - self._began))

    def line(self, done: int, seconds: float) -> str:
        part = done / self._total if self._total else 1.0
        bar = ("#" * round(WIDTH * part)).ljust(WIDTH, ".")
        text = f"[{bar}] {part:4.0%}"
        rate = (done - self._first) / seconds if seconds > 0 else 0.0
        if rate > 0:
            text += f"  {rate:.3g} matrices/s, {rate * self._each / 1e6:.4g} MB/s"
            text += f"  {_clock((self._total - done) / rate)} left"
        return text

    def end(self) -> None:
        """Take the line away."""
        progress("")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    start = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{start}:{seconds:02}"
