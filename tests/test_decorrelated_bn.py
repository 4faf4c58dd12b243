"""scripts/applications/decorrelated_bn.py, in its smoke size, and killed."""

import csv
import importlib
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[1] / "scripts" / "applications" / "decorrelated_bn.py"
sys.path.append(str(SCRIPT.parent))
script = importlib.import_module("decorrelated_bn")
TIMES = importlib.import_module("_train").TIMES


@pytest.fixture(autouse=True)
def steady(monkeypatch):
    """Threads and random states of the process are left as they were."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    before = torch.get_num_threads(), torch.random.get_rng_state()
    yield
    torch.set_num_threads(before[0])
    torch.random.set_rng_state(before[1])


def smoke(folder, *words):
    return ["--smoke", "--out", str(folder), "--every", "1", *words]


def rows(folder):
    """Of the table in a folder, and its comments."""
    lines = (folder / "decorrelated_bn.csv").read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    return list(csv.DictReader(lines[len(comments) :])), comments


def without_times(folder):
    found, _ = rows(folder)
    return [{k: x for k, x in row.items() if k not in TIMES} for row in found]


def test_smoke(tmp_path, capsys):
    assert script.main(smoke(tmp_path, "--solver", "bed", "batchnorm")) == 0
    found, comments = rows(tmp_path)
    told = [(row["solver"], row["groups"], row["epoch"]) for row in found]
    assert told == [
        *(("bed", "8×8×8", epoch) for epoch in "12"),
        *(("batchnorm", "", epoch) for epoch in "12"),
    ]
    assert all(0 <= float(row["test_error"]) <= 100 for row in found)
    assert all(row["data"] == "generated" for row in found)
    assert all(float(row["root_ms"]) > 0 for row in found[:2])
    assert "torch" in comments[0] and "commit" in comments[1]
    assert "width 2" in comments[2] and "48 + 32 pictures" in comments[2]
    if find_spec("matplotlib"):
        assert (tmp_path / "decorrelated_bn.png").read_bytes()[1:4] == b"PNG"
    assert "bed-exact-8-0" in capsys.readouterr().out


@pytest.mark.slow
def test_solvers_train_the_same_network(tmp_path):
    assert script.main(smoke(tmp_path)) == 0
    found, _ = rows(tmp_path)
    first = {r["solver"]: float(r["loss"]) for r in found if r["epoch"] == "1"}
    assert set(first) == {*script.SOLVERS, "batchnorm"}
    for solver in script.SOLVERS:
        assert first[solver] == pytest.approx(first["bed"], rel=1e-3)
    assert first["batchnorm"] != first["bed"]


@pytest.mark.slow
def test_killed_and_run_again(tmp_path):
    def start(folder):
        words = smoke(tmp_path / folder, "--solver", "bed", "--epochs", "4")
        root = str(SCRIPT.parents[2])
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), *words],
            env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
        )

    assert start("steady").wait(120) == 0
    with start("killed") as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("killed/runs/*.checkpoint")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    assert not (tmp_path / "killed" / "decorrelated_bn.csv").exists()
    assert start("killed").wait(120) == 0
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "steady")


def test_runs_of_the_comparison():
    options = script.parse(["--plan", "reduced"])
    found = list(script.runs(options))
    assert len(found) == len({run.name for run in found}) == 24
    of = {
        solver: [run for run in found if run.solver == solver]
        for solver in (*script.SOLVERS, "batchnorm")
    }
    exact = [run for run in of["bed"] if run.gradient == "exact"]
    assert {run.seed for run in exact} == {0, 1, 2} and len(exact) == 9
    assert len(of["bed"]) - len(exact) == len(of["torch_svd"]) == 3
    assert {run.seed for run in of["batchnorm"]} == {0, 1, 2}
    assert (options.epochs, options.width) == (7, 8)

    words = "--plan", "reduced", "--solver", "bed", "--gradient", "taylor"
    some = [run.groups for run in script.runs(script.parse([*words, "--groups", "4"]))]
    assert some == [4]


def test_solvers_of_torch_have_their_own_gradient(tmp_path):
    words = smoke(tmp_path, "--solver", "torch_svd", "--gradient", "taylor")
    with pytest.raises(SystemExit, match="torch_svd has exact gradients alone"):
        script.main(words)


def test_network_has_the_layer_that_the_literature_has():
    """A stem of 64 channels in full resolution, and 11.2 million parameters."""
    run = script.Run("bed", "exact", 16, 0)
    clock = script.Clock()
    model = script.network(64, script.first_layer(run, 1e-2, clock))
    assert model[1].num_groups == 16 and model[1].group_size == 4
    assert sum(x.numel() for x in model.parameters()) == 11_173_962
    seen = []
    model[1].register_forward_hook(lambda layer, x, y: seen.append(y.shape))
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert seen == [(2, 64, 32, 32)]
    assert len(clock.seconds) == 1
