"""What is installed, and what is said where something is not."""

import configparser
import os
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

import bed

ROOT = Path(__file__).parents[1]
# CuPy as it is where there is no driver: it can be imported and that is all.
CUPY_WITHOUT_A_DRIVER = """
class runtime:
    @staticmethod
    def getDeviceCount():
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

class cuda:
    runtime = runtime

class ndarray: pass

def asarray(a):
    return runtime.getDeviceCount()

empty = asarray
"""
WARM_UP = "import bed; bed.warmup(device='cuda')"


def python(*words, path=(), **environment):
    """Outcome of a new interpreter in which warnings are errors."""
    path = os.pathsep.join([*map(str, path), str(ROOT), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
    )


@pytest.fixture
def without_a_driver(tmp_path):
    """A folder in which CuPy finds no device."""
    (tmp_path / "cupy.py").write_text(CUPY_WITHOUT_A_DRIVER)
    return [tmp_path]


def test_engines_are_ready_where_a_driver_is(without_a_driver):
    shown = python("-m", "bed", "info", path=without_a_driver)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    states = {
        line.split()[0]: state.strip()
        for line, state in pairwise(lines)
        if line.startswith("  ") and line[2] != " "
    }
    for name in ("raw_cuda", "cusolver"):
        assert states[name] == "needs a GPU: no CUDA device (RuntimeError)"
    for name in ("numba_cpu", "lapack", "reference"):
        assert states[name] == "ready"


def test_a_gpu_that_is_not_there_is_a_sentence(without_a_driver):
    done = python("-m", "bed", "bench", "--device", "cuda", path=without_a_driver)
    assert done.returncode == 1
    sentence = "--device cuda needs a GPU: no CUDA device (RuntimeError)"
    assert done.stderr.strip() == sentence
    code = (
        "import bed\ntry: bed.warmup(device='cuda')\nexcept ImportError as e: print(e)"
    )
    told = python("-c", code, path=without_a_driver)
    assert told.stdout.strip() == (
        "device='cuda' needs a GPU: no CUDA device (RuntimeError)"
    )


def test_without_cupy_it_is_said_what_to_install():
    code = (
        "import sys; sys.modules['cupy'] = None; import bed; bed.warmup(device='cuda')"
    )
    told = python("-c", code).stderr.splitlines()[-1]
    assert "ImportError: " in told
    assert "batched-ed[cuda12]" in told


def test_the_demo_without_matplotlib(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from bed.testing import clock\nclock.ROUNDS = 1"
    )
    words = "-m", "bed", "demo", "--out", tmp_path / "demo.png"
    done = python(*words, path=[tmp_path])
    assert done.returncode == 0, done.stderr
    assert "within the 8 n·eps" in done.stdout
    assert "no picture: it needs matplotlib" in done.stdout
    assert not (tmp_path / "demo.png").exists()


OLD_JAX = "__version__ = '0.6.2'\n__version_info__ = (0, 6, 2)"


@pytest.mark.parametrize(
    "source, told",
    [
        ("raise ImportError", "bed.jax needs JAX: pip install 'batched-ed[jax]'"),
        (OLD_JAX, "bed.jax does not know JAX 0.6.2: pip install 'batched-ed[jax]'"),
    ],
)
def test_jax_that_is_missing_or_too_old(tmp_path, source, told):
    (tmp_path / "jax.py").write_text(source)
    code = "import bed.jax; bed.jax.eigh([[1.0]])"
    said = python("-c", code, path=[tmp_path]).stderr.splitlines()[-1]
    assert told in said
    assert "Python 3.11" in said


@pytest.fixture
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", "utf-8")
    return parser


def test_requirements_have_a_solution_on_python_3_10(setup_cfg):
    requirements = pytest.importorskip("packaging.requirements")
    found = 0
    for extra, text in setup_cfg["options.extras_require"].items():
        for line in text.split("\n"):
            if not line or line.startswith("#"):
                continue
            each = requirements.Requirement(line)
            found += each.name in ("jax", "torch")
            if each.name == "jax":
                assert not each.marker.evaluate({"python_version": "3.10"}), extra
                assert each.marker.evaluate({"python_version": "3.11"})
            if each.name == "torch":  # 2.4 has no CustomOpDef.register_vmap
                assert not each.specifier.contains("2.4.1"), extra
    assert found == 8


def test_classifiers(setup_cfg):
    told = setup_cfg["metadata"]["classifiers"].split("\n")
    assert "Typing :: Typed" in told
    for minor in range(10, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in told
    assert (Path(bed.__file__).parent / "py.typed").exists()


def test_what_is_no_python_is_installed_too(setup_cfg):
    told = set()
    for name, patterns in setup_cfg["options.package_data"].items():
        folder = ROOT.joinpath(*name.split("."))
        for pattern in patterns.replace(",", " ").split():
            found = set(folder.glob(pattern))
            assert found, f"{name} has no {pattern}"
            told |= found
    compiled = {".py", ".pyc", ".pyo", ".nbi", ".nbc"}
    files = {p for p in (ROOT / "bed").rglob("*.*") if p.is_file()}
    assert {p for p in files if p.suffix not in compiled} == told


@pytest.mark.slow
def test_a_source_distribution_is_whole(tmp_path):
    """All files of the project, so that its tests can be run from it."""
    pytest.importorskip("setuptools")
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    if not files:
        pytest.skip("the files of the project are known to git alone")
    tree = tmp_path / "tree"
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    (tree / "tests" / "__pycache__").mkdir()
    (tree / "tests" / "__pycache__" / "junk.pyc").touch()
    code = "import build_backend; build_backend.build_sdist('out')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "scripts")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (archive,) = (tree / "out").iterdir()
    with tarfile.open(archive) as packed:
        names = {m.name.partition("/")[2] for m in packed.getmembers() if m.isfile()}
    assert set(files) <= names
    assert not [name for name in names if "__pycache__" in name]
