"""Pictures for the transfer of styles: from files, from the archive, or generated."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _data import generated, given, picture
from _files import whole
from _vgg import MULTIPLE, WEIGHTS

ARCHIVE = "style_images.zip"


def raise_unless_pillow() -> None:
    """Told before anything is trained."""
    if not find_spec("PIL"):
        raise SystemExit(
            "pictures are read and written with Pillow: pip install pillow"
        )


class Photographs:
    """Photographs and paintings, uint8 tensors (3, height, width) by name."""

    def __init__(self, photos: dict, paintings: dict) -> None:
        self.photos, self.paintings = photos, paintings

    def checksum(self) -> str:
        """Of all photographs."""
        value = 0
        for name in sorted(self.photos):
            value = zlib.crc32(self.photos[name].numpy(), value)
        return f"{value:08x}"


def folder(path: str | None, names: tuple[str, ...]) -> Path:
    """The folder of data, from an option or BED_DATA, which has to hold some files."""
    found = given(path, f"FOLDER, or set BED_DATA, with {' and '.join(names)}")
    for name in names:
        if not (found / name).is_file():
            raise SystemExit(f"{found} holds no {name}: pass --data FOLDER with it")
    return found


def data_folder(path: str | None) -> Path:
    """That of the weights of the encoder, and of the pictures."""
    return folder(path, (WEIGHTS, ARCHIVE))


def archived(path: Path) -> Photographs:
    """Those of the archive: photo_*.jpg and painting_*.jpg."""
    found: dict[str, dict] = {"photo": {}, "painting": {}}
    with zipfile.ZipFile(path) as archive:
        for file in sorted(archive.namelist()):
            kind, _, name = Path(file).stem.partition("_")
            if kind in found and name:
                found[kind][name] = as_tensor(picture(archive.read(file), file))
    if not all(found.values()):
        raise SystemExit(f"{path} holds no photo_*.jpg, or no painting_*.jpg")
    return Photographs(found["photo"], found["painting"])


def small() -> Photographs:
    """Four generated pictures, each of four others that stand side by side."""
    tiles = generated(16, 1).train.pixels.reshape(4, 2, 2, 3, 32, 32)
    rows = tiles.permute(0, 3, 1, 4, 2, 5).reshape(4, 3, 64, 64).contiguous()
    names = ("first", "second", "third", "fourth")
    photos = dict(zip(names[:3], rows, strict=False))
    return Photographs(photos, {names[3]: rows[3]})


def as_tensor(pixels: np.ndarray) -> torch.Tensor:
    """(height, width, 3) as (3, height, width)."""
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def read(path: str) -> torch.Tensor:
    """A picture of one's own, upright as its camera noted."""
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    stored = picture(content, path)
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content)) as image:
        upright = Image.fromarray(stored)
        upright.info["exif"] = image.info.get("exif", b"")
    return as_tensor(np.asarray(ImageOps.exif_transpose(upright)))


def fitted(pixels: torch.Tensor, size: int) -> torch.Tensor:
    """A picture (1, 3, height, width) of 0..1, its longer side `size` if that is less.

    Sides become multiples of 8, as the encoder halves them three times.
    """
    height, width = pixels.shape[1:]
    factor = min(1.0, size / max(height, width))
    sides = [max(2, round(factor * n / MULTIPLE)) * MULTIPLE for n in (height, width)]
    return torch.nn.functional.interpolate(
        pixels[None].float() / 255, sides, mode="bicubic", antialias=True
    ).clamp(0, 1)


def as_pixels(x: torch.Tensor) -> np.ndarray:
    """A picture (1, 3, height, width) of 0..1 as (height, width, 3) uint8."""
    rounded = (255 * x[0].clamp(0, 1)).round().byte()
    return rounded.permute(1, 2, 0).cpu().numpy()


class Crops:
    """Batches of squares from photographs, half of them mirrored; state can be kept."""

    def __init__(self, photos: list, size: int, batch: int, steps: int, seed: int):
        self.photos, self.size = photos, min(size, *(min(p.shape[1:]) for p in photos))
        self.batch, self.steps, self.position = batch, steps, 0
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
        while self.position < self.steps:
            self.position += 1
            yield (self.drawn(self.batch),)
        self.position = 0

    def drawn(self, number: int) -> torch.Tensor:
        """So many squares, (number, 3, size, size) of 0..1."""
        return torch.stack([self._one() for _ in range(number)]).float() / 255

    def _one(self) -> torch.Tensor:
        photo = self.photos[self._below(len(self.photos))]
        top, left = (self._below(n - self.size + 1) for n in photo.shape[1:])
        x = photo[:, top : top + self.size, left : left + self.size]
        return x.flip(2) if self._below(2) else x

    def _below(self, bound: int) -> int:
        return int(torch.randint(bound, (), generator=self.generator))

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.position = state["position"]


def write(path: Path, pixels: np.ndarray) -> None:
    """A picture, of the kind that the end of its name tells."""
    from PIL import Image

    kind = path.suffix.lstrip(".").upper().replace("JPG", "JPEG") or "PNG"
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    with whole(path) as unfinished:
        unfinished.write_bytes(content.getvalue())
