"""Times that can be compared: calls take turns, and medians count."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np

# Rounds in which every call has its turn.
ROUNDS = 5
# Seconds after which no further round is begun.
ENOUGH = 1.0
# A call that takes longer is timed once, and a shorter one repeated for as long.
SLOW, LEAST = 0.3, 0.002


def in_turns(calls: Mapping[str, Callable], **options) -> dict[str, float]:
    """Median seconds of each call; options are those of `all_turns`."""
    times = all_turns(calls, **options)
    return {name: float(np.median(of_one)) for name, of_one in times.items()}


def all_turns(
    calls: Mapping[str, Callable],
    *,
    wait: Callable[[], object] | None = None,
    within: Mapping[str, Callable[[], AbstractContextManager]] | None = None,
    rounds: int | None = None,
    enough: float | None = None,
    turn: float = 0.0,
    clock: Callable[[], float] | None = None,
) -> dict[str, list[float]]:
    """Seconds of each call in every round; in each all have a turn.

    So whatever disturbs the machine disturbs them all. Each is called once before, to
    warm up.

    Parameters
    ----------
    calls : mapping of str to callable
        Without arguments.
    wait : callable, optional
        Called behind each call and counted with it: waits for a device.
    within : mapping of str to callable, optional
        For some of the calls, what makes the context in which they run. Entering it is
        not counted.
    rounds, enough : optional
        At most so many rounds, and none is begun after so many seconds; by default
        `ROUNDS` and `ENOUGH`.
    turn : float, optional
        A call is repeated in its turn for so many seconds, and their mean is what
        counts. So what the call before it has left behind, in caches and in threads
        that still look for work, does not count for short calls alone.
    clock : callable, optional
        Tells seconds, by default those of `time.perf_counter`. With that of
        `time.process_time` other processes count for less.
    """
    clock = time.perf_counter if clock is None else clock
    rounds = ROUNDS if rounds is None else rounds
    enough = ENOUGH if enough is None else enough
    contexts = {name: (within or {}).get(name, nullcontext) for name in calls}
    for name, call in calls.items():
        with contexts[name]():
            call()
            if wait is not None:
                wait()
    times: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for _ in range(rounds):
        for name, call in calls.items():
            with contexts[name]():
                start, count, elapsed = clock(), 0, 0.0
                while not count or elapsed < turn:
                    call()
                    if wait is not None:
                        wait()
                    count, elapsed = count + 1, clock() - start
                times[name].append(elapsed / count)
        if time.perf_counter() - began > enough:
            break
    return times


def back_to_back(
    several: Callable[[int], None], elapsed: Callable[[Callable, int], float]
) -> float:
    """Seconds of one call among calls that follow each other; the median of some runs.

    Parameters
    ----------
    several : callable
        ``several(count)`` makes so many calls. They are warm.
    elapsed : callable
        ``elapsed(several, count)``: seconds that this takes, by the clock of a device
        for instance.
    """
    estimate = elapsed(several, 1)
    if estimate > SLOW:
        return estimate
    count = min(200, math.ceil(LEAST / max(estimate, 1e-6)))
    repeats = 5 if count * estimate < 10 * LEAST else 3
    return float(np.median([elapsed(several, count) / count for _ in range(repeats)]))


def on_the_host(several: Callable[[int], None], count: int) -> float:
    """An `elapsed` of `back_to_back`: seconds by the clock of the host."""
    began = time.perf_counter()
    several(count)
    return time.perf_counter() - began
