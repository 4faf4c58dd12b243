"""scripts/applications/decorrelated_bn.py, in its smoke size, and killed."""

from importlib.util import find_spec

import pytest

from application_runs import killed_and_run_again, module, rows, without_times
from bed.cli._table import read_table

torch = pytest.importorskip("torch")
script = module("decorrelated_bn")
pytestmark = pytest.mark.usefixtures("steady_process")


def smoke(folder, *words):
    return ["--smoke", "--out", str(folder), "--every", "1", *words]


def test_smoke(tmp_path, capsys):
    assert script.main(smoke(tmp_path, "--solver", "bed", "batchnorm")) == 0
    above, found = read_table(tmp_path / "decorrelated_bn.csv")
    told = [(row["solver"], row["groups"], row["epoch"]) for row in found]
    assert told == [
        *(("bed", "8×8×8", epoch) for epoch in "12"),
        *(("batchnorm", "", epoch) for epoch in "12"),
    ]
    assert all(0 <= float(row["test_error"]) <= 100 for row in found)
    assert all(row["data"] == "generated" for row in found)
    assert all(float(row["root_ms"]) > 0 for row in found[:2])
    assert "torch" in above[0] and "commit" in above[1]
    assert "width 2" in above[2] and "48 + 32 pictures" in above[2]
    if find_spec("matplotlib"):
        assert (tmp_path / "decorrelated_bn.png").read_bytes()[1:4] == b"PNG"
    assert "bed-exact-8-0" in capsys.readouterr().out


@pytest.mark.slow
def test_solvers_train_the_same_network(tmp_path):
    assert script.main(smoke(tmp_path)) == 0
    found = rows(tmp_path / "decorrelated_bn.csv")
    first = {r["solver"]: float(r["loss"]) for r in found if r["epoch"] == "1"}
    assert set(first) == {*script.SOLVERS, "batchnorm"}
    for solver in script.SOLVERS:
        assert first[solver] == pytest.approx(first["bed"], rel=1e-3)
    assert first["batchnorm"] != first["bed"]


@pytest.mark.slow
def test_killed_and_run_again(tmp_path):
    words = ["--smoke", "--every", "1", "--solver", "bed", "--epochs", "4"]
    killed_and_run_again(
        "decorrelated_bn", tmp_path, words, lambda x: [*x.glob("runs/*.checkpoint")]
    )
    killed, steady = (
        tmp_path / x / "decorrelated_bn.csv" for x in ("killed", "steady")
    )
    assert without_times(killed) == without_times(steady)


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
