"""A plugin of pytest: writes down each outcome as it comes, with the largest errors.

One line of JSON for each test in the file that BED_ACCEPTANCE_RECORD names, so that a
run which is stopped or crashes has told what it did.
"""

import json
import os

import pytest

from bed.testing import checks

MAX_TEXT = 600  # characters of a failure


@pytest.fixture(autouse=True)
def _largest_errors(record_property, monkeypatch):
    """Keep the errors of every decomposition that a test has checked."""
    measure = checks.measure

    def recorded(a, *arguments, **options):
        errors = measure(a, *arguments, **options)
        for kind, found in errors._asdict().items():
            if found is not None:
                value = float(found.max(initial=0))
                record_property("worst", (kind, str(a.dtype), value))
        return errors

    monkeypatch.setattr(checks, "measure", recorded)


def pytest_configure(config):
    """Of the processes of pytest-xdist one writes, which hears of all tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


class Recorder:
    """Writes the file."""

    def pytest_runtest_logreport(self, report):
        """What a test did; of set-up and tear-down, what went wrong."""
        if report.when != "call" and report.passed:
            return
        text = ""
        if report.skipped:
            text = report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            text = getattr(report.longrepr, "reprcrash", None)
            text = (text.message if text else str(report.longrepr))[-MAX_TEXT:]
        worst = [value for name, value in report.user_properties if name == "worst"]
        line = {
            "id": report.nodeid.rpartition("/")[2],
            "outcome": report.outcome,
            "text": text,
            "worst": worst,
        }
        with open(os.environ["BED_ACCEPTANCE_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
