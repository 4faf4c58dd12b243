"""A process for parts, which another replaces when one of them has failed in it.

An illegal access of memory leaves a device unusable for its process, and a kernel that
hangs, the process itself.
"""

import importlib
import multiprocessing
import traceback
from dataclasses import replace

from ._run import Part, Run


def solo(run: Run, name: str, module: str, function: str) -> Run:
    """In the worker: a run of one part."""
    from . import _device

    found = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    run.do(name, found, _device.release)
    return run


def facts(run: Run) -> dict:
    """In the worker: the environment, which asks the device."""
    from . import environment

    del run
    return environment.describe()


def _serve(pipe) -> None:
    while True:
        function, arguments = pipe.recv()
        try:
            pipe.send((function(*arguments), ""))
        except Exception as error:
            pipe.send((None, f"{error!r}\n{traceback.format_exc()}"))


class Worker:
    """Starts its process when there is something to do."""

    def __init__(self):
        self.process = None

    def part(self, run: Run, name: str, module: str, function: str, seconds: float):
        """Run a part, and enter what it found."""
        alone = replace(run, parts=[], cells=[], left_out=[])
        done, problem = self.call(solo, alone, name, module, function, seconds=seconds)
        if done is None:
            part = Part(name, name)
            part.fail(problem)
            part.state = "failed"
            run.parts.append(part)
            run.say(f"{name}: {problem.splitlines()[0]}")
        else:
            run.parts += done.parts
            run.cells += done.cells
            run.left_out += done.left_out
        if run.parts[-1].failed:
            self.end()

    def call(self, function, *arguments, seconds: float):
        """Result of a function in the process, or None, and what went wrong."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, there = context.Pipe()
            self.process = context.Process(target=_serve, args=(there,))
            self.process.start()
            there.close()
        try:
            self.pipe.send((function, arguments))
            if not self.pipe.poll(seconds):
                self.end()
                return None, "did not end in time"
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            self.end()
            return None, f"the process ended with {code}"

    def end(self) -> None:
        """Stop the process, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None
