"""CIFAR-10 from what is at hand, a small generated set, and batches of them.

Accepted are an archive of JPEG files, the files that torchvision keeps, packed or not,
and a folder of classes. Pictures are uint8 tensors (N, 3, 32, 32).
"""

import hashlib
import io
import os
import pickle
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from _files import whole

ARCHIVES = ("cifar10-jpeg.tar.xz", "cifar-10-python.tar.gz")
FORMS = (
    f"{ARCHIVES[0]}, {ARCHIVES[1]}, the folder cifar-10-batches-py, or folders "
    "train/CLASS and test/CLASS of JPEG or PNG files"
)
SIZE, CLASSES = 32, 10
PADDING = 4  # of random crops
ROW = np.dtype(
    [("test", "?"), ("jpeg", "?"), ("label", "u1"), ("pixels", "u1", (3, SIZE, SIZE))]
)

_PICTURE = re.compile(r"(?:.*/)?(train|test)/([^/]+)/[^/]+\.(?:jpe?g|png)", re.I)
_BATCH = re.compile(r"(?:.*/)?(data_batch_\d|test_batch)")
# All that arrays and their containers are pickled with.
_PICKLED = {
    ("_codecs", "encode"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}


class Part(NamedTuple):
    """Pictures and their classes."""

    pixels: torch.Tensor
    labels: torch.Tensor

    def some(self, number: int | None, seed: int = 0) -> "Part":
        """So many of them at random, or all there are."""
        if number is None or number >= len(self.labels):
            return self
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(self.labels), generator=generator)[:number]
        return Part(self.pixels[rows], self.labels[rows])

    def to(self, device) -> "Part":
        return Part(self.pixels.to(device), self.labels.to(device))


class Images(NamedTuple):
    """A data set, and what stands beside every error: CIFAR-10 as JPEG is another."""

    train: Part
    test: Part
    name: str

    def some(self, train: int | None, test: int | None) -> "Images":
        """So many pictures of both parts."""
        return Images(self.train.some(train), self.test.some(test), self.name)

    def checksum(self) -> str:
        """Of all pictures and classes."""
        value = 0
        for part in (self.train, self.test):
            for x in part:
                value = zlib.crc32(x.numpy(), value)
        return f"{value:08x}"


def images(path: str | Path | None, cache: Path) -> Images:
    """CIFAR-10 from a path, or from the one in the environment variable BED_DATA.

    Pictures of an archive are decoded once and kept in the folder `cache`.
    """
    source = given(path, f"PATH, or set BED_DATA, where PATH is or holds {FORMS}")
    inside = [source / name for name in ARCHIVES if (source / name).is_file()]
    source = inside[0] if inside else source
    if not source.exists():
        raise SystemExit(f"{source} does not exist: pass --data PATH with {FORMS}")
    if source.is_dir():
        rows = _rows(_in_folder(source), source)
    else:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
        rows = _kept(cache / f"cifar10-{digest}.npy", source)
    name = "CIFAR-10 as JPEG" if rows["jpeg"].any() else "CIFAR-10"
    return Images(_part(rows, False), _part(rows, True), name)


def given(path: str | Path | None, expected: str) -> Path:
    """Where data are, by an option or by the environment variable BED_DATA."""
    found = path or os.environ.get("BED_DATA")
    if not found:
        raise SystemExit(
            f"there are no data: pass --data {expected}; --smoke needs none"
        )
    return Path(found).expanduser()


def generated(train: int = 512, test: int = 256, seed: int = 0) -> Images:
    """Coloured gratings with noise: colour and direction tell the class."""
    rng = np.random.default_rng(seed)
    total = train + test
    labels = rng.permutation(np.arange(total) % CLASSES)
    angle = np.pi * labels / CLASSES + rng.normal(0, 0.05, total)
    phase = rng.uniform(0, 2 * np.pi, total)
    y, x = np.mgrid[:SIZE, :SIZE] * (2 * np.pi / 8)
    waves = np.cos(
        np.cos(angle)[:, None, None] * x
        + np.sin(angle)[:, None, None] * y
        + phase[:, None, None]
    )
    hues = labels[:, None] * (2 * np.pi / CLASSES) + np.arange(3) * (2 * np.pi / 3)
    colours = 0.5 + 0.25 * np.cos(hues)
    values = colours[:, :, None, None] * (1 + 0.5 * waves[:, None])
    values += rng.normal(0, 0.1, values.shape)
    rows = np.zeros(total, ROW)
    rows["pixels"] = (255 * values.clip(0, 1)).astype("u1")
    rows["label"], rows["test"] = labels, np.arange(total) >= train
    return Images(_part(rows, False), _part(rows, True), "generated")


def picture(content: bytes, name: str = "a picture") -> np.ndarray:
    """A picture file as (height, width, 3) uint8."""
    try:
        from PIL import Image
    except ImportError:
        raise SystemExit("pictures are read with Pillow: pip install pillow") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("RGB"))
    except OSError as error:
        raise SystemExit(f"{name} cannot be read: {error}") from None


def _part(rows, of_test: bool) -> Part:
    chosen = rows[rows["test"] == of_test]
    labels = torch.from_numpy(chosen["label"].astype("i8"))
    return Part(torch.from_numpy(np.ascontiguousarray(chosen["pixels"])), labels)


def _kept(path: Path, archive: Path) -> np.ndarray:
    """What was decoded before, or now."""
    if path.exists():
        try:
            rows = np.load(path, allow_pickle=False)
        except (ValueError, EOFError):
            rows = np.empty(0)
        if rows.dtype == ROW:
            return rows
    rows = _rows(_in_archive(archive), archive)
    with whole(path) as unfinished:
        np.save(unfinished, rows)
    return rows


def _in_folder(folder: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes


def _in_archive(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Nothing is unpacked onto the disk."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    yield member.name, file.read
    except (tarfile.TarError, EOFError) as error:
        raise SystemExit(f"{path} is no archive that can be read: {error}") from None


def _rows(files, source: Path) -> np.ndarray:
    """All pictures among files, ordered by their names."""
    found: dict[str, np.ndarray] = {}
    for name, read in files:
        if match := _PICTURE.fullmatch(name):
            row = np.zeros(1, ROW)
            pixels = picture(read(), name)
            if pixels.shape != (SIZE, SIZE, 3):
                size = " × ".join(map(str, pixels.shape[:2]))
                raise SystemExit(f"{name} in {source} is {size}, not {SIZE} × {SIZE}")
            row["test"], row["pixels"] = match[1] == "test", pixels.transpose(2, 0, 1)
            row["jpeg"] = not name.lower().endswith(".png")
            found[name] = row
        elif match := _BATCH.fullmatch(name):
            batch = _Unpickler(io.BytesIO(read()), encoding="bytes").load()
            pixels = np.asarray(batch[b"data"], "u1").reshape(-1, 3, SIZE, SIZE)
            rows = np.zeros(len(pixels), ROW)
            rows["test"], rows["pixels"] = match[1] == "test_batch", pixels
            rows["label"] = batch[b"labels"]
            found[name] = rows
    classes = sorted(
        {name.split("/")[-2] for name in found if _PICTURE.fullmatch(name)}
    )
    for name, rows in found.items():
        if _PICTURE.fullmatch(name):
            rows["label"] = classes.index(name.split("/")[-2])
    rows = np.concatenate([found[name] for name in sorted(found)] or [np.empty(0, ROW)])
    for split, of_test in (("train", False), ("test", True)):
        if not np.any(rows["test"] == of_test):
            raise SystemExit(f"{source} holds no {split} pictures: expected {FORMS}")
    return rows


class _Unpickler(pickle.Unpickler):
    """Of arrays alone: a file from elsewhere runs no code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PICKLED:
            raise SystemExit(f"a pickled file refers to {module}.{name}: not read")
        return super().find_class(module, name)


class Batches:
    """Batches in random order, cropped and flipped at random; state can be kept.

    An iteration goes on where the one of the state was, in the middle of an epoch too.
    """

    def __init__(self, part: Part, size: int, seed: int, augment: bool = True) -> None:
        if len(part.labels) < size:
            raise SystemExit(f"{len(part.labels)} pictures make no batch of {size}")
        self.part, self.size, self.augment = part, size, augment
        # On the host, so that all devices see the same pictures.
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.position = torch.empty(0, dtype=torch.long), 0

    def __len__(self) -> int:
        """Full batches of an epoch; pictures that are left over are left out."""
        return len(self.part.labels) // self.size

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if not self.position:
            self.order = torch.randperm(len(self.part.labels), generator=self.generator)
        while self.position < len(self):
            begin = self.position * self.size
            rows = self.order[begin : begin + self.size].to(self.part.labels.device)
            self.position += 1
            x = self.part.pixels[rows]
            if self.augment:
                x = crop_and_flip(x, self.generator)
            yield x, self.part.labels[rows]
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        state = self.generator.get_state()
        return {"generator": state, "order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.order, self.position = state["order"], state["position"]


def mean_and_deviation(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each channel, of values from 0 to 1."""
    flat = pixels.movedim(1, 0).flatten(1)
    found = [torch.std_mean(x.double() / 255) for x in flat]
    deviation, mean = torch.tensor(found, dtype=torch.float, device=pixels.device).T
    return mean[:, None, None], deviation[:, None, None]


def crop_and_flip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each picture moved by at most `PADDING`, onto black; half of them mirrored."""
    n, _, height, width = x.shape
    moves = torch.randint(2 * PADDING + 1, (2, n), generator=generator)
    flips = torch.randint(2, (n,), generator=generator)
    padded = torch.nn.functional.pad(x, (PADDING,) * 4)
    rows = moves[0, :, None] + torch.arange(height)
    columns = torch.arange(width).expand(n, width)
    columns = torch.where(flips[:, None] == 1, columns.flip(1), columns)
    columns = moves[1, :, None] + columns
    picture, rows, columns = (
        i.to(x.device)
        for i in (torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None])
    )
    # Indexed axes come first: (N, H, W, 3).
    return padded[picture, :, rows, columns].movedim(-1, 1)
