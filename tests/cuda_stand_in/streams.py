"""Streams, events and devices of the stand-in."""

import time
import types


class Stream:
    """Work in order; captured into a graph, or kept until somebody waits."""

    streams: list = []  # noqa: RUF012
    current: list = []  # noqa: RUF012
    # What kernels point to: they know addresses alone, so it lives until they are done.
    alive: list = []  # noqa: RUF012

    def __init__(self, null=False, non_blocking=False):
        del non_blocking
        self.ptr = 0 if null else id(self)
        self.work, self.captured = [], None
        Stream.streams.append(self)

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *error):
        Stream.current.pop()

    def queue(self, function):
        (self.work if self.captured is None else self.captured).append(function)

    def synchronize(self):
        assert self.captured is None, "a capturing stream was waited for"
        work, self.work = self.work, []
        for function in work:
            function()
        if not any(stream.work for stream in Stream.streams):
            Stream.alive.clear()

    def is_capturing(self):
        return self.captured is not None

    def begin_capture(self):
        assert self.ptr, "the default stream cannot be captured"
        self.captured = []

    def end_capture(self):
        work, self.captured = self.captured, None
        return types.SimpleNamespace(launch=lambda stream: stream.work.extend(work))


Stream.null = Stream(null=True)


def current_stream():
    return Stream.current[-1] if Stream.current else Stream.null


class Event:
    """Done when its stream got there."""

    done = False

    def record(self):
        current_stream().queue(self._arrive)
        self.stream = current_stream()

    def _arrive(self):
        self.done, self.time = True, time.perf_counter()

    def synchronize(self):
        self.stream.synchronize()


class Device:
    """One of two; arrays and loaded kernels belong to the one that is current."""

    current: list = [0]  # noqa: RUF012
    compute_capability = "90"
    attributes = {"MaxSharedMemoryPerBlockOptin": 227 * 1024}  # noqa: RUF012

    def __init__(self, index=None):
        self.id = Device.current[-1] if index is None else index

    def __eq__(self, other):
        return self.id == other.id

    def __enter__(self):
        Device.current.append(self.id)
        return self

    def __exit__(self, *error):
        Device.current.pop()

    def synchronize(self):
        for stream in Stream.streams:
            stream.synchronize()
