"""What a caller can get wrong is told: what came, and what is accepted."""

import sys

import numpy as np
import pytest

import bed
from bed.__main__ import main

EYE = np.eye(2)


@pytest.mark.parametrize("check", ["yes", None, 2, EYE, ["hermitian"]], ids=str)
def test_check(check):
    for solve in (bed.eigh, bed.eigvalsh):
        with pytest.raises(ValueError, match="must be False, True or 'hermitian', got"):
            solve(EYE, check=check)
    with pytest.raises(ValueError, match="check must be False or True, got"):
        bed.eigh_tridiagonal([1.0, 2], [3.0], check=check)


def test_check_of_tridiagonal_matrices_reads_no_triangle():
    with pytest.raises(ValueError, match="must be False or True, got 'hermitian'"):
        bed.eigh_tridiagonal([1.0, 2], [3.0], check="hermitian")


@pytest.mark.parametrize("driver", [["lapack"], 3, None, "magma"], ids=str)
def test_driver(driver):
    with pytest.raises(ValueError, match="is unknown; engines here: 'numba_cpu'"):
        bed.eigh(EYE, driver=driver)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_phase": "x"}, "check_phase must be False or True, got 'x'"),
        ({"gradient": ["exact"]}, "gradient must be one of 'exact', .* got"),
        ({"degree": 1.5}, "degree must be an integer, got 1.5"),
    ],
)
def test_gradient_method(options, message):
    with pytest.raises(ValueError, match=message):
        bed.eigh(EYE, **options)


@pytest.mark.parametrize(
    "a", [None, {}, (x for x in [EYE])], ids=["None", "dict", "generator"]
)
def test_no_array_at_all(a):
    with pytest.raises(np.linalg.LinAlgError, match="array of square matrices, got "):
        bed.eigh(a)


def test_matrices_of_several_sizes():
    with pytest.raises(ValueError, match="eigh_list takes matrices of several"):
        bed.eigh([EYE, np.eye(3)])


def test_masked_entries():
    a = np.ma.masked_array(EYE, mask=False)
    assert bed.eigvalsh(a).tolist() == [1, 1]
    a[0, 1] = np.ma.masked
    with pytest.raises(TypeError, match="without masked entries"):
        bed.eigh(a)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_dtypes_of_torch_that_nothing_computes_in(device):
    torch = pytest.importorskip("torch")
    a = torch.eye(2).to(torch.float8_e4m3fn).to(device)
    with pytest.raises(TypeError, match="e4m3fn is not supported; accepted are float"):
        bed.eigh(a)


@pytest.mark.parametrize("solve", [bed.eigh, bed.eigvalsh])
def test_tensors_without_memory_are_looked_at_as_others(solve):
    torch = pytest.importorskip("torch")
    a = torch.empty(3, 4, 4, device="meta")
    with pytest.raises(torch.linalg.LinAlgError, match=r"got an array of shape \(4,"):
        solve(a[0, 0])
    with pytest.raises(np.linalg.LinAlgError, match=r"got .* of shape \(3, 4, 2\)"):
        solve(a[..., :2])
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U'"):
        solve(a, "X")
    with pytest.raises(ValueError, match="'magma' is unknown; engines here"):
        solve(a, driver="magma")
    for check in ("True", "yes"):
        with pytest.raises(ValueError, match="must be False, True or 'hermitian'"):
            solve(a, check=check)
    assert solve(a, check=1)[0].is_meta


@pytest.mark.parametrize("solve", [bed.eigh, bed.eigvalsh])
def test_what_is_mapped_by_torch_has_to_be_square_by_itself(solve):
    torch = pytest.importorskip("torch")
    for mapped in (solve, torch.func.vmap(solve)):
        a = torch.zeros(4, 4) if mapped is solve else torch.zeros(4, 4, 4)
        with pytest.raises(torch.linalg.LinAlgError, match=r"of shape \(4,\)"):
            torch.func.vmap(mapped)(a)


def test_warmup():
    torch = pytest.importorskip("torch")
    bed.warmup(2, ("bfloat16", torch.float32, torch.bfloat16, np.float32, "f4"))
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda', got 'gpu'"):
        bed.warmup(2, device="gpu")
    with pytest.raises(ValueError, match="n must not be negative, got -1"):
        bed.warmup(-1)
    with pytest.raises(TypeError, match="n must be an integer, got 'f4'; see dtype="):
        bed.warmup("f4")


def test_an_engine_that_does_not_start_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "bed.engines.lapack", None)
    with pytest.raises(ImportError, match=r"engine 'lapack' does not start: .*engines"):
        bed.eigh(EYE, driver="lapack")


def test_an_old_name_warns_where_it_is_used(monkeypatch):
    from bed import engines

    monkeypatch.setattr(engines, "RENAMED", {"old": "lapack"})
    for call in (bed.eigh, bed.eigvalsh, bed.explain):
        with pytest.warns(DeprecationWarning, match="'old' is called 'lapack'") as seen:
            call(EYE, driver="old")
        assert {warning.filename for warning in seen} == {__file__}
    monkeypatch.setattr(engines.Engine, "missing", lambda engine: "needs something")
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(ImportError, match="engine 'lapack' needs something"),
    ):
        bed.eigh(EYE, driver="old")


COMMANDS = {
    "bench --n 0": "0 is not positive",
    "bench --batch -1": "-1 is not positive",
    "bench --seed -1": "-1 is not positive",
    "bench --n 2 --batch 2 --driver foo": "'foo' is unknown; engines here",
    "bench --n 2 --csv nowhere/x.csv": "nowhere/x.csv",
    "bench --dtype int32": "invalid choice: 'int32'",
    "demo --driver foo": "'foo' is unknown; engines here",
    "demo --out nowhere/x.png": "nowhere/x.png",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line(command, capsys, tmp_path, monkeypatch):
    if "--out" in command:  # without, there is a sentence and no picture
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    try:
        status = main(command.split())
    except SystemExit as error:  # of argparse
        status = error.code
    assert status == 2
    assert COMMANDS[command] in capsys.readouterr().err
