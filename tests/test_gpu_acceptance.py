"""scripts/gpu_acceptance.py on a machine without a GPU, with NumPy in CuPy's place."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "gpu_acceptance.py"
FILES = [SCRIPT, *sorted((SCRIPT.parent / "acceptance").glob("*.py"))]

# These need a GPU, or a program that is not installed here.
MAY_BE_MISSING = {"torch", "gradients", "jax", "jax_ffi", "sanitizer"}

REHEARSE = """
import sys
import cuda_stand_in
cuda_stand_in.install()
import gpu_acceptance
{change}
sys.exit(gpu_acceptance.main(sys.argv[1:]))
"""


def run(*words, change=""):
    """The script in a process of its own, in which CuPy is NumPy."""
    code = REHEARSE.format(change=change)
    return start("-c", code, "--smoke", "--seed", "7", *words)


def start(*words):
    path = os.pathsep.join([str(SCRIPT.parent), str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def report(folder):
    """The two files of a run: parsed JSON, and text."""
    (data,), (text,) = folder.glob("*.json"), folder.glob("*.md")
    assert data.stem == text.stem
    assert data.name.startswith("gpu_acceptance_s100_20")
    return json.loads(data.read_text()), text.read_text()


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A whole smoke run."""
    folder = tmp_path_factory.mktemp("results")
    result = run("--out", str(folder))
    return result, *report(folder)


def test_every_part_passes(smoke):
    result, data, _ = smoke
    states = {part["name"]: part["state"] for part in data["parts"]}
    missing = {name for name, state in states.items() if state == "not run"}
    assert missing <= MAY_BE_MISSING
    failures = {p["name"]: p["failures"] for p in data["parts"] if p["failed"]}
    assert not failures
    assert {states[name] for name in states.keys() - missing} == {"passed"}
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(states) >= 20


def test_json_says_what_was_measured_and_where(smoke):
    _, data, _ = smoke
    facts = data["environment"]
    assert facts["device"] == "Stand-in S100"
    assert {"python", "numpy", "bed", "cupy", "cuda_driver"} <= facts.keys()
    assert data["seed"] == 7
    parts = {part["name"]: part for part in data["parts"]}
    for kind in ("residual", "orthogonality", "values"):
        worst = parts["zoo"]["worst"][kind]
        assert worst.keys() == {"float32", "float64", "complex64", "complex128"}
        assert all(0 < x <= 8 for x in worst.values())
    calls = parts["overhead"]["data"]["n = 4"]
    assert calls["engine"]["median"] < calls["bed.eigh"]["median"]
    assert len(parts["overhead"]["data"]["profile of bed.eigh"]) > 5
    assert data["timings"]
    for cell in data["timings"]:
        best = min(peer["ms"] for peer in cell["peers"].values() if "ms" in peer)
        assert cell["ratio"] == pytest.approx(best / cell["bed_ms"])


def test_markdown_has_all_tables(smoke):
    _, data, text = smoke
    for heading in ("# GPU acceptance: Stand-in S100", "## Parts", "## Times"):
        assert heading in text
    for part in data["parts"]:
        assert f"| {part['name']} |" in text
    times = text[text.index("## Times") : text.index("## Targets")]
    rows = [line for line in times.splitlines() if line.startswith("| float")]
    assert len(rows) == len(data["timings"])
    assert len({row.count(" | ") for row in rows}) == 1
    assert len(data["targets"]) == 10
    for verdict in data["targets"]:
        row = f"| {verdict['target']} | {verdict['state']} | {verdict['detail']} |"
        assert row in text
    # The stand-in is no H200, and the smoke test has no large batch.
    assert {v["state"] for v in data["targets"][4:]} == {"not measured"}


WRONG = """
import bed
right = bed.eigh

def wrong(a, *arguments, **keywords):
    result = right(a, *arguments, **keywords)
    result.eigenvalues[:1] = 0.5
    return result

bed.eigh = wrong
"""


def test_a_wrong_result_fails_the_run(tmp_path):
    only = ("million", "real", "staged", "staged_times", "timings")
    result = run("--only", *only, "--out", str(tmp_path), change=WRONG)
    assert result.returncode == 1, result.stdout + result.stderr
    data, text = report(tmp_path)
    for part in data["parts"]:
        assert part["state"] == "failed"
        assert f"**{part['name']}: {part['failed']} failures**" in text
    # What is wrong is not timed.
    assert data["timings"] == []


def test_a_part_that_crashes_leaves_the_others_alone(tmp_path):
    change = "import cupy\ndel cupy.cuda.Event, cupy.broadcast_to"
    only = ("streams", "strided", "small")
    result = run("--only", *only, "--out", str(tmp_path), change=change)
    assert result.returncode == 1
    data, _ = report(tmp_path)
    states = [part["state"] for part in data["parts"]]
    assert states == ["failed", "failed", "passed"]
    assert "AttributeError" in data["parts"][0]["failures"][0]


JAX_ON_A_GPU = """
import os
os.environ["JAX_ENABLE_X64"] = "1"
import jax
jax.default_backend = lambda: "gpu"
"""
HANDLER_ON_THE_CPU = """
from jax.interpreters import mlir
import xla_on_cpu
from bed.autograd.jax import eigh as rules
from bed.autograd.jax.xla import eigh as xla_eigh
assert xla_eigh.problem("cpu") is None
mlir.register_lowering(rules._solve_p, xla_on_cpu.lower_for_host, platform="cpu")
"""


@pytest.mark.skipif(find_spec("jax") is None, reason="needs jax: pip install jax")
def test_the_part_of_jax_jit(tmp_path):
    """With JAX on the CPU, by the handler for the GPU and by a call back to the CPU."""
    for change, state in (("", "failed"), (HANDLER_ON_THE_CPU, "passed")):
        folder = tmp_path / state
        result = run(
            *("--only", "jax_ffi", "--out", str(folder)), change=JAX_ON_A_GPU + change
        )
        (part,) = report(folder)[0]["parts"]
        assert part["state"] == state, result.stdout + result.stderr
        assert part["cases"] > 100
        if state == "failed":
            assert "calls back to the host" in part["failures"][1]


TORCH_ON_THE_CPU = """
import torch
from acceptance import handoff, interop
interop.torch_tensors = lambda run, part: interop.torch_on(torch, "cpu", run, part)
handoff.gradients = lambda run, part: handoff.gradients_on(torch, "cpu", run, part)
"""
WRONG_GRADIENT = """
from bed.autograd.torch import _function as rules
right = rules.eigh_vjp
rules.eigh_vjp = lambda *arguments, **keywords: 1.001 * right(*arguments, **keywords)
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: pip install torch")
@pytest.mark.parametrize("wrong", ["", WRONG_GRADIENT])
def test_the_parts_of_torch(tmp_path, wrong):
    """With tensors on the CPU; a gradient that is off by a thousandth is seen."""
    words = ("--only", "torch", "gradients", "--out", str(tmp_path))
    result = run(*words, change=TORCH_ON_THE_CPU + wrong)
    tensors, gradients = report(tmp_path)[0]["parts"]
    assert tensors["state"] == "passed", result.stdout + result.stderr
    assert tensors["cases"] > 100
    assert gradients["state"] == ("failed" if wrong else "passed"), result.stdout
    assert gradients["cases"] == 8


ON_THE_FIRST_DEVICE = """
import contextlib
from bed._dispatch.interop import cupy as opened
right = opened.received

def wrong(*arguments):
    received = right(*arguments)
    object.__setattr__(received, "running", contextlib.nullcontext)
    return received

opened.received = wrong
"""
STRIDES_IGNORED = """
import bed
right = bed.eigh

def wrong(a, *arguments, **keywords):
    if hasattr(a, "array"):
        a = type(a)(a.array, strides=None)
    return right(a, *arguments, **keywords)

bed.eigh = wrong
"""


@pytest.mark.parametrize(
    "part, change",
    [("second_device", ON_THE_FIRST_DEVICE), ("interfaces", STRIDES_IGNORED)],
)
def test_faults_of_a_hand_off_are_seen(tmp_path, part, change):
    result = run("--only", part, "--out", str(tmp_path), change=change)
    (found,) = report(tmp_path)[0]["parts"]
    assert found["state"] == "failed", result.stdout + result.stderr
    assert found["failed"] < found["cases"]


def test_memory_that_is_kept_is_seen(tmp_path):
    change = """
import bed
right, kept = bed.eigh, []
bed.eigh = lambda *arguments: kept.append(right(*arguments))
"""
    run("--only", "kept", "--out", str(tmp_path), change=change)
    (part,) = report(tmp_path)[0]["parts"]
    assert part["state"] == "failed"
    assert "bytes more in use after 100 calls" in part["failures"][0]


def test_no_time_left(tmp_path):
    result = run("--only", "small", "--minutes", "0", "--out", str(tmp_path))
    assert result.returncode == 1
    assert report(tmp_path)[0]["parts"][0]["state"] == "left out"


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_without_cupy():
    result = start(str(SCRIPT))
    assert result.returncode == 2
    assert "needs CuPy: pip install" in result.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_are_small_and_say_what_they_are_for(path):
    text = path.read_text()
    assert len(text.splitlines()) < 300
    assert ast.get_docstring(ast.parse(text))
