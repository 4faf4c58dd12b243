#!/usr/bin/env python
"""Put bed in place of what other libraries call; run their tests and hot calls.

    python scripts/clients.py --suites FOLDER
    python scripts/clients.py --install ENVIRONMENT --suites FOLDER

The recipes are those of `scripts/docs/neighbours.md`. Each library that is installed
has its own tests run without and with bed, and one call timed both ways in turns. Some
packages hold their tests; for others FOLDER has a checkout, or what its tests need,
under the library's name. Where there is none only the call is timed.
Nothing is installed, but for what `--install` puts into a new virtual environment, in
which this script then runs.

Exits with 1 if a test has another outcome with bed and no reason is known.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from _clients import CLIENTS, distribution

from bed._config import machine_and_versions
from bed._console import ArgumentParser, show
from bed.cli._table import commit, write_table
from bed.engines._threads import thread_count
from bed.testing.clock import in_turns

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "scripts" / "docs" / "neighbours.md"
TABLE = ROOT / "scripts" / "results" / "clients.csv"
# A test that draws without a seed draws the same with bed as without.
SEEDED = """
import random
import sys

import numpy
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    random.seed(0)
    numpy.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, write the table, return the exit code."""
    options = parse(arguments)
    if options.install:
        return install(options)
    machine = machine_and_versions()
    code = f"bed: {thread_count()} threads; commit {commit(ROOT, 'scripts/results')}"
    rows, unexplained = [], []
    for name in options.client:
        if not find_spec(CLIENTS[name].package):
            show(f"{name} is not installed: left out")
            continue
        row, without_reason = tried(name, options.suites)
        rows.append(row)
        unexplained += without_reason
        # After each: suites take long, and a later library may fail.
        write_table(options.csv, (machine, code), rows)
    return int(bool(unexplained))


def tried(name: str, suites: Path | None) -> tuple[dict[str, object], list[str]]:
    """A row of the table, and the tests whose outcome changes for no known reason."""
    client = CLIENTS[name]
    before, after = (suite(name, suites, bed) for bed in (False, True))
    changed = sorted(t for t in before | after if before.get(t) != after.get(t))
    for test in changed:
        reason = client.known.get(test, "no reason known")
        show(f"{test}: {before.get(test)}, now {after.get(test)}: {reason}")
    times = hot_call(name)
    ratio = times[0] / times[1]
    row = {
        "client": name,
        "version": metadata.version(distribution(name)),
        "tests": len(before),
        "failing": sum(outcome == "failed" for outcome in before.values()),
        "changed": len(changed),
        "call": client.call,
        "before_ms": 1e3 * times[0],
        "bed_ms": 1e3 * times[1],
        "ratio": ratio,
    }
    show(
        f"{name}: {len(before)} tests, {len(changed)} changed; {client.call}: "
        f"{ratio:.3g} times as fast"
    )
    return row, [test for test in changed if test not in client.known]


def parse(arguments) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--suites", type=Path, help="checkouts of libraries by name")
    parser.add_argument("--install", type=Path, help="a new virtual environment")
    parser.add_argument("--csv", type=Path, default=TABLE)
    return parser.parse_args(arguments)


def install(options: argparse.Namespace) -> int:
    """Make the environment, and run in it what else was asked for."""
    python = options.install / "bin" / "python"
    # What the tests of some need beside the library.
    extra = ["pytest", "pytest-pretty", "hypothesis", "seaborn", "torch"]
    subprocess.run([sys.executable, "-m", "venv", options.install], check=True)
    pip = [python, "-m", "pip", "install", "--quiet"]
    libraries = dict.fromkeys(map(distribution, options.client))
    subprocess.run([*pip, ROOT, *extra, *libraries], check=True)
    words = ["--csv", options.csv, "--client", *options.client]
    words += ["--suites", options.suites] if options.suites else []
    return subprocess.run([python, __file__, *words]).returncode


def suite(name: str, suites: Path | None, with_bed: bool) -> dict[str, str]:
    """Outcomes of a library's own tests; none where there are no tests."""
    client = CLIENTS[name]
    checkout = suites / distribution(name) if suites else None
    if client.tests[0].startswith(client.package + "."):
        tests = ["--pyargs", *client.tests]
    else:
        found = [sorted(checkout.glob(t)) for t in client.tests] if checkout else []
        tests = [str(path.absolute()) for paths in found for path in paths]
    if not tests:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        plugin = Path(scratch) / "in_place.py"
        plugin.write_text(SEEDED + recipe(name) * with_bed, "utf-8")
        report = Path(scratch) / "report.xml"
        words = ["-q", "-p", "in_place", "-p", "no:cacheprovider", "--junitxml", report]
        path = os.pathsep.join([scratch, str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, *tests],
            env={**os.environ, "PYTHONPATH": path},
            cwd=checkout if checkout and checkout.exists() else scratch,
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):
            raise OSError(
                f"{name}: pytest could not run:\n{(done.stdout + done.stderr)[-2000:]}"
            )
        return outcomes(report)


def outcomes(report: Path) -> dict[str, str]:
    """Test to passed, failed or skipped, from a report of pytest."""
    words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        told = [words[child.tag] for child in case if child.tag in words]
        names = filter(None, (case.get("classname"), case.get("name")))
        found[".".join(names)] = told[0] if told else "passed"
    return found


def hot_call(name: str) -> tuple[float, float]:
    """Seconds of a library's call without and with bed."""
    call = CLIENTS[name].hot()
    call()
    changes = differences(name)

    def restored(which: int):
        for space, attribute, *values in changes:
            space[attribute] = values[which]
        return call()

    calls = {"before": lambda: restored(0), "bed": lambda: restored(1)}
    times = in_turns(calls, turn=0.05)
    restored(0)
    return times["before"], times["bed"]


def differences(name: str) -> list[tuple[dict, str, object, object]]:
    """What a recipe changes, which it has done then: where, and from what to what."""
    within = CLIENTS[name].modules
    spaces = [vars(m) for n, m in sys.modules.items() if n.partition(".")[0] in within]
    before = [dict(space) for space in spaces]
    exec(recipe(name), {"__name__": "recipe"})
    changes = [
        (space, attribute, old[attribute], space[attribute])
        for space, old in zip(spaces, before, strict=True)
        for attribute in old.keys() & space.keys()
        if old[attribute] is not space[attribute]
    ]
    if not changes:
        raise ValueError(f"the recipe for {name} changes nothing")
    return changes


def recipe(name: str) -> str:
    """The code under a heading of the page."""
    section = re.search(
        rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)",
        PAGE.read_text("utf-8"),
        re.S | re.M,
    )
    if section is None:
        raise ValueError(f"{PAGE.name} has no section {name}")
    (code,) = re.findall(r"^```python\n(.*?)^```", section[1], re.S | re.M)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
