"""Solve the matrices in a file, larger than memory; the same command goes on."""

import sys
from pathlib import Path

from .. import files
from .._console import escaped, show


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    parser.add_argument("input", type=Path, help=".npy file or zarr array (..., n, n)")
    parser.add_argument("output", type=Path, help="folder for the results")
    parser.add_argument("--eigenvalues-only", action="store_true")
    parser.add_argument(
        "--function", choices=files.FUNCTIONS[2:], help="a function of the matrices"
    )
    parser.add_argument("--power", type=float, help="of powm")
    parser.add_argument("--min", type=float, help="of clampm")
    parser.add_argument("--max", type=float, help="of clampm")
    parser.add_argument("--floor", type=float, help="of a function, see bed.sqrtm")
    parser.add_argument("--uplo", choices=("L", "U"), default="L", help="triangle")
    parser.add_argument("--driver", default="auto", help="engine, see `info`")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--memory", default="1GB", help="limit for what is in memory at once"
    )


def run(options) -> int:
    """Solve, and sum up; 1 if a matrix failed."""
    name, arguments = _function(options)
    try:
        summary = files.apply(
            name,
            options.input,
            options.output,
            UPLO=options.uplo,
            driver=options.driver,
            device=options.device,
            memory=options.memory,
            **arguments,
        )
    except KeyboardInterrupt:
        show("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    paths = summary.outputs.items()
    show(summary, *(f"{name}: {escaped(path)}" for name, path in paths))
    return 1 if summary.failures else 0


def _function(options) -> tuple[str, dict]:
    """The name of the function, and what it is given."""
    given = {"p": options.power, "min": options.min, "max": options.max}
    given["floor"] = options.floor
    given = {key: value for key, value in given.items() if value is not None}
    name = options.function
    if options.eigenvalues_only and name:
        raise ValueError("--eigenvalues-only is not for --function")
    if (name == "powm") != ("p" in given):
        raise ValueError("--function powm needs --power, and no other has it")
    if name != "clampm" and given.keys() & {"min", "max"}:
        raise ValueError("--min and --max are for --function clampm")
    if not name and given:
        raise ValueError("--floor is for --function")
    return name or ("eigvalsh" if options.eigenvalues_only else "eigh"), given
