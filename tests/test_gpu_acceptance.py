"""scripts/gpu_acceptance.py on a machine without a GPU, with NumPy in CuPy's place."""

import ast
import importlib
import json
import os
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "gpu_acceptance.py"
sys.path.append(str(SCRIPT.parent))
PARTS = importlib.import_module("gpu_acceptance").PARTS
FILES = [SCRIPT, *sorted((SCRIPT.parent / "acceptance").glob("*.py"))]

# The first needs a program that is not installed here.
MAY_BE_MISSING = {"sanitizer"}

# In every process that the script starts, too.
STAND_IN = """
import cuda_stand_in
cuda_stand_in.install()
"""


def run(folder, *words, change=""):
    """The script in a process of its own, in which CuPy is NumPy."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(STAND_IN + change)
    words = "--smoke", "--seed", "7", "--out", str(folder), *words
    return start(*words, path=[folder / "site", ROOT / "tests", ROOT])


def start(*words, path=(ROOT,)):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=240,
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
    result = run(folder, "--minutes", "20")
    return result, *report(folder)


@pytest.mark.slow
def test_every_part_passes(smoke):
    result, data, _ = smoke
    states = {part["name"]: part["state"] for part in data["parts"]}
    missing = {name for name, state in states.items() if state == "not run"}
    assert missing <= MAY_BE_MISSING
    failures = {p["name"]: p["failures"] for p in data["parts"] if p["failed"]}
    assert not failures
    assert {states[name] for name in states.keys() - missing} == {"passed"}
    assert result.returncode == 0, result.stdout + result.stderr
    assert list(states) == list(PARTS)


@pytest.mark.slow
def test_json_says_what_was_measured_and_where(smoke):
    _, data, _ = smoke
    facts = data["environment"]
    assert facts["device"] == "Stand-in S100"
    assert {"python", "numpy", "bed", "cupy", "cuda_driver"} <= facts.keys()
    assert data["seed"] == 7
    parts = {part["name"]: part for part in data["parts"]}
    for kind in ("residual", "orthogonality", "values"):
        worst = parts["spectra"]["worst"][kind]
        assert worst.keys() == {"float32", "float64", "complex128"}
        assert all(0 < x <= 8 for x in worst.values())
    calls = parts["overhead"]["data"]["n = 4"]
    assert calls["engine"]["median"] < calls["bed.eigh"]["median"]
    assert len(parts["overhead"]["data"]["profile of bed.eigh"]) > 5
    assert data["timings"]
    for cell in data["timings"]:
        best = min(peer["ms"] for peer in cell["peers"].values() if "ms" in peer)
        assert cell["ratio"] == pytest.approx(best / cell["bed_ms"])


@pytest.mark.slow
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
    if len(a) > 1:
        result.eigenvalues[:1] = 0.5
    return result

bed.eigh = wrong
"""


@pytest.mark.slow
def test_a_wrong_result_fails_the_run(tmp_path):
    only = ("--only", "spectra", "ten_million", "timings")
    result = run(tmp_path, *only, change=WRONG)
    assert result.returncode == 1, result.stdout + result.stderr
    data, text = report(tmp_path)
    for part in data["parts"]:
        assert part["state"] == "failed", part
        assert f"**{part['name']}: {part['failed']} failures**" in text
    assert "test_spectra.py::test_known_spectra" in data["parts"][0]["failures"][0]
    # What is wrong is not timed.
    assert data["timings"] == []


FEW_BLOCKS = "__import__('sys').modules['bed.engines.raw_cuda.eigh'].FILLING == 1"


@pytest.mark.slow
def test_quick_looks_at_every_kernel(tmp_path):
    result = run(tmp_path / "right", "--quick", "--minutes", "5")
    assert result.returncode == 0, result.stdout + result.stderr
    data, _ = report(tmp_path / "right")
    assert [part["name"] for part in data["parts"]] == ["compile", "kernels"]
    worst = data["parts"][1]["worst"]
    for kind in ("residual", "orthogonality", "values", "root", "gradient"):
        assert 0 < worst[kind]["float32"] <= 32
    # Of the engine alone, of its functions, and of blocks with several rounds.
    changes = (
        ("eigh", "if result[1] is not None: result[1][-1] *= 1.01"),
        ("spectral_vjp", "result *= 1.01"),
        ("eigh", f"if {FEW_BLOCKS}: result[0][-1] *= 1 + 2.0**-20"),
    )
    for i, (name, statement) in enumerate(changes):
        folder, change = tmp_path / str(i), _wrong(name, statement)
        assert run(folder, "--quick", "--minutes", "5", change=change).returncode == 1
        assert report(folder)[0]["parts"][1]["state"] == "failed"


def _wrong(name, change):
    """Code that changes what the fused engine's function returns."""
    return f"""
from bed.engines import get
right = get("raw_cuda").load("{name}")

def wrong(*arguments, **options):
    result = right(*arguments, **options)
    {change}
    return result

Engine, load = type(get("raw_cuda")), type(get("raw_cuda")).load
Engine.load = lambda self, name="eigh": (
    wrong if (self.name, name) == ("raw_cuda", "{name}") else load(self, name)
)
"""


TABLE = "__import__('sys').modules['bed.engines.raw_cuda._split_layouts'].CHOSEN"
SEVERAL = f"{TABLE}['float64'] < 64"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("times", ["1", "1 + 2.0**-50", "1.01"])
def test_several_launches_are_compared_with_one(tmp_path, times):
    """Other bits are a failure; what is wrong is not timed."""
    change = _wrong("eigh", f"if {SEVERAL}: result[0][-1] *= {times}")
    result = run(tmp_path, "--only", "several", change="" if times == "1" else change)
    (part,) = report(tmp_path)[0]["parts"]
    assert part["state"] == ("passed" if times == "1" else "failed")
    assert result.returncode == (times != "1"), result.stdout + result.stderr
    if times == "1.01":
        assert "times" not in part["data"]
        return
    (row,) = part["data"]["times"]
    assert (row["dtype"], row["n"]) == ("float64", 40)
    assert row["ratio"] == pytest.approx(row["one_ms"] / row["several_ms"])


FAULTS = {
    # Nothing works in that process any more, as after a fault of a kernel.
    "cupy.asarray = None; raise MemoryError('illegal access')": "illegal access",
    "os._exit(3)": "the process ended with 3",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_part_that_crashes_leaves_the_others_alone(tmp_path, fault):
    change = f"""
import os, cupy

def record(self):
    {fault}

cupy.cuda.Event.record = record
"""
    result = run(tmp_path, "--only", "streams", "ten_million", change=change)
    assert result.returncode == 1, result.stdout + result.stderr
    data, _ = report(tmp_path)
    assert [part["state"] for part in data["parts"]] == ["failed", "passed"]
    assert FAULTS[fault] in data["parts"][0]["failures"][0]


def test_a_worker_that_hangs_is_replaced():
    worker = importlib.import_module("acceptance._worker").Worker()
    assert worker.call(time.sleep, 600, seconds=0.1) == (None, "did not end in time")
    assert worker.call(abs, -3, seconds=60) == (3, "")
    found, problem = worker.call(int, "three", seconds=60)
    assert found is None
    assert problem.startswith("ValueError")
    worker.end()


PYTEST_CRASHES = """
import sys
if "pytest" in sys.orig_argv:
    import os
    from bed.engines import numba_cpu
    numba_cpu.eigh = lambda *arguments, **options: os._exit(7)
"""


def test_tests_that_crash_are_a_failure_of_their_part(tmp_path):
    only = ["--only", "spectra", "ten_million"]
    result = run(tmp_path, *only, change=PYTEST_CRASHES)
    assert result.returncode == 1
    data, _ = report(tmp_path)
    assert [part["state"] for part in data["parts"]] == ["failed", "passed"]
    assert "pytest ended with 7" in data["parts"][0]["failures"][0]


@pytest.mark.slow
def test_tests_that_hang_are_stopped(tmp_path):
    change = PYTEST_CRASHES.replace("os._exit(7)", "time.sleep(600)")
    words = "--only", "spectra", "--minutes", "0.2"
    assert run(tmp_path, *words, change=f"import time\n{change}").returncode == 1
    (part,) = report(tmp_path)[0]["parts"]
    assert part["state"] == "left out"
    assert "stopped, no time left" in part["notes"][0]


WITHOUT_PYTEST = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec

def blind(name, path=None, target=None):
    if name == "pytest" and not any("wheels" in str(each) for each in path or ()):
        return None
    return find(name, path, target)

if "pytest" not in sys.orig_argv:
    PathFinder.find_spec = blind
"""


def test_without_pytest_it_is_said_and_times_are_taken(tmp_path):
    only = ("--only", "spectra", "timings")
    result = run(tmp_path, *only, change=WITHOUT_PYTEST)
    assert result.returncode == 1
    assert "left out: spectra" in result.stdout
    data, text = report(tmp_path)
    assert [part["state"] for part in data["parts"]] == ["left out", "passed"]
    assert data["timings"]
    assert "pip download --dest WHEELS pytest" in text
    assert "pip download --dest WHEELS pytest" in result.stdout


def test_wheels_are_unpacked(tmp_path):
    """A wheel whose pytest is one of ours is what the tests run with."""
    wheels = tmp_path / "folder"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "pytest-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pytest.py", "print('from the wheel')\nraise SystemExit(9)")
    only = ("--only", "spectra", "--wheels", str(wheels))
    run(tmp_path, *only, change=WITHOUT_PYTEST)
    (part,) = report(tmp_path)[0]["parts"]
    assert "pytest ended with 9: from the wheel" in part["failures"][0]


def test_no_time_left(tmp_path):
    result = run(tmp_path, "--only", "zoo", "--minutes", "0")
    assert result.returncode == 1
    assert report(tmp_path)[0]["parts"][0]["state"] == "left out"


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed")
def test_without_cupy():
    result = start()
    assert result.returncode == 2
    assert "needs CuPy: pip install" in result.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_are_small_and_say_what_they_are_for(path):
    text = path.read_text()
    assert len(text.splitlines()) < 300
    assert ast.get_docstring(ast.parse(text))
