"""What a launch reports, and the sentence made of it."""

import ctypes
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
NONE, MISUSE, DEADLOCK, FAULT, TIMEOUT = range(5)
# The code of a SIGSEGV that the kernel of Linux raises without an address.
_SI_KERNEL = 128


class EmulatorError(Exception):
    """A kernel did what it must not do, or was launched as no device would allow."""


class Report(ctypes.Structure):
    """As in scheduler.h."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("signal", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("is_store", ctypes.c_int32),
        ("on_stack", ctypes.c_int32),
        ("thread_known", ctypes.c_int32),
        ("frame_count", ctypes.c_int32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("address", ctypes.c_uint64),
        ("frames", ctypes.c_uint64 * 16),
        ("text", ctypes.c_char * 6000),
    )


def explain(report, library, regions):
    """What a report says, in words, or None if nothing is wrong.

    Parameters
    ----------
    report : Report
    library : path
        The shared object whose code ran.
    regions : list of Guarded
        The memory that the kernel was given.
    """
    if report.kind == NONE:
        return None
    place = ""
    if report.thread_known:
        thread = "" if report.kind == DEADLOCK else f", thread {tuple(report.thread)}"
        place = f" (block {tuple(report.block)}{thread})"
    if report.kind in (MISUSE, DEADLOCK):
        return report.text.decode() + place
    line = _source_line(library, report.frames[: report.frame_count])
    what = "out of time" if report.kind == TIMEOUT else _fault(report, regions)
    return f"{what} at {line}{place}"


def _fault(report, regions):
    if report.signal in (signal.SIGILL, signal.SIGTRAP):
        return "trap"
    if report.signal == signal.SIGFPE:
        return "integer division by zero"
    access = {0: "load from", 1: "store to"}.get(report.is_store, "access to")
    for region in regions:
        if region.holds(report.address):
            inside = 0 <= report.address - region.address < region.nbytes
            bounds = "read-only memory" if inside else "memory out of bounds"
            return f"{access} {bounds}, {region.place(report.address)},"
    if report.on_stack:
        return "stack overflow, or an index far outside an array of the thread,"
    if report.code == _SI_KERNEL:
        return "misaligned access, or an address far out of bounds,"
    return f"{access} address {report.address:#x}, which belongs to no buffer,"


@cache
def _symbolizer():
    return shutil.which("addr2line")


def _source_line(library, frames):
    """The innermost source line that is not the emulator's own."""
    unknown = f"code offset {frames[0]:#x}"
    tool = _symbolizer()
    if tool is None:
        return f"{unknown} (addr2line, of binutils, would name the line)"
    command = [tool, "-i", "-e", str(library), *(hex(frame) for frame in frames)]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    for text in output.splitlines():
        file, _, number = text.partition(" (")[0].rpartition(":")
        if number.isdigit() and Path(file).parent != HERE:
            return f"{Path(file).name}:{number}"
    return unknown
