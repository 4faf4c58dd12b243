"""One run: its clock, its random numbers, its progress lines, its parts."""

import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bed._console import show
from bed.testing.checks import assert_same_bits, examine

# Failures of a part that are kept word for word; the rest is counted.
KEPT_FAILURES = 20
MAX_TEXT = 1000  # characters of a failure
# Seconds of the budget that are kept for writing the report.
RESERVE = 5.0


@dataclass
class Part:
    """What one part checked and found."""

    name: str
    title: str
    cases: int = 0
    # Then "passed", "failed", "not run" for want of something, "left out" of time.
    state: str = "running"
    seconds: float = 0.0
    # Whether there was more to check.
    stopped: bool = False
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Largest error in n·eps, by kind and dtype.
    worst: dict[str, dict[str, float]] = field(default_factory=dict)
    data: dict = field(default_factory=dict)

    def fail(self, text: str) -> None:
        """Write down a failure."""
        self.failed += 1
        if len(self.failures) < KEPT_FAILURES:
            self.failures.append(text)

    def expect(self, condition, text: str) -> None:
        """Count a case; `text` says what is wrong if the condition does not hold."""
        self.cases += 1
        if not condition:
            self.fail(text)

    @contextmanager
    def attempt(self, what: str):
        """What is raised inside is one failure, and the part goes on behind it."""
        try:
            yield
        except Exception as error:
            self.cases += 1
            lines = traceback.extract_tb(error.__traceback__)
            where = f"{Path(lines[-1].filename).name}:{lines[-1].lineno}"
            text = f"{what}: at {where} {type(error).__name__}: {error}"
            self.fail(text[:MAX_TEXT])
            self.data.setdefault("traceback", traceback.format_exc())

    def same(self, result, expected, text: str) -> None:
        """Count a case: arrays or tuples of arrays agree bit for bit."""
        self.cases += 1
        try:
            assert_same_bits(result, expected)
        except AssertionError:
            self.fail(f"other bits or another shape: {text}")

    def right(self, a, w, v=None, exact=None, uplo="L", *, what="", names=None) -> bool:
        """Count one case for every matrix of `a` ``(batch, n, n)``; whether all hold.

        Parameters are those of `bed.testing.checks.examine`.
        """
        wrong, errors = examine(a, w, v, exact, uplo, names)
        for text in wrong:
            self.fail(f"{what}: {text}, {uplo}")
        for kind, found in (errors._asdict() if errors else {}).items():
            if found is not None:
                self.note_worst(kind, a.dtype, found.max(initial=0))
        self.cases += len(a)
        return not wrong

    def note_worst(self, kind: str, dtype, value) -> None:
        """Keep the largest error of a kind; NaN counts as the largest."""
        worst = self.worst.setdefault(kind, {})
        name, value = str(np.dtype(dtype)), float(value)
        old = worst.get(name, 0.0)
        worst[name] = old if old != old or value <= old else value


@dataclass
class Run:
    """What all parts share; times are seconds since the start."""

    minutes: float
    smoke: bool
    seed: int
    peers: Path | None = None
    start: float = field(default_factory=time.monotonic)
    parts: list[Part] = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    # Of the timing part: see timings.py.
    cells: list[dict] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def left(self) -> float:
        """Seconds of the time budget that are left."""
        return self.minutes * 60 - RESERVE - self.elapsed()

    def say(self, text: str) -> None:
        """A progress line."""
        show(f"[{self.elapsed():6.1f} s] {text}")

    def rng(self, *words) -> np.random.Generator:
        """Random numbers that depend on the seed and on words alone."""
        return np.random.default_rng([self.seed, *" ".join(map(str, words)).encode()])

    def do(self, name: str, function, finish=lambda: None, title: str = "") -> Part:
        """Run a part; whatever it raises is a failure of this part alone.

        `finish` waits for the device, so that an error on it is charged to the part
        that caused it.
        """
        title = title or (function.__doc__ or name).strip().splitlines()[0].rstrip(".")
        part = Part(name, title)
        self.parts.append(part)
        if self.left() <= 0:
            part.state = "left out"
            self.say(f"{name}: left out, no time left")
            return part
        self.say(f"{name}: {title} …")
        began = time.monotonic()
        with part.attempt("stopped"):
            function(self, part)
            finish()
        part.seconds = time.monotonic() - began
        if part.failed:
            part.state = "failed"
        else:
            part.state = "passed" if part.cases else "not run"
            part.state = "left out" if part.stopped else part.state
        self.say(f"{name}: {part.state}, {part.cases} cases, {part.seconds:.1f} s")
        for text in part.failures[:5] or (part.notes if part.state != "passed" else ()):
            self.say(f"  {text}")
        return part
