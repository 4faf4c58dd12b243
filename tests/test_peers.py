"""``python -m bed bench --peers``: what is timed beside bed, and what is said of it."""

import csv
import os
import sys
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bed.__main__ import main
from bed.cli import _eigen, _peers, bench
from bed.testing.accuracy import PROMISE, measure
from bed.testing.matrices import random_hermitian

# Seconds of the calls, as if they had been timed.
SECONDS = {"bed": 1, "numpy": 7, "torch": 8, "tf": 6, "eigen": 5, "direct": 2}


def solved_by_numpy(a, vectors, direct):
    return np.linalg.eigh(a) if vectors else np.linalg.eigvalsh(a)


@pytest.fixture
def tensorflow(monkeypatch):
    """A module of this name on top of NumPy, which notes how it is set.

    Like the real one it gives complex eigenvalues to complex matrices.
    """
    settings = {}
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    threading = types.SimpleNamespace(
        set_intra_op_parallelism_threads=lambda n: settings.update(intra=n),
        set_inter_op_parallelism_threads=lambda n: settings.update(inter=n),
    )
    module = types.SimpleNamespace(
        __version__="2.0",
        config=types.SimpleNamespace(
            threading=threading,
            set_visible_devices=lambda some, kind: settings.update({kind: some}),
        ),
        constant=np.asarray,
        linalg=types.SimpleNamespace(
            eigh=lambda a: [x.astype(a.dtype) for x in np.linalg.eigh(a)],
            eigvalsh=lambda a: np.linalg.eigvalsh(a).astype(a.dtype),
        ),
    )
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    return settings


@pytest.fixture
def everywhere(monkeypatch, tensorflow):
    """All peers are here; `solver` stands for Eigen."""
    pytest.importorskip("torch")
    cells = [(d, n) for d in ("float64", "complex64") for n in (2, 3, 4)]

    def use(solver):
        solvers = _eigen.Solvers(dict.fromkeys(cells, solver), "3.4.0")
        monkeypatch.setattr(_peers, "compiled", lambda *_: solvers)

    def in_turns(calls, within):
        for name, call in calls.items():
            with within[name]() if name in within else _peers.nullcontext():
                call()
        return {name: SECONDS[name] for name in calls}

    monkeypatch.setattr(bench, "in_turns", in_turns)
    use(solved_by_numpy)
    return use


@pytest.fixture
def run(capsys, tmp_path):
    """Run the command; returns what it prints and the rows it writes."""

    def run(*words):
        table = tmp_path / "table.csv"
        words = ["--batch", "9", "--device", "cpu", "--csv", str(table), *words]
        assert main(["bench", "--peers", *words]) == 0
        lines = table.read_text().splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return capsys.readouterr().out, list(rows)

    return run


@pytest.mark.parametrize("extra", [[], ["--values-only"]])
def test_each_peer_has_a_column_and_the_best_one_counts(everywhere, run, extra):
    dtypes = ["--dtype", "float64", "complex64"]
    shown, rows = run("--n", "2", "3", "4", *dtypes, *extra)
    header = next(line for line in shown.splitlines() if line.startswith("dtype"))
    assert header.split()[-1] == "best"
    assert "direct: computeDirect of eigen" in shown
    assert ("eigvalsh" if extra else "eigh") in shown.splitlines()[1]
    assert [(row["dtype"], row["n"]) for row in rows] == [
        (dtype, n) for dtype in ("float64", "complex64") for n in "234"
    ]
    for row, line in zip(rows, shown.splitlines()[-6:], strict=True):
        closed = row["dtype"] == "float64" and row["n"] in "23"
        for name, seconds in SECONDS.items():
            told = seconds * 1e3 if closed or name != "direct" else np.nan
            assert float(row[f"{name}_ms"]) == pytest.approx(told, nan_ok=True), name
        assert (row["best_peer"], row["best_ratio"]) == ("eigen", "5")
        assert line.split()[-1] == "5.00"


@pytest.mark.parametrize("extra", [[], ["--values-only"]])
@pytest.mark.parametrize("by", [1e-3, np.nan])
def test_a_wrong_peer_is_not_timed(everywhere, run, extra, by):
    def wrong(a, vectors, direct):
        result = solved_by_numpy(a, vectors, direct)
        return (result[0] + by, result[1]) if vectors else result + by

    everywhere(wrong)
    shown, (row,) = run("--n", "4", "--dtype", "float64", *extra)
    assert "eigen is wrong here, and not timed: error" in shown
    assert row["eigen_ms"] == "nan"
    assert (row["best_peer"], row["best_ratio"]) == ("tf", "6")


@pytest.mark.parametrize("w", [0.0, np.nan])
def test_a_result_of_bed_that_is_not_right_is_not_timed(monkeypatch, w):
    """Nor if its eigenvectors are."""
    wrong = bench.bed.EighResult(np.full((9, 2), w), np.array([np.eye(2)] * 9))
    monkeypatch.setattr(bench.bed, "eigh", lambda a, **_: wrong)
    with pytest.raises(SystemExit, match="wrong result for float64, n = 2"):
        main(["bench", "--n", "2", "--batch", "9", "--dtype", "float64"])


def test_peers_have_one_thread(tensorflow):
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with _peers.Torch().alone():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    with _peers.Numpy().alone():
        blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
        assert {each["num_threads"] for each in blas} <= {1}
    _peers.TensorFlow()
    assert tensorflow == {"intra": 1, "inter": 1, "GPU": []}


@pytest.fixture
def headers(tmp_path, monkeypatch):
    """A folder with headers of Eigen that no compiler takes, in $EIGEN_INCLUDE."""
    (tmp_path / "headers" / "Eigen").mkdir(parents=True)
    source = tmp_path / "headers" / "Eigen" / "Eigenvalues"
    source.write_text('#error "these are no headers"\n')
    monkeypatch.setenv("EIGEN_INCLUDE", str(tmp_path / "headers"))


def no_headers(monkeypatch):
    monkeypatch.setattr(_eigen, "_places", list)


def no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(_eigen.shutil, "which", lambda _: None)


def compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CXX", os.path.join("nowhere", "c++"))


def compiler_that_fails(monkeypatch):
    try:
        _eigen.find_compiler()
    except ImportError as error:
        pytest.skip(str(error))


WHY = {
    no_headers: "its headers are not here (pip install cmeel-eigen",
    no_compiler: "there is no C++ compiler",
    compiler_that_is_not_there: os.path.join("nowhere", "c++"),
    compiler_that_fails: "the compiler fails: ",
}


@pytest.mark.parametrize("broken", WHY, ids=lambda f: f.__name__)
def test_a_peer_that_is_not_here_is_a_sentence(monkeypatch, headers, run, broken):
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    for name in ("torch", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
    broken(monkeypatch)
    shown, (row,) = run("--n", "2", "--dtype", "float64")
    assert "torch is not timed: " in shown
    assert "tf is not timed: " in shown
    told = next(line for line in shown.splitlines() if line.startswith("eigen"))
    assert told.startswith("eigen is not timed: ")
    assert WHY[broken] in told
    assert "direct ms" not in shown
    assert row["best_peer"] == "numpy"
    assert float(row["best_ratio"]) > 0


def test_a_folder_without_headers_is_an_error(tmp_path, capsys):
    assert main(["bench", "--peers", "--n", "2", "--eigen", str(tmp_path)]) == 2
    assert f"no Eigen/Eigenvalues in {tmp_path}" in capsys.readouterr().err


@pytest.fixture(scope="module")
def eigen():
    """Compile Eigen's solver, where it can be compiled."""
    try:
        _eigen.find_headers()
        _eigen.find_compiler()
    except ImportError as error:
        pytest.skip(f"Eigen is not timed: {error}")
    return lambda dtypes, sizes: _eigen.compiled(dtypes, sizes)


def check(solver, a, direct=False):
    kept = a.copy()
    w, v = solver(a, True, direct)
    assert max(x.max() for x in measure(a, w, v)[:2]) < PROMISE
    values = solver(a, False, direct)
    assert values.dtype == w.dtype == a.real.dtype
    assert v.dtype == a.dtype
    np.testing.assert_allclose(values, w, atol=1e-4)
    np.testing.assert_array_equal(a, kept)


def test_eigen_decomposes(eigen):
    rng = np.random.default_rng(1)
    (solver,) = eigen(["float64"], [3]).found.values()
    a = random_hermitian(rng, (50, 3, 3), "float64")
    check(solver, a)
    check(solver, a, direct=True)
    with pytest.raises(np.linalg.LinAlgError, match="fails on 1 matrices"):
        solver(np.where(np.arange(50)[:, None, None] == 7, np.nan, a), True, False)


@pytest.mark.slow
def test_eigen_decomposes_every_kind(eigen):
    rng = np.random.default_rng(2)
    dtypes, sizes = ["float32", "complex64", "complex128"], [1, 2, 16, 17, 18]
    solvers = eigen(dtypes, sizes)
    assert solvers.version.split()[0].count(".") == 2
    for (dtype, n), solver in solvers.found.items():
        check(solver, random_hermitian(rng, (20, n, n), dtype))
