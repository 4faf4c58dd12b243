"""What a run is of and how far it is, on disk; one process at a time goes on."""

import json
import os
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path
from typing import Any
from weakref import WeakSet

JOURNAL, LOCK = "journal.json", ".lock"

# What this process has locked. A forked child would keep the lock of a run that ended.
_held: WeakSet[Any] = WeakSet()


def _let_go() -> None:
    for file in list(_held):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class Journal:
    """The journal in a folder, which is locked as long as it is open.

    A new one replaces the old in one step, and says no more than what is on the disk.

    Parameters
    ----------
    folder : Path
    task : dict
        What is done to what; a run goes on only with the same.

    Attributes
    ----------
    prepared : bool
        Whether the outputs have been made.
    done : int
        Matrices whose results are written, from the first on.
    """

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self._path = folder / JOURNAL
        # As it will be read again; numbers of NumPy by what they look like.
        self._task = json.loads(json.dumps(task, default=str))
        self.prepared, self.done = False, 0
        self._lock = _locked(folder / LOCK)
        try:
            if self._path.exists():
                self._go_on()
        except BaseException:
            self.close()
            raise

    @property
    def is_new(self) -> bool:
        """Whether nothing has been noted."""
        return not self._path.exists()

    def _go_on(self) -> None:
        try:
            noted = json.loads(self._path.read_text(encoding="utf-8"))
            task = noted["task"]
            self.prepared, self.done = bool(noted["prepared"]), int(noted["done"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path} is no journal of bed") from error
        for key in self._task.keys() | task.keys():
            before, now = task.get(key), self._task.get(key)
            if before != now:
                raise ValueError(f"{_difference(self._path, key, before, now)}")

    def note(self, done: int) -> None:
        """The outputs are there, with results of so many matrices."""
        self.prepared, self.done = True, done
        self.write()

    def write(self) -> None:
        """Put what is known in the place of what was noted."""
        new = self._path.with_suffix(".new")
        noted = {"prepared": self.prepared, "done": self.done, "task": self._task}
        with new.open("w", encoding="utf-8") as file:
            json.dump(noted, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def close(self) -> None:
        self._lock.close()  # which unlocks, as does the end of the process


def _difference(path: Path, key: str, before: Any, now: Any) -> str:
    if key == "input" and isinstance(before, dict) and isinstance(now, dict):
        parts = [k for k in now if before.get(k) != now[k]]
        told = f"the input has changed since ({', '.join(parts)})"
    else:
        told = f"{key} was {before}, and is {now}"
    return f"{path} is of another run: {told}; remove the folder, or give another"


def _locked(path: Path) -> Any:
    """The file, open and locked.

    Raises
    ------
    BlockingIOError
        Another process has it.
    OSError
        The file system has no locks, as some over a network.
    """
    file = path.open("a+b")
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno in (ENOLCK, ENOSYS, EOPNOTSUPP):
            raise OSError(error.errno, "no files can be locked there") from error
        raise BlockingIOError(f"another process is at work in {path.parent}") from error
    _held.add(file)
    return file
