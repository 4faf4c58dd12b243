"""The documentation has every public name, and its examples give what they show."""

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "scripts" / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {
    "bed.linalg": None,
    "bed.jax": None,
    "bed.nn": "torch",
    "bed.nn.functional": "torch",
    "bed.files": None,
    "bed.dask": "dask",
    "bed.xarray": "xarray",
    "bed": None,
}


@pytest.mark.parametrize("module", NEEDS)
def test_every_public_name_is_in_the_reference(module):
    if NEEDS[module]:
        pytest.importorskip(NEEDS[module])
    public = importlib.import_module(module)
    listed = re.findall(
        rf"^\.\. (?:auto\w+|data):: {re.escape(module)}\.(\w+)$",
        (DOCS / "reference.rst").read_text(),
        re.MULTILINE,
    )
    names = {n for n in public.__all__ if not inspect.ismodule(getattr(public, n))}
    assert names <= set(listed)
    assert len(listed) == len(set(listed))
    for name in listed:
        text = inspect.getdoc(getattr(public, name))
        assert text and not text.startswith(f"{name}("), name


def test_every_page_is_in_the_table_of_contents():
    entries = re.findall(r"^\w+$", (DOCS / "index.md").read_text(), re.MULTILINE)
    found = {page.stem for page in DOCS.iterdir() if page.suffix in (".md", ".rst")}
    found -= {"index"}
    assert set(entries) == found


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_files_that_a_text_names_are_there(page):
    text = page.read_text("utf-8")
    links = [page.parent / x for x in re.findall(r"\]\(([^)#:]+)\)", text)]
    paths = [ROOT / x for x in re.findall(r"\b(?:scripts|bed|tests)/[\w./-]*\w", text)]
    assert [str(path) for path in links + paths if not path.exists()] == []


# torch itself calls it, for forward mode.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_comes_out(page, tmp_path, monkeypatch):
    """Blocks of one page share names. Those without prompts are only compiled."""
    monkeypatch.chdir(tmp_path)
    names, failed = {}, 0
    for block in BLOCK.findall(page.read_text()):
        if not block.startswith(">>>"):
            ast.parse(block)
            continue
        for library in ("torch", "jax", "dask", "xarray"):
            if re.search(rf"\b(import|from) (bed\.)?{library}\b", block):
                pytest.importorskip(library)
        example = doctest.DocTestParser().get_doctest(block, names, page.name, None, 0)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
            example, clear_globs=False
        )
        names, failed = example.globs, failed + result.failed
    assert failed == 0
