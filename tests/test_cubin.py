"""Machine code of kernels on disk, beside CuPy's, with a compiler that is none."""

import sys
import types
from pathlib import Path

import pytest

import emulated

cubin = emulated.engine_module("_cubin")
OPTIONS = ("-std=c++17",)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """What was compiled; machine code is the source, and names come back lowered."""
    calls = []

    def compile_using_nvrtc(code, options=(), *, name_expressions):
        calls.append((code, options))
        return code.encode(), {name: f"_Z{name}" for name in name_expressions}

    device = types.SimpleNamespace(compute_capability="90")
    cuda = types.SimpleNamespace(
        Device=lambda: device,
        compiler=types.SimpleNamespace(compile_using_nvrtc=compile_using_nvrtc),
        nvrtc=types.SimpleNamespace(getVersion=lambda: (13, 0)),
    )
    cupy = types.SimpleNamespace(cuda=cuda, __version__="14")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kept"))
    cubin._folder.cache_clear()
    yield types.SimpleNamespace(calls=calls, device=device)
    cubin._folder.cache_clear()


def test_what_was_compiled_is_found_again(compiler, tmp_path):
    path, name = cubin.compiled("source", "kernel<1>", OPTIONS)
    assert Path(path).read_bytes() == b"source"
    assert name == "_Zkernel<1>"
    assert Path(path).is_relative_to(tmp_path / "kept")
    assert compiler.calls == [("source", OPTIONS)]  # as it is told, nothing is added
    assert cubin.compiled("source", "kernel<1>", OPTIONS) == (path, name)
    assert len(compiler.calls) == 1
    assert [x for x in (tmp_path / "kept").iterdir() if x.name[:3] != "bed"] == []


def test_whatever_it_depends_on_is_compiled_anew(compiler):
    cubin.compiled("source", "kernel<1>", OPTIONS)
    others = [
        ("edited", "kernel<1>", OPTIONS),
        ("source", "kernel<2>", OPTIONS),
        ("source", "kernel<1>", ()),
    ]
    found = {cubin.compiled(*other)[0] for other in others}
    compiler.device.compute_capability = "100"
    found.add(cubin.compiled("source", "kernel<1>", OPTIONS)[0])
    assert len(found) == 4
    assert len(compiler.calls) == 5


def test_where_nothing_can_be_kept(compiler, tmp_path):
    """The kernel is there all the same, for this process."""
    kept = tmp_path / "kept"
    kept.write_text("a file")
    path, _ = cubin.compiled("source", "kernel<1>", OPTIONS)
    assert Path(path).read_bytes() == b"source"
    assert not Path(path).is_relative_to(kept)
    assert cubin.compiled("source", "kernel<1>", OPTIONS)[0] == path
    assert len(compiler.calls) == 1


def test_another_process_was_faster(compiler, monkeypatch):
    """Its result is taken, and nothing of this one stays."""
    store = cubin._store

    def late(folder, files):
        store(folder, {"kernel.cubin": b"theirs", "name": b"_Ztheirs"})
        store(folder, files)

    monkeypatch.setattr(cubin, "_store", late)
    path, name = cubin.compiled("source", "kernel<1>", OPTIONS)
    assert Path(path).read_bytes() == b"theirs"
    assert name == "_Ztheirs"
    assert [x.name for x in Path(path).parents[1].iterdir()] == [Path(path).parent.name]
