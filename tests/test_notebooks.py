"""Every notebook runs from top to bottom, and is kept without its outputs."""

import ast
import configparser
import re
import sys
from pathlib import Path

import pytest

import bed

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat to be read")

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The package, scripts beside it, and what only those with a GPU have.
NOT_REQUIRED = {"bed", "_data", "cupy"}


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_documentation_names_all():
    pages = (ROOT / "scripts" / "docs").glob("*.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    named = set(re.findall(r"notebooks/(\w+)\.ipynb", text))
    assert named == {path.stem for path in NOTEBOOKS}


def test_kept_without_outputs(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is None
            assert cell.outputs == []
            assert "execution" not in cell.metadata
    assert notebook.metadata.kernelspec.name == "python3"


def test_short_and_prose_first(notebook):
    nbformat.validate(notebook)
    assert 8 <= len(notebook.cells) <= 15
    assert notebook.cells[0].cell_type == "markdown"


def test_extra_has_what_is_imported(notebook):
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    required = config["options"]["install_requires"]
    required += config["options.extras_require"]["notebooks"]
    required = set(re.findall(r"^[\w-]+", required, re.MULTILINE))
    code = "\n".join(c.source for c in notebook.cells if c.cell_type == "code")
    imported = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    imported = {name.split(".")[0] for name in imported} - NOT_REQUIRED
    imported = {"pillow" if name == "PIL" else name for name in imported}
    assert "matplotlib" in imported
    assert imported - set(sys.stdlib_module_names) <= required


@pytest.mark.slow
def test_runs(notebook, tmp_path, monkeypatch):
    for module in "nbclient", "ipykernel", "matplotlib":
        pytest.importorskip(module, reason=f"notebooks need {module} to run")
    import nbclient
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    monkeypatch.setenv("PYTHONPATH", str(Path(bed.__file__).parents[1]))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("BED_SMOKE", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    # Without folders to look in, the only kernel is that of this interpreter. It is set
    # here, not above, because then the client shuts it down.
    kernels = KernelSpecManager(kernel_dirs=[])
    client.km = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=kernels)
    assert client.km.kernel_spec.argv[0] == sys.executable
    client.execute()
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert not [o for o in outputs if o.output_type == "error"]
    assert any("image/png" in o.get("data", {}) for o in outputs)
