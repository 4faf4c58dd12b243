"""Recipes that put bed in place of what others call, and the script that tries them."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from bed.cli._table import read_table

ROOT = Path(__file__).parents[1]
# Imports and changes other libraries, so it runs in a process of its own.
CODE = """
import numpy as np
from clients import CLIENTS, differences
bare = np.linalg.eigh, np.linalg.eigvalsh
call = CLIENTS[{name!r}].hot()
results = lambda found: found if isinstance(found, tuple) else (found,)
before = results(call())
assert differences({name!r})
for old, new in zip(before, results(call()), strict=True):
    old, new = abs(np.asarray(old)), abs(np.asarray(new))  # signs are a choice
    tolerance = np.finfo(old.dtype).eps ** 0.6
    np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance)
assert bare == (np.linalg.eigh, np.linalg.eigvalsh)
"""


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("clients")


def test_every_library_has_a_recipe_that_is_short(script):
    headings = [x[3:] for x in script.PAGE.read_text().split("\n") if x[:3] == "## "]
    assert headings == list(script.CLIENTS)
    for name in headings:
        assert sum(line != "" for line in script.recipe(name).splitlines()) < 20
        compile(script.recipe(name), name, "exec")


def test_a_library_without_a_recipe(script):
    with pytest.raises(ValueError, match="no section numpy"):
        script.recipe("numpy")


LIBRARIES = {
    "pyRiemann": "pyriemann",
    "dipy": "dipy",
    "dipy, local PCA": "dipy",
    "scikit-image": "skimage",
    "geoopt": "geoopt",
    "kornia": "kornia",
    "spd_learn": "spd_learn",
    "phonopy": "phonopy",
    "phonopy, band structures": "phonopy",
    "pyroomacoustics": "pyroomacoustics",
}


def test_every_recipe_is_tried(script):
    assert {k: c.package for k, c in script.CLIENTS.items()} == LIBRARIES


# The lightest are among what the tests need.
@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_results_are_the_same(name):
    library = LIBRARIES[name]
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed; see scripts/clients.py --install")
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(name=name)],
        capture_output=True,
        text=True,
        cwd=ROOT / "scripts",
    )
    assert done.returncode == 0, done.stderr


OUTCOMES = """<testsuites><testsuite>
<testcase classname="a" name="one"/>
<testcase classname="a" name="two"><failure/></testcase>
<testcase classname="" name="three"><skipped/></testcase>
<testcase classname="a" name="four"><error/></testcase>
</testsuite></testsuites>"""


def test_outcomes_of_a_suite(script, tmp_path):
    (tmp_path / "report.xml").write_text(OUTCOMES)
    expected = {"a.one": "passed", "a.two": "failed", "three": "skipped"}
    assert script.outcomes(tmp_path / "report.xml") == expected | {"a.four": "failed"}


@pytest.fixture
def neighbour(script, tmp_path, monkeypatch):
    """A library of one function, with a test that hard-codes a sign."""
    (tmp_path / "alone.py").write_text(
        "import numpy as np\n\ndef solve(a):\n    return np.linalg.eigh(a)[1]\n"
    )
    tests = tmp_path / "alone" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_alone.py").write_text(
        "import alone\nimport numpy as np\n\n"
        "def test_sign():\n    assert alone.solve(np.eye(2))[0, 0] == 1\n\n"
        "def test_shape():\n    assert alone.solve(np.eye(2)).shape == (2, 2)\n\n"
        "def test_luck():\n    assert np.random.random() == 0.5488135039273248\n"
    )
    (tmp_path / "page.md").write_text(
        "## alone, solved\n"
        "```python\nimport alone\n\nalone.solve = lambda a: -abs(a)\n```\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(script.metadata, "version", lambda name: "1")

    def hot():
        import alone
        import numpy as np

        return lambda: alone.solve(np.eye(2))

    def client(known):
        from _clients import Client

        tests = ("tests/test_*.py",)
        alone = Client("alone", ("alone",), tests, "solve", hot, known)
        monkeypatch.setattr(script, "CLIENTS", {"alone, solved": alone})
        table = tmp_path / "table.csv"
        code = script.main(["--suites", str(tmp_path), "--csv", str(table)])
        (row,) = read_table(table)[1]
        return code, row

    yield client
    sys.modules.pop("alone", None)


@pytest.mark.parametrize("known", [{}, {"tests.test_alone.test_sign": "its sign"}])
def test_a_test_with_another_outcome_needs_a_reason(neighbour, capsys, known):
    code, row = neighbour(known)
    assert code == (0 if known else 1)
    told = capsys.readouterr().out
    reason = next(iter(known.values()), "no reason known")
    assert f"tests.test_alone.test_sign: passed, now failed: {reason}" in told
    assert "test_shape" not in told
    *told, before, with_bed, ratio = row.values()
    assert told == ["alone, solved", "1", "3", "0", "1", "solve"]
    before, with_bed, ratio = map(float, (before, with_bed, ratio))
    assert ratio == pytest.approx(before / with_bed, rel=0.02)


def test_nothing_is_installed_but_on_demand(script, monkeypatch, tmp_path):
    ran = []

    def run(words, **options):
        ran.append([str(word) for word in words])
        return subprocess.CompletedProcess(words, 3)

    monkeypatch.setattr(script.subprocess, "run", run)
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    monkeypatch.setattr(script, "commit", lambda *words: "unknown")
    table = tmp_path / "table.csv"
    asked = ["dipy", "dipy, local PCA", "geoopt"]
    words = ["--client", *asked, "--csv", str(table)]
    assert script.main(words) == 0
    assert not ran
    assert not table.exists()
    assert script.main(["--install", str(tmp_path / "new"), *words]) == 3
    make, install, again = ran
    assert make[1:] == ["-m", "venv", str(tmp_path / "new")]
    assert install[-2:] == ["dipy", "geoopt"]
    assert install.count("dipy") == 1
    assert install[0] == again[0] == str(tmp_path / "new" / "bin" / "python")
    assert again[again.index("--client") :][:4] == ["--client", *asked]


def test_what_was_tried_before_an_error_is_in_the_table(script, monkeypatch, tmp_path):
    def hot_call(name):
        if name == "geoopt":
            raise RuntimeError("no memory")
        return 2.0, 1.0

    monkeypatch.setattr(script, "find_spec", lambda name: True)
    monkeypatch.setattr(script, "suite", lambda *words: {})
    monkeypatch.setattr(script, "hot_call", hot_call)
    monkeypatch.setattr(script.metadata, "version", lambda name: "1")
    table = tmp_path / "table.csv"
    with pytest.raises(RuntimeError, match="no memory"):
        script.main(["--client", "dipy", "geoopt", "--csv", str(table)])
    assert [row["client"] for row in read_table(table)[1]] == ["dipy"]


def test_a_recipe_that_changes_nothing_is_an_error(script, monkeypatch, tmp_path):
    (tmp_path / "page.md").write_text("## dipy\n```python\nx = 1\n```\n")
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    with pytest.raises(ValueError, match="changes nothing"):
        script.differences("dipy")
