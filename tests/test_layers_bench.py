"""scripts/layers_bench.py prints its table; how long anything takes is not tested."""

import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parents[1] / "scripts"))


@pytest.fixture
def script():
    module = importlib.import_module("layers_bench")
    before = torch.get_num_threads(), torch.random.get_rng_state()
    yield module
    torch.set_num_threads(before[0])
    torch.random.set_rng_state(before[1])


@pytest.mark.parametrize(("limit", "code"), [("1e9", 0), ("1e-9", 1)])
def test_table(script, capsys, limit, code):
    arguments = ["--shape", "4", "64", "3", "3", "--rounds", "2", "--limit", limit]
    assert script.main(arguments) == code
    _, what, heads, *rows, verdict = capsys.readouterr().out.splitlines()
    assert "float32 (4, 64, 3, 3)" in what
    assert heads.split() == ["groups", "bed", "share", "eigh", "svd", "ratio"]
    assert [row[:10].rstrip() for row in rows] == ["16 × 4", "8 × 8", "4 × 16"]
    for row in rows:
        assert all(float(x.rstrip("%")) > 0 for x in row[10:].split())
    assert verdict.endswith("EXCEEDED" if code else "kept")


def test_layers_are_the_same_but_for_the_root(script):
    x = torch.randn(40, 8, 3, 3, dtype=torch.float64)
    s = torch.cov(x.movedim(1, 0).reshape(8, -1))
    exact = script.inverse_root(s)
    for root in (script.by_eigh, script.by_svd):
        assert (root(s) - exact).abs().max() < 1e-12
