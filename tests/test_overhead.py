"""scripts/overhead.py prints its table; how long anything takes is not tested."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "overhead.py"


@pytest.fixture
def script():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    spec = importlib.util.spec_from_file_location("overhead", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_has_a_row_for_every_array(script, capsys):
    assert script.main(["--calls", "5", "--n", "4", "--limit", "1e9"]) == 0
    machine, what, heads, *rows, verdict = capsys.readouterr().out.splitlines()
    assert f"numpy {np.__version__}" in machine
    assert "float32 (2, 4, 4); engine numba_cpu" in what
    assert heads.split() == ["array", "bed.eigh", "engine", "overhead"]
    names = [row[:24].rstrip() for row in rows]
    assert names == ["numpy", "torch", "torch, requires_grad", "jax"]
    for row in rows:
        ours, engine, overhead = map(float, row[24:].split())
        assert ours > engine > 0
        assert overhead == pytest.approx(ours - engine, abs=0.11)
    assert verdict == "limit of 1e+09 µs for torch: kept"


def test_a_limit_that_is_passed_is_an_error(script, capsys):
    assert script.main(["--calls", "5", "--limit", "0.01"]) == 1
    assert "limit of 0.01 µs for torch: EXCEEDED" in capsys.readouterr().out


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
