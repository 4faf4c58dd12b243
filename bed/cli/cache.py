"""Show where compiled code of the CPU engine is kept, and its size; or remove it."""

from .._config import compiled_code
from .._console import show


def add_arguments(parser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "--clear", action="store_true", help="remove it; the next call compiles anew"
    )


def run(options) -> int:
    """Print the folder and what is in it, or empty it."""
    folder, files = compiled_code()
    if folder is None:
        show("no folder: the CPU engine does not run here, or can keep no code")
        return 0
    size = sum(file.stat().st_size for file in files) / 1e6
    if options.clear:
        for file in files:
            file.unlink(missing_ok=True)  # another process may do the same
    done = "removed from" if options.clear else "in"
    show(f"{len(files)} files, {size:.1f} MB, {done} {folder}")
    return 0
