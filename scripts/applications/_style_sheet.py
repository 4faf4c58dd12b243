"""A contact sheet: a row for content and style, a column for groups and solver."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _files import whole
from _style_images import as_pixels, fitted

from bed._console import show

# Of a picture on the sheet, of the line above a column, and between pictures.
WIDTH, HEIGHT, LINE, GAP = 176, 132, 18, 4
# The file is to be less than so many bytes, which the quality is lowered for.
LIMIT = 295_000


def sheet(path: Path, contents: dict, styles: dict, results: Sequence[Any]) -> None:
    """Write it as WebP."""
    from PIL import Image, ImageDraw

    columns = list(dict.fromkeys(column(r.row) for r in results))
    pairs = list(dict.fromkeys((r.row["content"], r.row["style"]) for r in results))
    titles = ["content", "style", *columns]
    size = len(titles) * (WIDTH + GAP) - GAP, LINE + len(pairs) * (HEIGHT + GAP) - GAP
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas)
    for i, title in enumerate(titles):
        draw.text((i * (WIDTH + GAP) + 2, 3), title, fill="black")

    def put(pixels: np.ndarray, pair: tuple, title: str) -> None:
        corner = (
            titles.index(title) * (WIDTH + GAP),
            LINE + pairs.index(pair) * (HEIGHT + GAP),
        )
        canvas.paste(_cropped(Image.fromarray(pixels)), corner)

    for content, style in pairs:
        originals = {"content": contents[content], "style": styles[style]}
        for title, pixels in originals.items():
            put(as_pixels(fitted(pixels, 512)), (content, style), title)
    for result in results:
        row = result.row
        put(result.picture, (row["content"], row["style"]), column(row))
    with whole(path) as unfinished:
        unfinished.write_bytes(_encoded(canvas))
    show(f"wrote {path}")


def column(row: dict[str, Any]) -> str:
    """The title above a picture."""
    return f"{row['groups']} groups, {row['solver']}"


def _cropped(image):
    """The middle of a picture, in the size of the sheet's."""
    from PIL import ImageOps

    return ImageOps.fit(image, (WIDTH, HEIGHT))


def _encoded(canvas) -> bytes:
    for quality in (90, 80, 70, 60, 50, 40, 30):
        content = io.BytesIO()
        canvas.save(content, "WEBP", quality=quality, method=6)
        if content.tell() < LIMIT:
            break
    return content.getvalue()
