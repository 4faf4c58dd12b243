#!/usr/bin/env python
"""Give a photograph the style of a painting: whitening and colouring of features.

    python scripts/applications/style_transfer.py my.jpg painting.jpg --out out.png
    python scripts/applications/style_transfer.py --smoke
    python scripts/applications/style_transfer.py --plan reduced --data FOLDER

Features of VGG-HED (VGG-16 trained further to find edges) up to conv4_1 are whitened,
given the covariance and the mean of the painting's, and decoded to a picture, from the
deepest level up to conv1_1. Channels are taken in groups: 64, 32 or 16 of them are 4, 8
or 16 channels each at conv3_1, whose number is 256, and half or twice as many at the
levels beside it. With one group all channels of a level are whitened together.

Decoders are trained on the photographs of --data first, which takes minutes, and kept
in --decoders; a training whose process was ended goes on from its last checkpoint.
--data, or the variable BED_DATA, is a folder with vgg16_hed_conv1-4.npz and
style_images.zip. Without pictures of one's own two photographs that are kept out of
the training, and two paintings, are combined, with all groups and solvers. Left in
--out are style_transfer.csv with the time of the decompositions (solvers take turns),
the structural similarity to the photograph, and the distance to the painting in Gram
matrices and in covariances of features; style_transfer.webp with the pictures of the
first solver, and style_transfer_solvers.webp with those of all. There is no LPIPS: it
needs the weights of further networks, which are not at hand.
"""

import argparse
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _decoders import Pictures, Plan, decoder, digest, kept
from _report import heading, table
from _roots import SOLVERS, roots
from _style_images import (
    ARCHIVE,
    archived,
    as_pixels,
    data_folder,
    fitted,
    folder,
    raise_unless_pillow,
    read,
    small,
    write,
)
from _style_sheet import sheet
from _train import add_plans, argument_parser, bar, completed, prepare
from _transfer import EPS, distances, similarity, stylised, wct
from _vgg import LEVELS, WEIGHTS, pretrained, random_encoder

from bed._console import show
from bed.testing.clock import in_turns

NAME = "style_transfer"
PLANS: dict[str, dict[str, Any]] = {
    "full": {
        "steps": [1000, 4000, 8000, 16000], "batch": 8, "crop": 160, "epochs": 10,
        "size": 512, "groups": [64, 32, 16],
    },
    "reduced": {
        "steps": [200, 300, 500, 600], "batch": 4, "crop": 96, "epochs": 4,
        "size": 320, "groups": [64, 32, 16],
    },
    "smoke": {
        "steps": [8, 8, 8, 8], "batch": 2, "crop": 32, "epochs": 2,
        "size": 64, "groups": [8, 4, 2],
    },
}  # fmt: skip
# Photographs that no decoder is trained on, and paintings. Smaller runs have the last.
CONTENTS = ("neuschwanstein_castle", "pont_du_gard")
STYLES = ("cafe_terrace", "auvers_church")


class Result(NamedTuple):
    """A picture, and its line of the table."""

    picture: Any
    row: dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Train decoders unless they are there, then stylise."""
    options = parse(arguments)
    prepare(options)
    raise_unless_pillow()
    if options.content:
        return own(options)
    contents, styles, pictures = materials(options)
    encoder = encoder_of(options)
    settings = {
        "steps": "+".join(map(str, options.steps)),
        **{
            name: getattr(options, name) for name in ("batch", "crop", "seed", "device")
        },
        **{name: getattr(options, name) for name in ("size", "alpha", "detail")},
        "eps": EPS,
        "encoder": digest(encoder),
        "pictures": pictures.checksum,
    }
    lines = heading(options.device, settings)
    show(*lines)
    model, trained = decoder(
        encoder, pictures, plan(options), options.decoders, options.every
    )
    results = compared(options, encoder, model, contents, styles)
    table(options.out / f"{NAME}.csv", lines, [r.row for r in results])
    table(options.out / f"{NAME}_decoders.csv", lines, trained)
    summary(results)
    of_first = [r for r in results if r.row["solver"] == options.solver[0]]
    for end, shown in (("", of_first), ("_solvers", results)):
        sheet(options.out / f"{NAME}{end}.webp", contents, styles, shown)
    return 0


def parse(arguments) -> argparse.Namespace:
    """The command line, completed by its plan."""
    parser = argument_parser(NAME, __doc__)
    add_plans(parser, PLANS, "reduced")
    add = parser.add_argument
    add("content", nargs="?", help="a picture of your own")
    add("style", nargs="?", help="whose style it is given")
    add("--solver", nargs="+", choices=SOLVERS)
    add("--groups", nargs="+", type=int, help="of channels, at every level")
    add("--alpha", type=float, default=0.6, help="1 for features of the style alone")
    add("--detail", type=float, default=0.5, help="0 as in the literature, 1 for all")
    add("--size", type=int, help="longer side of pictures, if they are larger")
    add("--steps", type=int, nargs=LEVELS, help="of the training, level by level")
    add("--crop", type=int, help="side of the squares to train with")
    add("--decoders", type=Path, help="folder to keep decoders in")
    options = parser.parse_args(arguments)
    if options.content and not options.style:
        parser.error("pass two pictures, content and style, or none")
    if options.content:
        options.groups = options.groups or ([2] if options.smoke else [16])
        options.size = options.size or 512
        default = Path("build/applications") / NAME
        options.decoders = options.decoders or default / "decoders"
        if options.out == default:
            options.out = Path("out.png")
    options.solver = options.solver or (["bed"] if options.content else [*SOLVERS])
    options.decoders = options.decoders or options.out / "decoders"
    return completed(options, PLANS)


def plan(options) -> Plan:
    """How decoders are trained."""
    found = {name: getattr(options, name) for name in Plan._fields}
    found |= {"steps": tuple(options.steps), "size": PLANS[options.plan]["size"]}
    return Plan(**found)


def encoder_of(options):
    """VGG-HED, or a random one for runs without data."""
    if options.smoke:
        encoder = random_encoder(8, options.seed)
    else:
        encoder = pretrained(folder(options.data, (WEIGHTS,)))
    raise_unless_divisible(options.groups, encoder.channels)
    return encoder.to(options.device, memory_format=torch.channels_last)


def materials(options) -> tuple[dict, dict, Pictures]:
    """Photographs and paintings to combine, and pictures to train on."""
    found = small() if options.smoke else archived(data_folder(options.data) / ARCHIVE)
    chosen = [name for name in CONTENTS if name in found.photos]
    contents = {n: found.photos[n] for n in chosen or list(found.photos)[-1:]}
    chosen = [name for name in STYLES if name in found.paintings]
    styles = {n: found.paintings[n] for n in chosen or list(found.paintings)[-1:]}
    others = [x for name, x in found.photos.items() if name not in contents]
    return contents, styles, Pictures(others, list(contents.values()), found.checksum())


def raise_unless_divisible(groups, channels) -> None:
    """Groups are equal at every level."""
    for number in groups:
        if number < 1 or any(c % number for c in channels):
            told = ", ".join(map(str, channels))
            raise SystemExit(f"--groups {number} does not divide channels: {told}")


def own(options) -> int:
    """Stylise a picture of the user's."""
    content, style = (
        fitted(read(path), options.size).to(options.device)
        for path in (options.content, options.style)
    )
    encoder = encoder_of(options)
    model = kept(options.decoders / "decoder.pt", encoder)
    if model is None:
        show("decoders are trained first, once")
        model, _ = decoder(
            encoder, materials(options)[2], plan(options), options.decoders,
            options.every,
        )  # fmt: skip
    transform = partial(
        wct,
        alpha=options.alpha,
        num_groups=options.groups[0],
        roots=roots(options.solver[0]),
    )
    with torch.no_grad():
        picture = stylised(
            encoder, model, content, encoder(style), transform, options.detail
        )
    write(options.out, as_pixels(picture))
    show(f"wrote {options.out}")
    return 0


@torch.no_grad()
def compared(options, encoder, model, contents: dict, styles: dict) -> list[Result]:
    """All combinations."""
    inputs = {
        name: fitted(x, options.size).to(options.device)
        for name, x in {**contents, **styles}.items()
    }
    results = []
    for name, style, groups in bar(
        list(product(contents, styles, options.groups)), "pictures"
    ):
        content, of_style = inputs[name], encoder(inputs[style])
        matrices: list[tuple] = []
        for solver in options.solver:
            matrices.clear()
            transform = partial(
                wct,
                alpha=options.alpha,
                num_groups=groups,
                roots=roots(solver),
                matrices=matrices,
            )
            picture = stylised(
                encoder, model, content, of_style, transform, options.detail
            )
            row = {"content": name, "style": style, "groups": groups, "solver": solver}
            row |= {"ssim": similarity(content, picture)}
            row |= distances(encoder(picture), of_style)
            results.append(Result(as_pixels(picture), row))
        times = root_times(matrices, options.solver, options.device)
        for result in results[-len(times) :]:
            result.row["root_ms"] = 1e3 * times[result.row["solver"]]
    return results


def root_times(matrices: list[tuple], solvers, device: str) -> dict[str, float]:
    """Seconds that each solver takes for all roots of a picture, in turns."""

    def call(root, inverse_root):
        for s, t in matrices:
            inverse_root(s)
            root(t)

    wait = torch.cuda.synchronize if torch.device(device).type == "cuda" else None
    calls = {solver: partial(call, *roots(solver)) for solver in solvers}
    return in_turns(calls, wait=wait)


def summary(results: list[Result]) -> None:
    """Means over pictures, for every number of groups and solver."""
    show(f"{'groups':>6}  {'solver':12}{'ms':>9}{'SSIM':>8}{'Gram':>8}{'cov.':>8}")
    cases = dict.fromkeys((r.row["groups"], r.row["solver"]) for r in results)
    for groups, solver in cases:
        rows = [r.row for r in results if (groups, solver) == _case(r.row)]
        ms, ssim, gram, covariance = (
            sum(row[name] for row in rows) / len(rows)
            for name in ("root_ms", "ssim", "gram_distance", "covariance_distance")
        )
        show(f"{groups:6}  {solver:12}{ms:9.2f}{ssim:8.3f}{gram:8.3f}{covariance:8.3f}")


def _case(row: dict[str, Any]) -> tuple:
    return row["groups"], row["solver"]


if __name__ == "__main__":
    raise SystemExit(main())
