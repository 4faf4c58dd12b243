"""Which engine is chosen, and how it is explained."""

import numpy as np
import pytest

import bed
from bed import engines
from bed._dispatch import again, policy

CALLS = [
    {"dtype": dtype, "device": device, "eigenvectors": eigenvectors}
    for dtype in engines.DTYPES
    for device in ("cpu", "cuda")
    for eigenvectors in (True, False)
]


def _forget():
    policy.forget()
    again.forget()


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_every_call_has_an_engine_that_takes_it(monkeypatch, call):
    monkeypatch.setattr(engines.Engine, "missing", lambda self: None)
    for n in range(300):
        engine = policy.choose(n, **call).engine
        assert call["device"] in engine.devices
        assert engine.takes(n)
        assert engine.name != "reference"
        if n <= 64:
            assert (
                engine.name == {"cpu": "numba_cpu", "cuda": "raw_cuda"}[call["device"]]
            )


def test_choice_is_the_row_of_the_table(monkeypatch):
    def row(n, dtype, eigenvectors, engine):
        return policy.Row(dtype, eigenvectors, n, engine, {"8": 2.5, "40": 1.5})

    rows = [
        row(10, "float32", True, "lapack"),
        row(10, "float32", False, "reference"),
        row(None, "any", None, "numba_cpu"),
    ]
    _forget()
    monkeypatch.setattr(
        policy, "table", lambda: {"cpu": {"measured": "here", "rows": rows}}
    )

    def name(*arguments, **options):
        return policy.choose(*arguments, "cpu", **options).engine.name

    single, double = np.dtype("f4"), np.dtype("f8")
    assert name(10, single) == "lapack"
    assert name(10, single, eigenvectors=False) == "reference"
    assert name(11, single) == name(10, double) == "numba_cpu"
    explanation = bed.explain(np.eye(9, dtype="f4"))
    assert explanation.reason == (
        "host array, float32 with eigenvectors, n ≤ 10; "
        "at n = 8 2.5 × as fast as any other, in batches"
    )
    assert explanation.measured == "here"
    values = bed.explain(np.eye(9, dtype="f4"), eigenvectors=False)
    assert values.engine == "reference"
    _forget()


def test_unknown_engine_lists_those_here():
    with pytest.raises(ValueError, match="'magma' is unknown; engines here: "):
        bed.eigh(np.eye(2), driver="magma")


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    _forget()
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
    choice = policy.choose(4, np.dtype("f4"), "cpu", driver="small")
    assert choice.engine is small
    with pytest.raises(ValueError, match="takes n <= 4, got n = 5"):
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


def test_warmup_takes_any_size_and_tells_of_wrong_dtypes():
    bed.warmup(70, "f4")
    with pytest.raises(TypeError, match="not supported"):
        bed.warmup(4, "O")
