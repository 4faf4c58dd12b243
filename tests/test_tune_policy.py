"""scripts/tune_policy.py measures engines and writes the table that bed reads."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bed import engines
from bed._dispatch import policy


@pytest.fixture
def tune_policy(monkeypatch):
    path = Path(__file__).parents[1] / "scripts" / "tune_policy.py"
    spec = importlib.util.spec_from_file_location("tune_policy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LARGEST_BATCH", 2)
    monkeypatch.setattr(module, "SMALLEST_BATCH", 1)
    monkeypatch.setattr(module, "ROUNDS", 1)
    return module


def test_a_table_that_is_written_is_read(tune_policy, tmp_path, monkeypatch):
    before = policy.table()
    path = tmp_path / "table.json"

    def measured(candidates, n, dtype, device, eigenvectors):
        assert {engine.name for engine in candidates} >= {"numba_cpu", "lapack"}
        return ("numba_cpu", 2.0) if n < 5 else ("lapack", 1.25)

    monkeypatch.setattr(tune_policy, "fastest", measured)
    tune_policy.main(["--n", "2", "4", "8", "--output", str(path)])
    monkeypatch.setattr(policy, "files", lambda package: tmp_path)
    path.rename(tmp_path / "table.json")
    policy.table.cache_clear()
    after = policy.table()
    monkeypatch.undo()
    policy.table.cache_clear()
    assert after["cuda"] == before["cuda"]
    assert "tune_policy.py" in after["cpu"]["measured"]
    rows = [row for row in after["cpu"]["rows"] if row.dtype == "float64"]
    assert after["cpu"]["rows"][-1] == policy.Row("any", None, None, "lapack", {})
    assert rows == [
        policy.Row("float64", wanted, largest, engine, speedups)
        for wanted in (True, False)
        for largest, engine, speedups in (
            (4, "numba_cpu", {"2": 2.0, "4": 2.0}),
            (8, "lapack", {"8": 1.25}),
        )
    ]


def test_every_engine_that_takes_the_size_is_measured(tune_policy):
    small = engines.Engine("numba_cpu", ("cpu",), "test", max_n=4)
    lapack = engines.get("lapack")
    single = np.dtype("f4")
    name, ratio = tune_policy.fastest([small, lapack], 4, single, "cpu", True)
    assert name in ("numba_cpu", "lapack")
    assert 0 < ratio < np.inf
    alone = tune_policy.fastest([small, lapack], 5, single, "cpu", True)
    assert alone == ("lapack", np.inf)


def test_an_engine_that_is_slow_alone_is_not_chosen(tune_policy, monkeypatch):
    seconds = {"numba_cpu": {2: 1.0, 1: 3.0}, "lapack": {2: 1.5, 1: 1.0}}
    monkeypatch.setattr(
        tune_policy,
        "times",
        lambda taking, a, *_: {e.name: seconds[e.name][len(a)] for e in taking},
    )
    both = [engines.get(name) for name in seconds]
    arguments = both, 4, np.dtype("f4"), "cpu", True
    assert tune_policy.fastest(*arguments) == ("lapack", 1 / 1.5)
    seconds["numba_cpu"][1] = 2.2
    assert tune_policy.fastest(*arguments) == ("numba_cpu", 1.5)
