"""``python -m bed``, and the examples in docstrings."""

import csv
import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import bed
from bed.__main__ import main
from bed.cli import _functions, bench, demo


def test_info(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"bed {bed.__version__}" in text
    for name in (
        "numba_cpu",
        "lapack",
        "cusolver",
        "reference",
        f"numpy {np.__version__}",
    ):
        assert name in text


def test_demo_checks_every_array_and_draws(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    out = tmp_path / "demo.png"
    assert main(["demo", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert out.read_bytes().startswith(b"\x89PNG")
    for name in ("dti", "phonon_n42", "vgg_n64", "structure_n2", "vowels_n12"):
        assert name in text
    assert "within the 8 n·eps" in text


def test_demo_fails_when_a_result_is_wrong(tmp_path, capsys, monkeypatch):
    original = bed.eigh

    def wrong(a, **keywords):
        w, v = original(a, **keywords)
        return bed.EighResult(w + 1e-4 * abs(a).max(), v)

    monkeypatch.setattr(demo.bed, "eigh", wrong)
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    monkeypatch.setattr(demo, "_draw", lambda rows, out: None)
    assert main(["demo", "--out", str(tmp_path / "demo.png")]) == 1
    assert "ABOVE the 8 n·eps" in capsys.readouterr().out


@pytest.mark.parametrize(
    "extra", [[], ["--values-only"], ["--driver", "lapack"], ["--torch"]]
)
def test_bench(capsys, monkeypatch, tmp_path, extra):
    if "--torch" in extra:
        pytest.importorskip("torch")
    monkeypatch.setattr("bed.testing.clock.ROUNDS", 1)
    table = tmp_path / "table.csv"
    arguments = ["bench", "--n", "2", "5", "--batch", "20", "--dtype", "float16"]
    arguments += ["complex128", "--device", "cpu", "--csv", str(table)]
    assert main([*arguments, *extra]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 + 4
    assert "float16 is timed as float32" in lines[2]
    assert lines[4].split()[:3] == ["float32", "2", "20"]
    comments, rows = table.read_text().splitlines()[:3], table.read_text().split("\n")
    assert all(line.startswith("# ") for line in comments)
    found = list(csv.DictReader(rows[3:]))
    assert [(row["dtype"], row["n"]) for row in found] == [
        (dtype, n) for dtype in ("float32", "complex128") for n in "25"
    ]
    for row in found:
        assert float(row["bed_ms"]) > 0 < float(row["numpy_ms"])
        assert (float(row["torch_ms"]) > 0) == ("--torch" in extra)


def test_bench_checks_before_it_times(monkeypatch):
    wrong = bed.EighResult(np.zeros((9, 2)), np.zeros((9, 2, 2)))
    monkeypatch.setattr(bench.bed, "eigh", lambda a, **_: wrong)
    with pytest.raises(SystemExit, match="wrong result for float64, n = 2"):
        main(["bench", "--n", "2", "--batch", "9", "--dtype", "float64"])


def _functions_table(path, capsys, *arguments):
    """What is printed behind the header, and the rows of the file."""
    sizes = ["--n", "1", "4", "--batch", "60", "--csv", str(path), "--seed", "1"]
    given = ["bench", "--function", *arguments, *sizes]
    assert main(given) == 0
    printed = capsys.readouterr().out.splitlines()
    text = path.read_text().splitlines()
    comments = [line for line in text if line.startswith("# ")]
    assert [f"# {line}" for line in printed[: len(comments)]] == comments
    assert f"# python -m bed {' '.join(given)}" in comments
    rows = list(csv.DictReader(text[len(comments) :]))
    return printed[len(comments) + 1 :], rows


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", _functions.FUNCTIONS)
@pytest.mark.parametrize("backward", [[], ["--backward"]])
def test_bench_of_functions(capsys, tmp_path, monkeypatch, name, backward):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(_functions, "ROUNDS", 1)
    before, timed = torch.get_num_threads(), set()

    def in_turns(calls, **keywords):
        timed.add(torch.get_num_threads())
        return original(calls, **keywords)

    original = _functions.in_turns
    monkeypatch.setattr(_functions, "in_turns", in_turns)
    monkeypatch.setattr(_functions, "thread_count", lambda: before + 1)
    table = tmp_path / "table.csv"
    dtypes = ["--dtype", "float16", "complex128"]
    printed, rows = _functions_table(table, capsys, name, *backward, *dtypes)
    assert (timed, torch.get_num_threads()) == ({before + 1}, before)
    assert [(row["dtype"], row["n"]) for row in rows] == [
        (dtype, n) for dtype in ("float32", "complex128") for n in "14"
    ]
    for line, row in zip(printed, rows, strict=True):
        assert line.split()[:3] == [row["dtype"], row["n"], row["batch"]]
        assert row["threads"] == str(before + 1)
        eps = np.finfo(row["dtype"]).eps
        assert 0 <= float(row["error"]) < 100 * eps
        # By other means than bed's own, so that no dtype is compared with itself.
        assert float(row["error"]) > 0 or row["n"] == "1"
        assert float(row["forward_ms"]) > 0 < float(row["torch.eigh_ms"])
        alike = float(row["total_ms"]) == float(row["forward_ms"])
        assert alike == (not backward)
        ratio = float(row["torch.eigh_ms"]) / float(row["total_ms"])
        np.testing.assert_allclose(float(row["torch.eigh_ratio"]), ratio, rtol=2e-3)
    if name == "expm":
        assert all(float(row["matrix_exp_ms"]) > 0 for row in rows)


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
def test_bench_of_functions_beside_scipy(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    seconds = {"eigh": 1, "forward": 2, "torch.eigh": 30, "scipy": 5}
    monkeypatch.setattr(_functions, "in_turns", lambda calls, **_: dict(seconds))
    _, rows = _functions_table(tmp_path / "table.csv", capsys, "logm", "--peers")
    for row in rows:
        assert float(row["scipy_ms"]) == 5e3 * 60 / _functions.FEW
        assert (row["best_peer"], float(row["best_ratio"])) == ("scipy", 3)


def test_bench_of_functions_takes_any_power(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    powers = set()

    def powm(a, p, **options):
        powers.add(p)
        return original(a, p, **options)

    original = bed.powm
    monkeypatch.setattr(bed, "powm", powm)
    monkeypatch.setattr(_functions, "ROUNDS", 1)
    for power in ([], ["--power", "1.5"]):
        _functions_table(tmp_path / "table.csv", capsys, "powm", *power)
    assert powers == {-0.25, 1.5}


@pytest.mark.parametrize("backward", [[], ["--backward"]])
def test_bench_of_functions_checks_before_it_times(capsys, monkeypatch, backward):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(_functions, "ROUNDS", 1)
    small = ["--n", "3", "--batch", "9", "--dtype", "float64", *backward]
    arguments = ["bench", "--function", "expm", *small]
    exact = torch.linalg.matrix_exp
    for wrong in (lambda a: exact(a) * (1 + 1e-6), lambda a: exact(a) * torch.nan):
        with monkeypatch.context() as patch:
            patch.setattr(torch.linalg, "matrix_exp", wrong)
            assert main(arguments) == 0
            assert "matrix_exp is wrong here, and not" in capsys.readouterr().out
            patch.setattr(bed, "expm", lambda a, *, driver, f=wrong: f(a))
            with pytest.raises(SystemExit, match="wrong result for float64, n = 3"):
                main(arguments)


@pytest.mark.parametrize(
    "options, said",
    [
        (["--backward"], "--backward is for --function"),
        (["--power", "2"], "--power is for --function powm"),
        (["--function", "absm", "--power", "2"], "--power is for --function powm"),
        (["--function", "absm", "--device", "cuda"], "--function is timed on the CPU"),
        (["--function", "absm", "--values-only"], "--function is timed on the CPU"),
        (["--function", "absm", "--eigen", "."], "--function is timed on the CPU"),
        (["--function", "absm", "--driver", "none"], "driver='none' is unknown"),
        (["--driver", "none"], "driver='none' is unknown"),
    ],
)
def test_bench_refuses_options_that_would_not_count(capsys, options, said):
    """Before it says what it times."""
    pytest.importorskip("torch")
    assert main(["bench", "--n", "2", "--batch", "3", *options]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out


@pytest.mark.parametrize(
    ("sizes", "dtypes", "batches"),
    [
        (["2", "64"], ["float16", "complex128"], [10_000, 1024, 10_000, 256]),
        (["4000"], ["float64"], [1]),
        (["64", "--batch", "3", "2"], ["float64"], [3, 2]),
    ],
)
def test_bench_has_batches_that_do_not_fill_the_memory(
    monkeypatch, sizes, dtypes, batches
):
    class Batch:
        """What stands for random matrices and is not timed."""

        def __init__(self, rng, shape, dtype):
            found.append(shape[0])

    found = []
    monkeypatch.setattr(bench, "random_hermitian", Batch)
    monkeypatch.setattr(bench, "_measure", lambda *_: bench.Line(*[""] * 10))
    monkeypatch.setattr(bench.Line, "shown", lambda *_: [])
    assert main(["bench", "--dtype", *dtypes, "--n", *sizes]) == 0
    assert found == batches


def test_bench_says_what_a_peer_needs(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["bench", "--n", "2", "--batch", "3", "--torch"]) == 2
    assert "--torch needs torch: pip install torch" in capsys.readouterr().err


# Which modules show a library in their examples, or cannot be imported without.
LIBRARIES = {
    "torch": r"\.torch\b|^bed\.nn\b",
    "jax": r"\.jax\b",
    "dask": r"\.dask\b",
    "xarray": r"\.xarray\b",
    "zarr": r"\.zarr\b",
}


def _modules():
    for module in pkgutil.walk_packages(bed.__path__, "bed."):
        if not re.search(
            r"\.(cusolver|raw_cuda|numba_cuda)", module.name
        ) and not module.name.endswith("__main__"):
            yield module.name


@pytest.mark.parametrize("name", ["bed", *_modules()])
def test_examples_in_docstrings(name):
    for library, those in LIBRARIES.items():
        if re.search(those, name):
            pytest.importorskip(library)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.fixture
def readme():
    """The block of a section of README, and the names that it defines."""
    text = (Path(__file__).parents[1] / "README.md").read_text("utf-8")

    def run(section):
        code = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        names = {}
        code = re.search(r"```python\n(.*?)```", code, re.S)[1]
        assert len(code.splitlines()) <= 11
        exec(compile(code, "README.md", "exec"), names)
        return names

    return run


def test_example_of_the_readme(readme, capsys):
    names = readme("NumPy")
    assert names["w"].shape == (100_000, 8)
    assert (names["status"] == 0).all()
    whitened = names["whiten"] @ names["a"] @ names["whiten"]
    np.testing.assert_allclose(
        whitened[:100], np.tile(np.eye(8), (100, 1, 1)), atol=1e-8
    )
    assert "engine numba_cpu" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_example_of_torch_in_the_readme(readme):
    torch = pytest.importorskip("torch")
    names = readme("torch")
    assert isinstance(names["v"], torch.Tensor)
    assert names["a"].grad.isfinite().all()
    # Of tr exp at I: e on what is symmetric.
    x = torch.randn(3, 3)
    found = torch.einsum("ijkl,kl->ij", names["hessian"], x + x.mT)
    torch.testing.assert_close(found, np.e * (x + x.mT), rtol=0, atol=1e-4)


def test_example_of_jax_in_the_readme(readme):
    pytest.importorskip("jax")
    names = readme("JAX")
    assert "jax" in type(names["v"]).__module__
    np.testing.assert_allclose(names["root"] @ names["root"], names["a"], rtol=1e-6)
    np.testing.assert_allclose(
        names["slope"][:, 0, 0], 1 / names["a"][:, 0, 0], rtol=1e-5
    )


def test_public_functions_have_examples():
    for name in ("eigh", "eigvalsh", "explain", "warmup", "show_config"):
        assert ">>>" in getattr(bed, name).__doc__
