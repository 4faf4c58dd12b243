"""What README and the documentation say was measured is what scripts/results has."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from loaded_script import load_script

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "scripts" / "docs").glob("*.md"))
tables = load_script("docs/tables")

# Programs, names of files and addresses.
QUOTED = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
# What may be a time, a ratio, a part or a count.
NUMBER = re.compile(
    r"(?<![\w.-])\d[\d .,]*(?:e-?\d+)?(?:\s?(?:[%×µ]|ms|MB|GB|[a-z]+))?"
    r"|\b(?:half|third|quarter|twice|(?:two|three|four|five|six|eight|ten) times)\b"
)
TIME = re.compile(
    r"\d\s?(?:ms|µs|s|%)\b|\b(?:half|third) (?:of )?the time|times as fast"
)
# Limits, definitions, sizes and versions: not measured. A page may say no other number.
SAID = {
    "README": [
        "n = 1 to 64 and above",
        "Python 3.10 or newer",
        "CUDA 12.4 to 13",
        "64 × 64 matrices take little less than with NumPy",
    ],
    "accuracy": ["below 8·n·eps", "with status 3", "Above n = 192"],
    "applications": ["in 16, 8 or 4 groups"],
    "changes": ["n = 24 and more", "2×2 matrices", "half types", "torch 2.5 is"],
    "clusters": ["Ray 2.60"],
    "coming_from": ["clamped to 1e-10", "with 9 terms", "with 100 in its code"],
    "engine": ["CUDA 12.4"],
    "first_steps": ["from 2.5 on", "from 0.10 on"],
    "functions": ["with status 4", "turns of 20 ms"],
    "inside": ["ECCV 2022", "n − 2 Householder", "from n = 24 on"],
    # A test has these as its bounds.
    "layers": ["within 1e-5", "condition 100", "of 300 deviations"],
    "measuring": ["n ≤ 3", "n = 3 they lose half", "on Python 3.10, 3.12 and 3.13"],
    "neighbours": ["4×4 matrix"],
}


def prose(path):
    """A text without its programs and what was measured, in one line."""
    text = QUOTED.sub("", tables.BLOCK.sub("", path.read_text("utf-8")))
    text = re.sub(r"^\d\. ", "", text, flags=re.MULTILINE)
    return " ".join(text.split())


def unfounded(text, said):
    """Numbers of a text that are not among those it may say."""
    for words in said:
        text = text.replace(words, "")
    return NUMBER.findall(text)


@pytest.mark.parametrize("path", tables.TEXTS, ids=lambda path: path.stem)
def test_tables_are_those_of_the_results(path):
    text = path.read_text("utf-8")
    assert tables.filled(text) == text


def test_every_table_is_shown():
    shown = [
        name
        for path in tables.TEXTS
        for name in re.findall(r"<!-- (\w+) -->", path.read_text("utf-8"))
    ]
    assert sorted(set(shown) - {"end"}) == sorted(tables.BLOCKS)
    assert shown.count("end") == len(shown) / 2 == len(tables.BLOCKS)


@pytest.mark.parametrize("path", [README, *PAGES], ids=lambda path: path.stem)
def test_no_other_number_is_said(path):
    said = SAID.get(path.stem, [])
    text = prose(path)
    assert [words for words in said if words not in text] == []
    assert unfounded(text, said) == []


@pytest.mark.parametrize(
    "text",
    [
        "takes 3 ms",
        "is 1.7 to 2 times as fast",
        "0.3 %",
        "25× as fast",
        "in 20 seconds",
        "half the time",
        "three times as fast",
        "an error of 2e-16",
    ],
)
def test_measurements_are_seen(text):
    assert unfounded(f"bed {text}, n = 1 to 64 and above.", SAID["README"])


@pytest.mark.parametrize("module", ["bed", "bed.linalg", "bed.jax", "bed.files"])
def test_docstrings_say_no_times(module):
    public = importlib.import_module(module)
    for name in public.__all__:
        text = inspect.getdoc(getattr(public, name)) or ""
        assert not TIME.search(text), name


def test_single_matrices_of_64_rows_take_about_as_long_as_with_numpy():
    rows = tables.results("single")[1]
    (row,) = (row for row in rows if (row["function"], row["n"]) == ("eigh", "64"))
    assert 2 / 3 < float(row["numpy_us"]) / float(row["bed_us"]) < 3 / 2


def test_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) < 150
