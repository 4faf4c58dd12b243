"""``python -m bed``, and the examples in docstrings."""

import csv
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import bed
from bed.__main__ import main
from bed.cli import bench, demo


def test_info(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"bed {bed.__version__}" in text
    for name in (
        "numba_cpu",
        "lapack",
        "cusolver",
        "reference",
        f"numpy {np.__version__}",
    ):
        assert name in text


def test_demo_checks_every_array_and_draws(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    out = tmp_path / "demo.png"
    assert main(["demo", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert out.read_bytes().startswith(b"\x89PNG")
    for name in ("dti", "phonon_n42", "vgg_n64", "structure_n2", "vowels_n12"):
        assert name in text
    assert "within the 8 n·eps" in text


def test_demo_fails_when_a_result_is_wrong(tmp_path, capsys, monkeypatch):
    original = bed.eigh

    def wrong(a, **keywords):
        w, v = original(a, **keywords)
        return bed.EighResult(w + 1e-4 * abs(a).max(), v)

    monkeypatch.setattr(demo.bed, "eigh", wrong)
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    monkeypatch.setattr(demo, "_draw", lambda rows, out: None)
    assert main(["demo", "--out", str(tmp_path / "demo.png")]) == 1
    assert "ABOVE the 8 n·eps" in capsys.readouterr().out


@pytest.mark.parametrize(
    "extra", [[], ["--values-only"], ["--driver", "lapack"], ["--torch"]]
)
def test_bench(capsys, monkeypatch, tmp_path, extra):
    if "--torch" in extra:
        pytest.importorskip("torch")
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    table = tmp_path / "table.csv"
    arguments = ["bench", "--n", "2", "5", "--batch", "20", "--dtype", "float16"]
    arguments += ["complex128", "--device", "cpu", "--csv", str(table)]
    assert main([*arguments, *extra]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 + 4
    assert lines[3].split()[:3] == ["float32", "2", "20"]
    comments, rows = table.read_text().splitlines()[:2], table.read_text().split("\n")
    assert all(line.startswith("# ") for line in comments)
    found = list(csv.DictReader(rows[2:]))
    assert [(row["dtype"], row["n"]) for row in found] == [
        (dtype, n) for dtype in ("float32", "complex128") for n in "25"
    ]
    for row in found:
        assert float(row["bed_ms"]) > 0 < float(row["numpy_ms"])
        assert (float(row["torch_ms"]) > 0) == ("--torch" in extra)


def test_bench_checks_before_it_times(monkeypatch):
    wrong = bed.EighResult(np.zeros((9, 2)), np.zeros((9, 2, 2)))
    monkeypatch.setattr(bench.bed, "eigh", lambda a, **_: wrong)
    with pytest.raises(SystemExit, match="wrong result for float64, n = 2"):
        main(["bench", "--n", "2", "--batch", "9", "--dtype", "float64"])


def _modules():
    for module in pkgutil.walk_packages(bed.__path__, "bed."):
        if not re.search(
            r"\.(cusolver|raw_cuda|numba_cuda)", module.name
        ) and not module.name.endswith("__main__"):
            yield module.name


@pytest.mark.parametrize("name", ["bed", *_modules()])
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_example_of_the_readme(capsys):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S)[1]
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["w"].shape == (100_000, 8)
    assert (names["status"] == 0).all()
    whitened = names["whiten"] @ names["a"] @ names["whiten"]
    np.testing.assert_allclose(
        whitened[:100], np.tile(np.eye(8), (100, 1, 1)), atol=1e-8
    )
    assert "engine numba_cpu" in capsys.readouterr().out


def test_public_functions_have_examples():
    for name in ("eigh", "eigvalsh", "explain", "warmup", "show_config"):
        assert ">>>" in getattr(bed, name).__doc__
