"""Which engine is chosen, and how it is explained."""

import numpy as np
import pytest

import bed
from bed import _policy, engines


@pytest.mark.parametrize(
    "n, device, name",
    [
        (1, "cpu", "numba_cpu"),
        (64, "cpu", "numba_cpu"),
        (65, "cpu", "lapack"),
        (500, "cpu", "lapack"),
    ],
)
def test_choice_by_size(n, device, name):
    assert _policy.choose(n, device).engine.name == name


def test_device_arrays_get_a_device_engine(monkeypatch):
    monkeypatch.setattr(engines.Engine, "missing", lambda self: None)
    choice = _policy.choose(8, "cuda")
    assert "cuda" in choice.engine.devices
    assert choice.engine.same_bits


def test_engines_to_be_read_are_never_chosen(monkeypatch):
    monkeypatch.setattr(engines.Engine, "missing", lambda self: None)
    for device in ("cpu", "cuda"):
        chosen = {_policy.choose(n, device).engine.name for n in range(1, 200)}
        assert not chosen & {"reference", "staged"}


def test_unknown_engine_lists_those_here():
    with pytest.raises(ValueError, match="'magma' is unknown; engines here: "):
        bed.eigh(np.eye(2), driver="magma")


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs numba: pip install 'numba'"):
        bed.eigh(np.eye(2))
    with pytest.raises(ImportError, match="batched-ed\\[cuda12\\]"):
        bed.eigh(np.eye(2), driver="cusolver")


def test_engine_for_other_memory_is_refused(monkeypatch):
    monkeypatch.setattr(engines.Engine, "missing", lambda self: None)
    with pytest.raises(ValueError, match="on cuda arrays; this one is in cpu"):
        bed.eigh(np.eye(2), driver="cusolver")


def test_size_limit_of_an_engine(monkeypatch):
    small = engines.Engine("small", ("cpu",), "test", max_n=4)
    monkeypatch.setitem(engines._REGISTRY, "small", small)
    assert _policy.choose(4, "cpu", "small").engine is small
    with pytest.raises(ValueError, match="takes n ≤ 4, got n = 5"):
        bed.eigh(np.eye(5), driver="small")


def test_names_are_registered_once():
    with pytest.raises(ValueError, match="'lapack' is registered already"):
        engines.register(engines.get("lapack"))


def test_explain():
    explanation = bed.explain(np.ones((2, 5, 8, 8), np.float16))
    assert explanation.engine == "numba_cpu"
    assert (explanation.batch, explanation.n) == (10, 8)
    assert (explanation.dtype, explanation.compute_dtype) == ("float16", "float32")
    assert "engine numba_cpu" in str(explanation)
    assert bed.explain(np.eye(65), driver="reference").reason == "asked for by driver="
    with pytest.raises(np.linalg.LinAlgError):
        bed.explain(np.ones(3))


def test_warmup_compiles_each_dtype():
    from bed.engines.numba_cpu import eigh as module

    bed.warmup(4, ("float16", "i4", "c8", "c16"))
    compiled = {str(s[0].dtype) for s in module.__globals__["_entry"].signatures}
    assert compiled >= {"float32", "float64", "complex64", "complex128"}
    bed.warmup(70, "f4")
    with pytest.raises(TypeError, match="not supported"):
        bed.warmup(4, "O")
