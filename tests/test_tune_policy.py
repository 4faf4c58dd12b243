"""scripts/tune_policy.py measures engines and writes the table that bed reads."""

import json

import numpy as np
import pytest

from bed import engines
from bed._dispatch import policy
from loaded_script import load_script


@pytest.fixture
def tune_policy(monkeypatch):
    module = load_script("tune_policy")
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


def test_a_report_of_a_gpu_makes_a_table(tune_policy, tmp_path, monkeypatch):
    """Fused kernels where they are faster, and no engine that is slow alone."""

    def cell(n, batch, ours, theirs, dtype="float32", vectors=True):
        peers = {"cupy": {"ms": theirs} if theirs else {"note": "fails"}}
        return {"dtype": dtype, "n": n, "batch": batch, "vectors": vectors,
                "engine_ms": ours, "peers": peers}  # fmt: skip

    def beyond(n, ours, theirs):
        return {"dtype": "float32", "n": n, "batch": 4096, "numba_cuda_ms": ours,
                "cusolver_ms": theirs}  # fmt: skip

    report = {
        "date": "2030-01-02",
        "environment": {"device": "GPU 1", "cupy": "14.2", "numba-cuda": "0.30"},
        "timings": [
            cell(4, 1, 0.2, 0.4), cell(4, 1024, 1.0, 30.0), cell(8, 1024, 1.0, 2.5),
            cell(64, 1, 3.0, 1.0), cell(64, 1024, 1.0, 1.5), cell(48, 1024, 1.0, None),
            cell(4, 1024, 1.0, 4.0, vectors=False), cell(4, 64, 2.0, 1.0, "float64"),
        ],
        "parts": [
            {"name": "compile", "data": {"kernels": 3}},
            {"name": "numba_times", "data": {"cells": [
                beyond(96, 1.0, 2.0), beyond(128, 3.0, 1.5),
                {"dtype": "float32", "n": 112, "batch": 4, "cusolver_ms": 1.0},
            ]}},
        ],
    }  # fmt: skip
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    words = ["--report", str(path), "--output", str(tmp_path / "table.json")]
    with pytest.raises(SystemExit):
        tune_policy.main(words)
    tune_policy.main(["--device", "cuda", *words])
    table = json.loads((tmp_path / "table.json").read_text())
    expected = "GPU 1; cupy 14.2, numba-cuda 0.30; 2030-01-02; "
    assert table["cuda"]["measured"].startswith(expected)
    assert table["cpu"] == json.loads(tune_policy.TABLE.read_text())["cpu"]
    assert [policy.Row(**row) for row in table["cuda"]["rows"]] == [
        policy.Row("float32", True, 8, "raw_cuda", {"4": 30.0, "8": 2.5}),
        policy.Row("float32", True, 64, "cusolver", {"64": 0.67}),
        policy.Row("float32", True, 96, "numba_cuda", {"96": 2.0}),
        policy.Row("float32", True, 128, "cusolver", {"128": 2.0}),
        policy.Row("float32", False, 4, "raw_cuda", {"4": 4.0}),
        policy.Row("float64", True, 4, "cusolver", {"4": 2.0}),
        policy.Row("any", None, 64, "raw_cuda", {}),
        policy.Row("any", None, None, "cusolver", {}),
    ]


WHOLE = {"date": "2030-01-02", "environment": {}, "parts": [], "timings": []}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "cannot be read"), ('{"date": "20', "cannot be read"), ("\0", "cannot be"),
     ("[]", "is no report"), ('{"date": "2030-01-02"}', "is no report"),
     (json.dumps(WHOLE | {"smoke": True}), "is of a smoke test"),
     (json.dumps(WHOLE | {"timings": [{"peers": {}}]}), "has no times")],
)  # fmt: skip
def test_what_is_no_report_of_times_is_a_sentence(
    tune_policy, tmp_path, text, sentence
):
    path, output = tmp_path / "report.json", tmp_path / "table.json"
    if text is not None:
        path.write_text(text)
    words = ["--device", "cuda", "--report", str(path), "--output", str(output)]
    with pytest.raises(SystemExit, match=sentence):
        tune_policy.main(words)
    assert not output.exists()
