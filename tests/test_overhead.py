"""scripts/overhead.py prints its table; how long anything takes is not tested."""

import numpy as np
import pytest

from bed.cli._table import read_table
from loaded_script import load_script


@pytest.fixture
def script():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    return load_script("overhead")


QUICK = ["--calls", "2", "--n", "4", "--batch", "2"]


def test_tables(script, capsys, tmp_path):
    limits = ["--limit", "1e9", "--limit-numpy", "1e9"]
    assert script.main([*QUICK, *limits, "--csv", str(tmp_path / "x.csv")]) == 0
    text = capsys.readouterr().out
    whole, pieces, single, verdicts = (part.splitlines() for part in text.split("\n\n"))
    machine, what, heads, *rows = whole
    assert f"numpy {np.__version__}" in machine
    assert "float32 (2, 4, 4); engine numba_cpu" in what
    assert heads.split() == ["array", "bed.eigh", "engine", "overhead"]
    names = [row[:24].rstrip() for row in rows]
    assert names == ["numpy", "torch", "torch, requires_grad", "jax"]
    for row in rows:
        ours, engine, overhead = map(float, row[24:].split())
        assert engine > 0
        assert overhead == pytest.approx(ours - engine, abs=0.02)
    assert pieces[0].split()[-2:] == ["numpy", "torch"]
    assert {row[:24].rstrip() for row in pieces} > {"receive", "allocate", "the engine"}
    for row in single[1:]:
        ours, checked, numpys, ratio = map(float, row[24:].split())
        assert checked > 0
        assert ratio == pytest.approx(numpys / ours, rel=0.02)
    assert single[1].startswith("eigvalsh, one 2")
    kept = read_table(tmp_path / "x.csv")[1]
    assert [f"{row['function']}, one {row['n']} × {row['n']}" for row in kept] == [
        row[:24].rstrip() for row in single[1:]
    ]
    assert float(kept[-1]["bed_us"]) == pytest.approx(ours, rel=0.02)
    assert verdicts == [
        "limit of 1e+09 µs for numpy: kept",
        "limit of 1e+09 µs for torch: kept",
    ]


@pytest.mark.parametrize("option, name", [("-numpy", "numpy"), ("", "torch")])
def test_a_limit_that_is_passed_is_an_error(script, capsys, option, name):
    limits = ["--limit", "1e9", "--limit-numpy", "1e9"]
    assert script.main([*QUICK, *limits, f"--limit{option}=-1e9"]) == 1
    assert f"µs for {name}: EXCEEDED" in capsys.readouterr().out


def test_a_library_that_is_not_there_has_no_limit(script, capsys, monkeypatch):
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    assert script.main([*QUICK, "--limit-numpy", "1e9"]) == 0
    assert "not checked, torch is not installed" in capsys.readouterr().out


def test_the_engine_solves_the_memory_of_the_array(script, rng):
    a = rng.standard_normal((2, 3, 3))
    for name, wrap in script.wraps().items():
        x = wrap(a.astype("f4"))
        ours, bare = script.calls(x)
        w, v, status = bare()
        assert not status.any()
        for one, other in zip(ours(), (w, v), strict=True):
            one = one.detach() if hasattr(one, "detach") else one
            np.testing.assert_array_equal(np.asarray(one), other, err_msg=name)
