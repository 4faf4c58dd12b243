"""scripts/applications/so_vit.py, in its smoke size, and killed; its recipe."""

from importlib.util import find_spec

import pytest

from application_runs import killed_and_run_again, module, rows, without_times

torch = pytest.importorskip("torch")
bed_nn = pytest.importorskip("bed.nn")
script = module("so_vit")
mixing = module("_mixing")
pytestmark = pytest.mark.usefixtures("steady_process")


def smoke(folder, *words):
    return ["--smoke", "--out", str(folder), "--every", "1", *words]


def test_smoke(tmp_path, capsys):
    words = smoke(tmp_path, "--solver", "bed", "class_token", "--size", "32")
    assert script.main(words) == 0
    found = rows(tmp_path / "so_vit.csv")
    told = [(row["solver"], row["matrices"], row["epoch"]) for row in found]
    assert told == [
        *(("bed", "16×32×32", epoch) for epoch in "123"),
        *(("class_token", "", epoch) for epoch in "123"),
    ]
    assert all(0 <= float(row["test_error"]) <= 100 for row in found)
    assert {row["skipped"] for row in found} == {"0"}
    assert all(float(row["root_ms"]) > 0 for row in found[:3])
    assert all(row["root_ms"] == "" for row in found[3:])
    assert float(found[2]["loss"]) < float(found[0]["loss"])
    if find_spec("matplotlib"):
        assert (tmp_path / "so_vit.png").read_bytes()[1:4] == b"PNG"
    assert "bed-32-0" in capsys.readouterr().out


def test_without_pooling_alone(tmp_path):
    assert script.main(smoke(tmp_path, "--solver", "class_token")) == 0
    assert len(rows(tmp_path / "so_vit.csv")) == 3
    if find_spec("matplotlib"):
        assert (tmp_path / "so_vit.png").exists()


@pytest.mark.slow
def test_solvers_train_the_same_network(tmp_path):
    assert script.main(smoke(tmp_path)) == 0
    found = [row for row in rows(tmp_path / "so_vit.csv") if row["epoch"] == "3"]
    last = {(row["solver"], row["matrices"]): float(row["loss"]) for row in found}
    assert len(last) == 2 * len(script.SOLVERS) + 3
    for size in 32, 36:
        shape = f"16×{size}×{size}"
        for solver in script.SOLVERS:
            assert last[solver, shape] == pytest.approx(last["bed", shape], rel=1e-3)


@pytest.mark.slow
def test_killed_and_run_again(tmp_path):
    words = ["--smoke", "--every", "1", "--solver", "bed", "--size", "32"]
    killed_and_run_again(
        "so_vit", tmp_path, words, lambda x: [*x.glob("runs/*.checkpoint")]
    )
    killed, steady = (tmp_path / x / "so_vit.csv" for x in ("killed", "steady"))
    assert without_times(killed) == without_times(steady)


def test_plan_on_paper_is_so_vit_7():
    options = script.parse([])
    assert [run.name for run in script.runs(options)] == ["bed-32-0", "bed-36-0"]
    trunk = script.Trunk(options.embed, options.layers, script.HEADS)
    assert (len(trunk.layers), trunk.position.shape) == (7, (1, 65, 256))
    drops = [layer.attention[-1].probability for layer in trunk.layers]
    assert drops == pytest.approx([0.1 * i / 6 for i in range(7)])


def test_reduced_plan_has_every_solver_at_both_sizes():
    names = [run.name for run in script.runs(script.parse(["--plan", "reduced"]))]
    assert len(names) == len(set(names)) == 2 * (len(script.SOLVERS) + 1) + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [("--embed 30", "no multiple of 4 heads"), ("--warmup -1", "-1 is not positive"),
     ("--size 0", "0 is not positive")],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(words, message, capsys):
    with pytest.raises(SystemExit):
        script.parse(words.split())
    assert message in capsys.readouterr().err
    assert script.parse(["--warmup", "0"]).warmup == 0


@pytest.mark.parametrize("solver", script.SOLVERS)
def test_heads_are_the_layer_of_the_library(solver):
    run, clock = script.Run(solver, 6, 0), script.Clock()
    head = script.pooling(run, 8, 1, clock)
    layer = bed_nn.CovariancePooling(8, reduction=6, warmup_steps=1)
    layer.load_state_dict(head.state_dict())
    for step in range(3):
        x = torch.randn(4, 8, 20)
        torch.testing.assert_close(head(x), layer(x), rtol=1e-4, atol=1e-4)
        assert len(clock.seconds) == step  # the first is by Newton–Schulz


def test_newton_schulz_all_along():
    clock = script.Clock()
    head = script.pooling(script.Run("newton_schulz", 6, 0), 8, 1, clock)
    layer = bed_nn.CovariancePooling(8, reduction=6, root="newton_schulz")
    layer.load_state_dict(head.state_dict())
    for _ in range(2):
        x = torch.randn(4, 8, 20)
        torch.testing.assert_close(head(x), layer(x))
    assert len(clock.seconds) == 2


def test_the_floor_is_that_of_bed():
    s = torch.diag(torch.tensor([1.0, 0.5, 0.0])).expand(1, 3, 3)
    expected = script.square_root("bed")(s)
    assert expected[0, 2, 2] > 1e-4
    for solver in "torch_eigh", "torch_svd":
        torch.testing.assert_close(script.square_root(solver)(s), expected)
    assert script.lifted_sqrt(torch.tensor([-1e-7, 1.0])).isfinite().all()


def test_a_gradient_that_is_not_finite_is_skipped_and_counted():
    p = torch.nn.Parameter(torch.ones(2, 2))
    adam = script.Guarded(script.weights(torch.nn.ParameterList([p])))
    p.grad = torch.tensor([[1.0, float("nan")], [1, 1]])
    adam.step()
    assert adam.skipped == 1 and (p == 1).all()
    again = script.Guarded(script.weights(torch.nn.ParameterList([p])))
    again.load_state_dict(adam.state_dict())
    p.grad = torch.ones(2, 2)
    again.step()
    assert again.skipped == 1 and (p < 1).all()


def test_schedule():
    rate = script.schedule(10, 30)
    assert [rate(0), rate(9), rate(10)] == pytest.approx([1e-4, 1e-3, 1e-3])
    assert rate(20) == pytest.approx(5e-4) and rate(29) < 1e-5


def test_biases_and_scales_do_not_decay():
    trunk = script.Trunk(16, 1, 4)
    decayed, free = script.weights(trunk)
    assert len([*decayed["params"], *free["params"]]) == len([*trunk.parameters()])
    assert all(p.dim() > 1 for p in decayed["params"])
    assert all(p.dim() == 1 for p in free["params"]) and free["weight_decay"] == 0


def test_mixed_pictures_have_the_classes_of_what_they_show():
    """Pictures of a constant for each class: the mean says what is in them."""
    y = torch.tensor([0, 1, 2, 3])
    x = y.float().reshape(4, 1, 1, 1).expand(4, 3, 8, 8)
    pasted = set()
    for _ in range(40):
        found, targets = mixing.mixed(x, y, 4)
        torch.testing.assert_close(targets.sum(1), torch.ones(4))
        shown = found.mean((1, 2, 3))
        torch.testing.assert_close(targets @ torch.arange(4.0), shown)
        pasted.add(len(found[0].unique()) > 1)
    assert pasted == {False, True}
    assert x[3].unique() == 3


def test_paths_are_dropped_for_whole_images_in_training():
    drop = module("_transformer").DropPath(0.5)
    x = torch.ones(64, 3, 2)
    y = drop(x)
    assert set(y[:, 0, 0].tolist()) == {0.0, 2.0}
    assert (y == y[:, :1, :1]).all()
    assert drop.eval()(x) is x
