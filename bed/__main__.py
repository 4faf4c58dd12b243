"""``python -m bed eigh | demo | info | bench | cache``."""

import shlex
import sys

from . import __version__
from ._console import ArgumentParser, show
from .cli import bench, cache, demo, eigh, info


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    parser = ArgumentParser(prog="python -m bed", description=__doc__)
    parser.add_argument("--version", action="version", version=f"bed {__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="eigh | demo | info | bench | cache"
    )
    for command in (eigh, demo, info, bench, cache):
        sub = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.__doc__,
            description=command.__doc__,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(arguments)
    options.command = shlex.join(arguments)
    try:
        return options.run(options)
    except (ImportError, OSError, ValueError) as error:  # of what was asked for
        show(f"python -m bed: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
