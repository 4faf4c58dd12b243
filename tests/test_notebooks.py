"""Every notebook runs from top to bottom, and is kept without its outputs."""

import sys
from pathlib import Path

import pytest

import bed

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat to be read")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_notebooks():
    assert NOTEBOOKS


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


@pytest.mark.slow
def test_runs(notebook, tmp_path, monkeypatch):
    for module in "nbclient", "ipykernel", "matplotlib":
        pytest.importorskip(module, reason=f"notebooks need {module} to run")
    import nbclient
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    monkeypatch.setenv("PYTHONPATH", str(Path(bed.__file__).parents[1]))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
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
