"""The paper measured again: its iteration to the letter, tables, and verdicts."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
PAPER = SCRIPTS / "paper"
sys.path += [str(SCRIPTS), str(PAPER)]
reproduce = importlib.import_module("reproduce")
harness = importlib.import_module("_harness")
iteration = importlib.import_module("_printed")


def options(folder, *words):
    return harness.parse("", ["--smoke", "--out", str(folder), *words])


def test_the_printed_iteration_diagonalises(rng):
    a = iteration.wishart(rng, (5, 8, 8), "f8")
    found = iteration.printed(a, 1e-12, vectors=True)
    assert abs(a @ found.v - found.v * found.w[:, None, :]).max() < 1e-10
    assert abs(found.w - np.linalg.eigvalsh(a)).max() < 1e-10
    assert found.sizes == sorted(found.sizes, reverse=True)
    assert found.sizes[0] == 8 and found.sizes[-1] == 2
    assert len(found.history) == len(found.sizes)


def test_passes_end_it_and_one_shift_needs_fewer(rng):
    a = iteration.wishart(rng, (64, 8, 8))
    assert len(iteration.printed(a, passes=3).sizes) == 6
    pair, one = (len(iteration.printed(a, shifts=s).sizes) for s in ("pair", "one"))
    assert one < pair
    assert len(iteration.printed(a, shifts="none", passes=8).sizes) == 16


def test_a_pass_has_both_shifts_of_one_matrix():
    """Exact shifts of [[2, 1], [1, 2]], beside a third row, part it at once."""
    a = np.array([[[2.0, 1, 0], [1, 2, 0], [0, 0, 5]]])[:, ::-1, ::-1]
    found = iteration.printed(a, 1e-12)
    assert found.sizes == [3, 2]
    assert abs(found.w - [1, 3, 5]).max() < 1e-14


def test_tables_are_resumed_if_they_are_of_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "commit", lambda: "0123abc")
    calls = []

    def measure(options):
        for i in range(2):
            calls.append(i)
            yield {"n": i, "ms": 0.125} if i else {"n": i, "name": "a"}

    def killed(options):
        yield from measure(options)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.result("x", killed, options(tmp_path))
    assert not (tmp_path / "x.csv").exists()
    rows = harness.result("x", measure, options(tmp_path), resume=True)
    assert rows == [{"n": 0, "name": "a", "ms": ""}, {"n": 1, "name": "", "ms": 0.125}]
    assert harness.result("x", measure, options(tmp_path), resume=True) == rows
    assert calls == [0, 1] * 2
    harness.result("x", measure, options(tmp_path, "--seed", "1"), resume=True)
    harness.result("x", measure, options(tmp_path), resume=False)
    assert calls == [0, 1] * 4
    told = "\n".join(harness.comments(tmp_path / "x.csv"))
    for text in ("numpy", "commit 0123abc", "paper/x.py --smoke --seed 0", "times: "):
        assert text in told


def test_results_that_were_replaced_are_no_change_of_the_tree(tmp_path, monkeypatch):
    names = ("scripts/results/paper/x.csv", "scripts/y.py")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "1"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    clean = harness.commit()
    (tmp_path / names[0]).write_text("2")
    assert harness.commit() == clean
    (tmp_path / names[1]).write_text("2")
    assert harness.commit() == f"{clean}-dirty"
    monkeypatch.setattr(harness, "ROOT", tmp_path / "none")
    assert harness.commit() == "unknown"


def test_no_device_is_a_sentence(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="torch finds no CUDA device"):
        harness.parse("", ["--device", "cuda"])


def test_a_script_measures_and_judges(tmp_path, capsys, monkeypatch):
    script = importlib.import_module("average_r")
    monkeypatch.setattr(sys, "argv", ["average_r", "--smoke", "--out", str(tmp_path)])
    monkeypatch.setattr(script, "SIZES", (4, 8))
    assert harness.main(script.__file__, "", script.measure, script.claims) == 0
    told = capsys.readouterr().out
    for claim in ("A7", "A8", "A9"):
        assert f"\n{claim}: " in told
    rows = harness.read(tmp_path / "average_r.csv")
    assert {row["n"] for row in rows} == {4, 8}
    assert all(0 <= row["r_over_n"] < 0.5 for row in rows)


@pytest.mark.parametrize("name", ["torch_svd", "torch_svd_loop", "torch_eig", "bed"])
def test_solvers_are_checked_before_they_are_timed(tmp_path, name):
    pytest.importorskip("torch")
    baselines, timing = (importlib.import_module(x) for x in ("_baselines", "_timing"))
    chosen = options(tmp_path)
    found = baselines.solvers(chosen, [name, "cupy_eigh", "reference"])
    assert [solver.name for solver in found] == [name, "reference"]
    rows = list(timing.timed(chosen, [(4, 5)], found))
    assert all(0 < row["error_n_eps"] <= 8 and row["ms"] > 0 for row in rows)
    assert timing.ratios(rows, name, "reference").keys() == {(4, 5)}

    wrong = found[0]._replace(
        pairs=lambda result: (np.zeros((5, 4)), np.zeros((5, 4, 4)))
    )
    (row,) = timing.timed(chosen, [(4, 5)], [wrong])
    assert row["error_n_eps"] > 1000


def test_what_would_take_too_long_is_left_out(tmp_path, monkeypatch):
    timing = importlib.import_module("_timing")
    baselines = importlib.import_module("_baselines")
    monkeypatch.setattr(timing, "SMOKE_LIMIT", 0)
    chosen = options(tmp_path)
    rows = list(
        timing.timed(
            chosen, [(3, 1), (3, 9)], baselines.solvers(chosen, ["numpy_eigh"])
        )
    )
    assert [row["batch"] for row in rows] == [1]


def reproduced(folder, *words):
    """What scripts/reproduce.py reports of a folder."""
    assert reproduce.main(["--smoke", "--out", str(folder), *words]) == 0
    return (folder / "REPRODUCTION.md").read_text(encoding="utf-8")


def test_scripts_have_the_names_of_what_they_measure():
    names = {*reproduce.ON_DEVICE, *reproduce.ON_HOST}
    assert names == {path.stem for path in PAPER.glob("[!_]*.py")} - {"draw"}
    assert names == set(importlib.import_module("draw").SCRIPTS)
    assert len(reproduce.IDS) == 53 == len(set(reproduce.IDS))


def test_the_report_has_what_there_is_and_tells_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "ON_DEVICE", ())
    monkeypatch.setattr(reproduce, "ON_HOST", ("error_bound",))
    text = reproduced(tmp_path)
    assert (
        "| E3 | the error of eigenvalues is below max(ratio^2n \\|l\\|) + ε |" in text
    )
    assert "`python scripts/paper/error_bound.py --smoke`" in text
    assert "Not measured: S1, S2," in text
    line = next(x for x in text.splitlines() if x.startswith("| E4"))
    assert line.count(" | ") + line.count("\\|") >= len(reproduce.HEADS) - 1
    assert "*does not* |  |  |" in line, "columns of a GPU are blank"

    table = tmp_path / "cpu" / "error_bound.csv"
    table.write_text(table.read_text().replace(",fixed,0.", ",fixed,0.0"))
    before = table.read_text()
    again = reproduced(tmp_path)  # nothing is measured again
    assert table.read_text() == before
    assert reproduced(tmp_path, "--report") == again != text
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / table.name).write_text(before)
    line = next(x for x in reproduced(tmp_path).splitlines() if x.startswith("| E4"))
    assert line.count("*does not*") == 2


def test_a_script_that_fails_stops_no_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "ON_DEVICE", ("average_r",))
    monkeypatch.setattr(reproduce, "ON_HOST", ("error_bound",))
    monkeypatch.setattr(importlib.import_module("average_r"), "SIZES", ())
    assert reproduce.main(["--smoke", "--out", str(tmp_path)]) == 1
    assert "failed: average_r" in capsys.readouterr().out
    assert "| E3 |" in (tmp_path / "REPRODUCTION.md").read_text(encoding="utf-8")


def test_the_report_that_is_committed_is_that_of_its_tables():
    path = harness.RESULTS.parent / "REPRODUCTION.md"
    text = path.read_text(encoding="utf-8")
    arguments = harness.completed(
        argparse.Namespace(device="cpu", out=None, smoke=False, seed=0)
    )
    assert text == reproduce.report(harness.RESULTS, arguments)
    assert all(f"\n| {id} | " in text for id in reproduce.IDS)
    assert "-dirty" not in text


def _cut(text):
    return text[:-7]


def _cut_in_a_row(text):
    return text + "1,\n"


def _without_rows(text):
    return "".join(x for x in text.splitlines(True) if x.startswith("#"))


@pytest.mark.parametrize("spoil", [_cut, _cut_in_a_row, _without_rows, lambda _: "\0é"])
def test_a_table_that_is_not_whole_is_measured_again(tmp_path, monkeypatch, spoil):
    monkeypatch.setattr(reproduce, "ON_DEVICE", ())
    monkeypatch.setattr(reproduce, "ON_HOST", ("error_bound",))
    text = reproduced(tmp_path)
    table = tmp_path / "cpu" / "error_bound.csv"
    rows = harness.read(table)
    table.write_text(spoil(table.read_text(encoding="utf-8")), encoding="latin-1")
    with pytest.raises(SystemExit, match=r"error_bound.csv is n.*; measure it again"):
        reproduced(tmp_path, "--report")
    (tmp_path / "cpu" / "notes.csv").write_text("no table of a script\n")
    assert reproduced(tmp_path) == text and harness.read(table) == rows


def test_what_cannot_be_drawn_stops_no_other(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    draw = importlib.import_module("draw")
    for name in ("average_r", "convergence", "error_bound"):
        table = (harness.RESULTS / "cpu" / f"{name}.csv").read_text(encoding="utf-8")
        table = table[:-5] if name == "average_r" else table
        (tmp_path / f"{name}.csv").write_text(table, encoding="utf-8")
    (tmp_path / "convergence.png").mkdir()
    assert draw.main([str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "average_r.csv is not whole" in told
    assert f"no picture of {tmp_path / 'convergence.csv'}" in told
    assert (tmp_path / "error_bound.svg").exists()
    monkeypatch.setattr(draw, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install matplotlib"):
        draw.main([str(tmp_path)])


@pytest.mark.slow
def test_every_claim_is_in_the_report_and_every_table_is_drawn(tmp_path):
    pytest.importorskip("torch")
    text = reproduced(tmp_path)
    for id in reproduce.IDS:
        (line,) = (x for x in text.splitlines() if x.startswith(f"| {id} |"))
        cells = line.replace("\\|", "").split(" | ")
        assert len(cells) == len(reproduce.HEADS), line
        assert cells[4].strip("*") in harness.VERDICTS
        assert cells[3] or cells[4] == f"*{harness.UNTESTED}*"
        assert all(cells[i] for i in (1, 2, 7, 8)), line
    assert "Not measured" not in text
    pytest.importorskip("matplotlib")
    draw = importlib.import_module("draw")
    assert draw.main([str(tmp_path / "cpu")]) == 0
    assert len(list((tmp_path / "cpu").glob("*.svg"))) == len(draw.SCRIPTS)
