"""Streams and CUDA graphs."""

import time

import cupy
import numpy as np

import bed

from . import _device as device
from ._cases import hermitian
from ._device import delayed_copy, get, put, solve, synchronize

# Clock cycles that a late producer waits: tens of milliseconds at 1 to 2 GHz.
DELAY = 100_000_000
# dtype and n, for every kind of kernel.
KINDS = (("f4", 4), ("f4", 16), ("f4", 40), ("f8", 24), ("c8", 7), ("c16", 64))


def late_producer(run, part) -> None:
    """A call waits on its stream for a late producer, and the host does not wait."""
    waits = part.data["ms"] = {}
    for stream, name in (
        (cupy.cuda.Stream(non_blocking=True), "another stream"),
        (cupy.cuda.Stream.null, "the default stream"),
    ):
        for kind, n in KINDS:
            what = f"{name}, n = {n}, {kind}"
            with part.attempt(what):
                a = hermitian(run.rng("late", kind, n), 200, n, np.dtype(kind))
                waits[what] = behind(part, stream, a, what)
    calls = [x["call"] for x in waits.values()]
    producers = [x["producer"] for x in waits.values()]
    if calls:
        part.notes.append(
            f"bed.eigh came back after {np.median(calls):.3f} ms in the median, "
            f"{max(calls):.3f} ms at most; the producer took {min(producers):.1f} ms "
            "at least"
        )


def behind(part, stream, a, what) -> dict[str, float]:
    """A call behind a late producer of `a`; milliseconds of both."""
    source, target = put(a), put(np.zeros_like(a))
    expected = solve(source)
    synchronize()
    with stream:
        # Loads the kernels and fills the pool of this stream.
        warm = bed.eigh(target, return_info=True)
        delayed_copy(target, target, 0)
        stream.synchronize()
        del warm
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        delayed_copy(source, target, DELAY)
        end.record()
        began = time.perf_counter()
        result = bed.eigh(target, return_info=True)
        call_ms = (time.perf_counter() - began) * 1e3
        was_done = end.done
        stream.synchronize()
        found = get(tuple(result))
        producer_ms = cupy.cuda.get_elapsed_time(begin, end)
    part.same(found, expected, f"behind a late producer: {what}")
    part.expect(not was_done, f"the call waited for the producer: {what}")
    return {"producer": producer_ms, "call": call_ms}


def graphs(run, part) -> None:
    """A call is captured into a CUDA graph and replayed with new data."""
    for kind, n in KINDS:
        rng = run.rng("graph", kind, n)
        batches = [hermitian(rng, 300, n, np.dtype(kind)) for _ in range(3)]
        for whole in (True, False):
            what = f"{'bed.eigh' if whole else 'engine'}, n = {n}, {kind}"
            with part.attempt(what):
                replayed(part, batches, whole, what)


def replayed(part, batches, whole, what) -> None:
    """Capture `bed.eigh`, or the engine with given outputs; replay on the batches."""
    sources = [put(x) for x in batches]
    expected = [solve(x) for x in sources]
    a = put(batches[0])
    out = tuple(put(np.zeros_like(x)) for x in expected[0])
    synchronize()

    def call():
        if whole:
            return tuple(bed.eigh(a, return_info=True))
        return tuple(device.engine()(a, out=out))

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        call()
        stream.synchronize()
        stream.begin_capture()
        result = call()
        graph = stream.end_capture()
        for i in (1, 2, 0, 1):
            delayed_copy(sources[i], a, 0)
            graph.launch(stream=stream)
            stream.synchronize()
            part.same(get(result), expected[i], f"graph: {what}, data {i}")
