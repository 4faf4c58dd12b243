"""scripts/smoke.py sees what is wrong with a wheel; scripts/wheel runs it on ours."""

from zipfile import ZipFile

import pytest

from loaded_script import load_script

FILES = {"__init__.py": "x = 1", "data/a.md": "# a", "src/a.cu": "void a();"}


@pytest.fixture
def script():
    return load_script("smoke")


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "tree" / "bed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def wheel(path, files):
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"bed/{name}", text)
        archive.writestr("bed-1.dist-info/RECORD", path.name)
    return path


def test_the_same_files_in_both_wheels_and_the_tree(script, tree, tmp_path):
    wheels = [wheel(tmp_path / name, FILES) for name in ("a.whl", "b.whl")]
    assert script.check_wheels(wheels, tree) == 3


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("text", [None, "other"])
def test_a_file_that_differs_is_named(script, tree, tmp_path, name, where, text):
    """Missing or other in the first wheel, the second, or both."""
    changed = {n: t for n, t in (FILES | {name: text}).items() if t is not None}
    contents = [changed if where in (i, 2) else FILES for i in range(2)]
    wheels = [wheel(tmp_path / f"{i}.whl", f) for i, f in enumerate(contents)]
    with pytest.raises(SystemExit, match=f"not the same on both sides: bed/{name}"):
        script.check_wheels(wheels, tree)


def test_an_environment_with_more_in_it_is_seen(script):
    with pytest.raises(SystemExit, match=r"imported from|pytest"):
        script.check_environment()


def test_a_command_that_fails_is_shown(script):
    with pytest.raises(SystemExit, match="invalid choice"):
        script.check_command("nonsense")
