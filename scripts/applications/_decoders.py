"""Training of decoders: pictures, and features on the way to them, are to come back.

Blocks are trained one after the other, from the picture to the deepest level, each
through those that are trained already: so a deep one has the pixels in its loss too.
"""

import hashlib
import io
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _checkpoint import Checkpoint, set_seeds
from _files import whole
from _style_images import Crops, fitted
from _train import Training, fit
from _vgg import LEVELS, Decoder, Encoder

from bed._console import show
from bed.engines._threads import thread_count

RATE = 2e-3
# Crops whose moments the blocks start from.
FIRST = 24
# A part of the steps in which the learning rate rises; then it falls to zero.
RISE = 0.1


class Plan(NamedTuple):
    """How long decoders are trained, and on what."""

    steps: tuple[int, int, int, int]
    batch: int
    crop: int
    epochs: int
    size: int
    seed: int


class Pictures(NamedTuple):
    """Those to train on, and those that only the errors are of."""

    train: list
    test: list
    checksum: str


def decoder(
    encoder: Encoder, pictures: Pictures, plan: Plan, place: Path, every: int
) -> tuple[Decoder, list[dict[str, Any]]]:
    """A trained decoder and its errors, from where an earlier process left it."""
    settings = {**plan._asdict(), "pictures": pictures.checksum}
    settings |= {"weights": digest(encoder), "threads": thread_count()}
    device = encoder.means.device
    set_seeds(plan.seed)
    model = Decoder(encoder.channels)
    crops = Crops(pictures.train, plan.crop, FIRST, 1, plan.seed)
    with torch.no_grad():
        x = crops.drawn(FIRST).to(device)
        model.to(device).set(x, encoder(x))
    model.requires_grad_(False).to(memory_format=torch.channels_last)
    rows = []
    for level in range(1, LEVELS + 1):
        checkpoint = Checkpoint(place / f"level{level}.checkpoint", settings)
        weights = place / f"level{level}.pt"
        found = _trained(
            encoder, model, level, pictures, plan, checkpoint, weights, every
        )
        rows += [{"level": level, **row} for row in found]
        # A training that was finished before is in the file alone.
        block = model.blocks[level - 1]
        block.load_state_dict(torch.load(weights, weights_only=True))
        block.requires_grad_(False)
        last = found[-1]
        show(
            f"decoder of relu{level}_1: {last['picture_error']:.3f} of the variance of "
            "pictures it was not trained on"
        )
    keep(place / "decoder.pt", model, digest(encoder))
    return model, rows


def _trained(encoder, model, level, pictures, plan, checkpoint, weights, every):
    """Train the block of a level."""
    block = model.blocks[level - 1].requires_grad_(True)
    adam = torch.optim.Adam(block.parameters(), lr=RATE)
    of_epoch = math.ceil(plan.steps[level - 1] / plan.epochs)
    crops = Crops(
        pictures.train, plan.crop, plan.batch, of_epoch, plan.seed + 1000 * level
    )
    device = encoder.means.device

    def loss(x: torch.Tensor) -> torch.Tensor:
        return sum(errors(encoder, model, x.to(device), level))

    def rate(step: int) -> float:
        part = step / (of_epoch * plan.epochs)
        fall = (1 + math.cos(math.pi * max(0.0, part - RISE) / (1 - RISE))) / 2
        return RATE * min(part / RISE + 0.01, fall)

    def test() -> dict[str, float]:
        found = [
            [float(e) for e in errors(encoder, model, x, level)]
            for x in (fitted(p, plan.size).to(device) for p in pictures.test)
        ]
        means = [sum(x) / len(x) for x in zip(*found, strict=True)]
        _save(weights, block.state_dict())
        return {"picture_error": means[0], "feature_error": means[1]}

    training = Training(block, adam, crops, loss, rate, torch.no_grad()(test))
    return fit(training, plan.epochs, checkpoint, every, f"decoder of relu{level}_1")


def errors(encoder, model, x: torch.Tensor, level: int) -> tuple:
    """Mean squares of what is lost of pictures and of features of the level above.

    Both in units of the variance of each channel. At level 1 that is the picture, and
    there are no others.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        features = encoder(x, level)
    found = model(features[-1], level)
    picture = ((found[-1] - x) / model.blocks[0].scale).square().mean()
    if level == 1:
        return picture, picture.new_zeros(())
    lost = (found[0] - features[-2]) / model.blocks[level - 1].scale
    return picture, lost.square().mean()


def keep(path: Path, model: Decoder, weights: str) -> None:
    """A decoder, with what it belongs to."""
    _save(path, {"encoder": weights, "decoder": model.state_dict()})


def kept(path: Path, encoder: Encoder) -> Decoder | None:
    """A decoder that was trained before, for the same encoder."""
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True, map_location=encoder.means.device)
    if state["encoder"] != digest(encoder):
        raise SystemExit(f"{path} belongs to another encoder: pass another --decoders")
    model = Decoder(encoder.channels).to(encoder.means.device)
    model.load_state_dict(state["decoder"])
    return model.requires_grad_(False).to(memory_format=torch.channels_last)


def digest(encoder: Encoder) -> str:
    """Tells encoders apart."""
    found = hashlib.sha256()
    for x in encoder.state_dict().values():
        found.update(x.cpu().contiguous().numpy())
    return found.hexdigest()[:12]


def _save(path: Path, state: Any) -> None:
    content = io.BytesIO()
    torch.save(state, content)
    with whole(path) as unfinished:
        unfinished.write_bytes(content.getvalue())
