"""The loop that applications share: killed anywhere, it ends as if it never was."""

import random
import sys

import numpy as np
import pytest

from application_runs import module

torch = pytest.importorskip("torch")
data, loop, report, kept, files = (
    module(name) for name in ("_data", "_train", "_report", "_checkpoint", "_files")
)


@pytest.fixture(autouse=True)
def steady():
    """Random states of the process are left as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


class Killed(Exception):
    """In place of a signal."""


def trained(path, seed=0, killed_at=None, factor=1.0, made=None):
    """Rows of a training of 3 × 6 steps in which every generator is drawn from.

    Steps that were made are appended to a list.
    """
    made = [] if made is None else made
    kept.set_seeds(seed)
    images = data.generated(24, 16)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3072, 10), torch.nn.Dropout()
    )

    def loss(x, y):
        if len(made) == killed_at:
            raise Killed
        made.append(x)
        if factor != factor:
            torch.linalg.svd(torch.full((4, 4), factor))
        noise = random.random() + np.random.rand()
        return factor * torch.nn.functional.cross_entropy(model(x / 255 + noise), y)

    def test():
        assert all(x.isfinite().all() for x in model.parameters())
        return {"test_error": loop.error_rate(model, images.test, lambda x: x / 255, 5)}

    training = loop.Training(
        model,
        torch.optim.SGD(model.parameters(), momentum=0.9),
        data.Batches(images.train, 4, seed),
        loss,
        lambda step: 0.01 / (1 + step),
        test,
    )
    checkpoint = kept.Checkpoint(path, {"seed": seed, "factor": factor})
    rows = loop.fit(training, 3, checkpoint, every=2)
    return [{k: x for k, x in row.items() if k not in loop.TIMES} for row in rows]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("killed_at", [1, 5, 6, 7, 11, 17])
def test_killed_and_run_again(tmp_path, killed_at):
    expected = trained(tmp_path / "steady")
    assert [row["epoch"] for row in expected] == [1, 2, 3]
    with pytest.raises(Killed):
        trained(tmp_path / "killed", killed_at=killed_at)
    again, never = [], []
    assert trained(tmp_path / "killed", made=again) == expected
    assert len(again) == 18 - killed_at // 2 * 2
    assert trained(tmp_path / "killed", made=never) == expected
    assert not never
    assert trained(tmp_path / "other", seed=1) != expected


@pytest.mark.parametrize("factor", [float("inf"), float("nan")])
def test_a_loss_that_is_not_finite_ends_a_training(tmp_path, factor):
    """It is not tested: decompositions of torch raise where a matrix is NaN."""
    rows = trained(tmp_path / "file", factor=factor)
    assert len(rows) == 1
    assert np.isnan(rows[0]["test_error"]) and not np.isfinite(rows[0]["loss"])


def test_checkpoints_of_others_are_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(Killed):
        trained(path, killed_at=4)
    with pytest.raises(SystemExit, match=r"factor 1\.0 and not 2\.0: pass another"):
        trained(path, factor=2.0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(SystemExit, match="is damaged, or no checkpoint"):
        trained(path)
    path.write_bytes(b"")
    with pytest.raises(SystemExit, match="is damaged, or no checkpoint"):
        trained(path)


def test_files_are_whole(tmp_path):
    path = tmp_path / "folder" / "file"
    with files.whole(path) as unfinished:
        unfinished.write_text("before")
    with pytest.raises(Killed), files.whole(path) as unfinished:
        unfinished.write_text("half")
        raise Killed
    assert path.read_text() == "before"
    assert list(path.parent.iterdir()) == [path]


def test_clock_keeps_the_times_of_passes():
    clock = loop.Clock()
    assert clock.milliseconds() == ""
    assert [clock.time(lambda x: -x, i) for i in range(3)] == [0, -1, -2]
    again = loop.Clock()
    again.load_state_dict(clock.state_dict())
    assert len(again.seconds) == 3
    assert again.milliseconds() == 1e3 * sorted(clock.seconds)[1] > 0
    assert again.milliseconds() == ""


def test_bars(monkeypatch):
    """With tqdm and without."""
    assert list(loop.bar([1, 2], "title")) == [1, 2]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    shown = []
    monkeypatch.setattr(loop, "progress", shown.append)
    assert list(loop.bar([1, 2], "title")) == [1, 2]
    assert shown == ["title: 1 of 2", "title: 2 of 2", ""]


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = loop.argument_parser("name", "text").parse_args(["--device", "cuda:0"])
    with pytest.raises(SystemExit, match="--device cuda:0: torch finds no CUDA device"):
        loop.prepare(options)


@pytest.mark.parametrize("option", ["--epochs", "--batch", "--every"])
def test_numbers_are_positive(option, capsys):
    with pytest.raises(SystemExit):
        loop.argument_parser("name", "text").parse_args([option, "0"])
    assert f"{option}: 0 is not positive" in capsys.readouterr().err


def test_table_of_rows_that_differ(tmp_path):
    path = tmp_path / "file.csv"
    report.table(path, ["machine"], [{"a": 1.0}, {"a": 2.0, "b": 3}])
    assert path.read_text() == "# machine\na,b\n1,\n2,3\n"


def test_without_matplotlib_there_are_no_curves(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    report.curves(tmp_path / "file.png", {}, "y", "")
    assert "pip install matplotlib" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
