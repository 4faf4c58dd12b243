#!/usr/bin/env python
"""Check a wheel, and the package that was installed from it.

    python -I -W error scripts/smoke.py FROM_SDIST.whl FROM_TREE.whl TREE

The wheels hold the same files, those of the tree; the package that is imported is the
installed one, with nothing beside it but what it requires; and it solves. The script
itself needs nothing else. `scripts/wheel` builds all that.
"""

import argparse
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import numpy as np

import bed
from bed._console import ArgumentParser, show
from bed._data import real_matrices
from bed.testing.accuracy import PROMISE, measure

REQUIRED = {"array-api-compat", "batched-ed", "llvmlite", "numba", "numpy"}
REQUIRED |= {"threadpoolctl"}


def main(arguments: list[str] | None = None) -> int:
    """Check one thing after the other; an exception at the first that fails."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs=2, type=Path)
    parser.add_argument("tree", type=Path)
    options = parser.parse_args(arguments)
    count = check_wheels(options.wheels, options.tree)
    show(f"{count} files in the wheel, those of the tree, from either source")
    check_environment()
    show(f"installed with nothing but {', '.join(sorted(REQUIRED - {'batched-ed'}))}")
    check_results()
    show("solves its real matrices, and takes a root")
    for command in ("info", "cache"):
        check_command(command)
    show("python -m bed works")
    return 0


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel; RECORD, which lists them, aside."""
    with ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if not n.endswith(("/", "/RECORD"))]
        return {name: archive.read(name) for name in names}


def check_wheels(wheels: list[Path], tree: Path) -> int:
    """The number of files that both wheels and the folder `bed` have."""
    first, second = map(contents, wheels)
    packaged = {n: data for n, data in first.items() if n.startswith("bed/")}
    expected = {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for path in (tree / "bed").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    for one, other in ((first, second), (packaged, expected)):
        names = one.keys() | other.keys()
        odd = sorted(n for n in names if one.get(n) != other.get(n))
        if odd:
            raise SystemExit(f"not the same on both sides: {', '.join(odd)}")
    return len(packaged)


def check_environment() -> None:
    """Nothing that a user of the plain package may lack."""
    folder = Path(bed.__file__).parents[1]
    if not folder.is_relative_to(sys.prefix):
        raise SystemExit(f"bed is imported from {folder}, not as it was installed")
    found = {d.metadata["Name"].lower().replace("_", "-") for d in distributions()}
    if found != REQUIRED:
        raise SystemExit(f"installed are {', '.join(sorted(found))}")


def check_results() -> None:
    """Decompositions within their bound, a function, and data that come along."""
    for name, (a, exact) in real_matrices().items():
        worst = measure(a, *bed.eigh(a), exact).worst()
        if not max(worst) <= PROMISE:
            raise SystemExit(f"{name}: errors of {worst} n·eps")
    a = np.array([[[2.0, 1.0], [1.0, 2.0]]])
    root = bed.sqrtm(a)
    if not np.allclose(root @ root, a, rtol=1e-14):
        raise SystemExit(f"the root of {a} is {root}")
    if "numba_cpu" not in str(bed.explain(a)):
        raise SystemExit(f"the compiled engine is not used:\n{bed.explain(a)}")


def check_command(command: str) -> None:
    """A subcommand of the package, in a process of its own."""
    words = [sys.executable, "-I", "-W", "error", "-m", "bed", command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")


if __name__ == "__main__":
    raise SystemExit(main())
