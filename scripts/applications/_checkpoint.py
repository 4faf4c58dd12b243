"""The state of a training on disk: whole, with every random state, and its settings."""

import hashlib
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _files import whole


class Checkpoint:
    """A file that a training is kept in, so that it can go on after its process ended.

    Parameters
    ----------
    path : Path
    settings : dict
        What the training depends on; a file with others is refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = {name: str(value) for name, value in settings.items()}

    def save(self, parts: dict[str, Any], record: dict[str, Any]) -> None:
        """Keep what has a `state_dict`, the random states, and a record of numbers."""
        state = {
            "settings": self.settings,
            "record": record,
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "random": _random_states(),
        }
        content = io.BytesIO()
        torch.save(state, content)
        digest = hashlib.sha256(content.getbuffer()).digest()
        with whole(self.path) as unfinished:
            unfinished.write_bytes(digest + content.getvalue())

    def load(self, parts: dict[str, Any]) -> dict[str, Any] | None:
        """Set what was kept, and return the record; None if there is no file.

        The record of a training that is finished comes without the parts.
        """
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() != digest:
            raise SystemExit(
                f"{self.path} is damaged, or no checkpoint: delete it to begin again"
            )
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        self._raise_unless_same(state["settings"])
        if state["parts"]:
            for name, part in parts.items():
                part.load_state_dict(state["parts"][name])
            _set_random_states(state["random"])
        return state["record"]

    def _raise_unless_same(self, settings: dict[str, str]) -> None:
        names = sorted({*settings, *self.settings})
        other = [n for n in names if settings.get(n) != self.settings.get(n)]
        if other:
            told = ", ".join(
                f"{n} {settings.get(n)} and not {self.settings.get(n)}" for n in other
            )
            raise SystemExit(
                f"{self.path} is of a training with {told}: pass another --out, or "
                "delete it to begin again"
            )


def set_seeds(seed: int) -> None:
    """Of all generators that a training may draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _random_states() -> dict[str, Any]:
    name, keys, *others = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *others),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_random_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
