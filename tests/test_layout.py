"""The tree keeps its shape: stems mirrored, imports downwards, files small."""

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import bed
from bed.engines import engines

ROOT = Path(bed.__file__).parent
TESTS = Path(__file__).parent
SCRIPTS = sorted((TESTS.parent / "scripts").rglob("*.py"))
SOURCES = sorted(ROOT.rglob("*.py"))
SCRIPTS = sorted((TESTS.parent / "scripts").rglob("*.py"))

# Lower layers may not import from higher ones; the name is the module under `bed`, and
# the longest match counts.
LAYERS = {
    "_version": 0,
    "_status": 0,
    "_functions": 0,
    "_console": 0,
    "testing": 0,
    "_data": 0,
    "engines.scalar": 0,
    "engines._float_mode": 0,
    "engines._constants": 1,
    "engines._outputs": 1,
    "engines._threads": 1,
    "engines._library": 1,
    "engines": 2,
    "_derivative": 0,
    "_dispatch": 3,
    "_dispatch.interop": 4,
    "_dispatch.normalize": 5,
    "_dispatch.symmetry": 5,
    "_dispatch.policy": 5,
    "_dispatch.again": 6,
    "_dispatch.solve": 6,
    "_dispatch.matfun": 6,
    "autograd": 7,
    "_config": 7,
    "_generalized": 8,
    "_eigh": 8,
    "_explain": 8,
    "_extremal": 8,
    "_stages": 8,
    "_warmup": 8,
    "matfun": 8,
    "_eigh_list": 9,
    "_funm": 9,
    "jax": 9,
    "linalg": 9,
    "": 10,  # the package itself
    "nn._inputs": 11,
    "nn._moments": 11,
    "nn._roots": 11,
    "nn.functional": 12,
    "nn.whitening": 13,
    "nn.covariance_pooling": 13,
    "nn.wct": 13,
    "nn._convert": 14,
    "nn": 15,
    "_files.windows": 11,
    "_files.progress": 11,
    "_files.journal": 11,
    "_files.batch": 11,
    "_files.npy": 12,
    "_files.zarr": 12,
    "_files.summary": 13,
    "_files.on_cuda": 13,
    "_files": 14,
    "files": 15,
    "dask": 11,
    "xarray": 12,
    "cli": 16,
    "__main__": 17,
}
# Inside `bed.engines` the registry imports no engine, and each engine is on its own.
ENGINE_PACKAGES = {p.parent.name for p in (ROOT / "engines").glob("*/eigh.py")}


def _module(path):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return re.sub(r"\.?__init__$", "", name)


def _imports(path):
    """Modules of bed that a file imports, as names under `bed`."""
    module = _module(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".") if package else []
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join(["bed", *parts, *([base] if base else [])])
            # Of `from . import x`, x counts if it is a module, else the package does.
            names = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if _is_file(name[4:]) else base for name in names]
        else:
            continue
        for name in names:
            if name == "bed" or name.startswith("bed."):
                yield name[4:]


def _layer(name):
    while name not in LAYERS:
        name = name.rpartition(".")[0]
    return LAYERS[name]


def _is_file(name):
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@pytest.mark.parametrize("path", SOURCES, ids=_module)
def test_imports_go_downwards(path):
    module = _module(path)
    engine = next((e for e in ENGINE_PACKAGES if module.startswith(f"engines.{e}")), "")
    for name in _imports(path):
        inside = name.startswith(f"engines.{engine}") if engine else False
        rest = ENGINE_PACKAGES - {engine}
        others = [e for e in rest if name.startswith(f"engines.{e}")]
        assert not others, f"bed.{module} imports another engine: bed.{name}"
        assert inside or _layer(name) <= _layer(module), f"bed.{module} ← bed.{name}"


@pytest.mark.parametrize("path", [*SOURCES, *SCRIPTS], ids=str)
def test_one_function_prints(path):
    """It alone knows what a console can show; see `bed._console`."""
    if path == ROOT / "_console.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("print", "sys.stdout.write", "sys.stderr.write")
            assert name != "argparse.ArgumentParser", "its help is printed"


def test_every_package_is_a_registered_engine():
    assert ENGINE_PACKAGES <= {engine.name for engine in engines()}


def test_engines_mirror_the_stems_of_the_reference():
    stems = {p.stem for p in (ROOT / "engines" / "reference").glob("[a-z]*.py")}
    assert {"eigh", "tridiagonalize", "back_transform", "qr_iteration"} <= stems
    for name in ENGINE_PACKAGES:
        own = {p.stem for p in (ROOT / "engines" / name).glob("[a-z]*.py")}
        assert own <= stems, f"{name} has files the reference lacks: {own - stems}"
        assert "eigh" in own


def _written_from_outside(source):
    """Lines of a file that change what another module of bed holds.

    Entries, attributes and mutating methods of what was imported from bed, and calls
    that an import makes to functions from there: a registry filled from above.
    """
    tree = ast.parse(source)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = getattr(node, "module", None) or node.names[0].name
            if getattr(node, "level", 0) or package.partition(".")[0] == "bed":
                imported |= {alias.asname or alias.name for alias in node.names}

    def is_foreign(node):
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in imported

    for node in ast.walk(tree):
        targets = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            # A plain name is bound anew, unless it is changed in place.
            bound = isinstance(target, ast.Name) and not isinstance(node, ast.AugAssign)
            if not bound and is_foreign(target):
                yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in MUTATING and is_foreign(node.func.value):
                yield node.lineno
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if is_foreign(node.value.func):
                yield node.lineno


MUTATING = {
    *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("register", "remove", "setdefault", "update"),
}


@pytest.mark.parametrize("path", [*SOURCES, *SCRIPTS], ids=str)
def test_nothing_is_registered_upwards(path):
    lines = list(_written_from_outside(path.read_text()))
    assert not lines, f"{path} fills what another module holds, in lines {lines}"


@pytest.mark.parametrize(
    "line",
    ["TABLE['x'] = 1", "_eigh.TABLE['x'] = 1", "TABLE.update(x=1)", "_eigh.TABLE = {}",
     "_eigh.ROWS.append(1)", "register('x')", "del TABLE['x']", "TABLE |= {}"],
)  # fmt: skip
def test_a_registry_filled_from_above_is_seen(line):
    imports = "from bed import _eigh\nfrom bed._eigh import TABLE, register\n"
    assert set(_written_from_outside(imports + line)) == {3}
    assert not list(_written_from_outside("TABLE = {}\n" + line))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("path", SCRIPTS, ids=str)
def test_scripts_stand_on_the_library(path):
    """They import bed and each other, and neither tests nor what a user cannot have."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        helpers = {p.stem for p in TESTS.iterdir()} | {"tests"}
        assert not helpers & {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "path", [*SOURCES, *SCRIPTS, *sorted(TESTS.glob("*.py"))], ids=str
)
def test_files_are_small_and_say_what_they_are_for(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text)), "no module docstring"


def test_public_names_are_listed_and_documented():
    public = {name for name in vars(bed) if not name.startswith("_")}
    modules = {name for name in public if isinstance(getattr(bed, name), type(bed))}
    assert public - modules == set(bed.__all__) - {"__version__"}
    for name in set(bed.__all__) - {"__version__"}:
        assert getattr(bed, name).__doc__, name


def test_version_is_the_installed_one():
    assert bed.__version__ == metadata.version("batched-ed")


def test_import_loads_numpy_alone():
    code = (
        "import sys, numpy; before = set(sys.modules); import bed; "
        "new = {m.partition('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "['bed']"


def test_import_survives_a_cupy_without_a_driver(tmp_path):
    """CuPy that is installed and cannot start must not be noticed by host arrays."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(
        "raise ImportError('libcuda.so.1: cannot open shared object file')"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import bed, numpy as np; "
        "print(bed.eigvalsh(np.diag([2.0, 1.0])).tolist()); bed.show_config()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.startswith("[1.0, 2.0]")
    assert "no CUDA device (ImportError)" in result.stdout
