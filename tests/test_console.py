"""Whatever is printed survives a console that cannot encode all of it."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bed
from bed import _console
from bed.__main__ import main

ROOT = Path(__file__).parents[1]
# Environments of consoles, and what of "×" and "≤" they show.
CONSOLES = {
    "ascii": ({"PYTHONIOENCODING": "ascii"}, "x", "<="),
    "cp1252": ({"PYTHONIOENCODING": "cp1252"}, "×", "<="),
    "LANG=C": (
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "x",
        "<=",
    ),
    "utf-8": ({"PYTHONIOENCODING": "utf-8"}, "×", "≤"),
}


@pytest.fixture(params=CONSOLES)
def console(request):
    """Name, and a function that runs Python on a console and returns what it shows."""
    settings, times, at_most = CONSOLES[request.param]
    encoding = settings.get("PYTHONIOENCODING", "ascii")
    unset = ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LC_CTYPE", "LANG")
    inherited = {k: v for k, v in os.environ.items() if k not in unset}

    def run(*words):
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *sys.path[1:]])
        done = subprocess.run(
            [sys.executable, "-W", "error", *map(str, words)],
            env={**inherited, **settings, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return (done.stdout + done.stderr).decode(encoding)

    return run, times, at_most


EXPLAIN = """
import bed, numpy as np
explanation = bed.explain(np.eye(3, dtype="f4")[None])
print(explanation)
print([explanation])
bed.show_config()
"""


def test_explanations(console):
    run, times, at_most = console
    shown = run("-c", EXPLAIN)
    assert shown.count(f"1 matrices of 3 {times} 3, float32") == 2
    assert f"with eigenvectors, n {at_most} " in shown
    assert f"bed {bed.__version__}" in shown


MAIN = """
import sys
from bed.testing import clock
clock.ROUNDS = 1
import bed.cli.demo as demo
demo._draw = lambda rows, out: None
sys.stderr.isatty = lambda: True
from bed.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "words, told",
    [
        (["info"], "engines:"),
        (["cache"], "files"),
        (["bench", "--n", "2", "--batch", "9"], "matrices/s"),
        (["--help"], "eigh | demo | info | bench | cache"),
        (["bench", "--help"], "--values-only"),
        (["demo", "--help"], "--out"),
        (["eigh", "--help"], "--eigenvalues-only"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_the_command_line(console, words, told):
    assert told in console[0]("-c", MAIN, *words)


@pytest.mark.sweep(2)
def test_the_demo(console, tmp_path):
    shown = console[0]("-c", MAIN, "demo", "--out", tmp_path / "demo.png")
    assert "promises" in shown
    assert "orthog." in shown


@pytest.mark.parametrize("name", ["overhead", "tune_policy", "gpu_acceptance"])
def test_help_of_the_scripts(console, name):
    assert f"usage: {name}.py" in console[0](ROOT / "scripts" / f"{name}.py", "--help")


@pytest.mark.sweep(6)
def test_what_scripts_print(console):
    run, times, _ = console
    pytest.importorskip("torch")
    words = ("--calls", "2", "--limit", "1e9", "--limit-numpy", "1e9")
    assert "kept" in run(ROOT / "scripts" / "overhead.py", *words)
    say = "from acceptance._run import Run; Run(1, True, 0).say('4 \\xd7 4')"
    shown = run("-c", f"import sys; sys.path.append('scripts'); {say}")
    assert shown.rstrip().endswith(f"4 {times} 4")


def stream(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding)


def test_only_what_cannot_be_shown_is_replaced():
    text = "8·n·eps, Aᴴ, λ → 0, ⟨x⟩ …"
    assert _console.printable(text, stream("utf-8")) == text
    assert _console.printable(text, io.StringIO()) == text
    plain = r"8*n*eps, A^H, lambda -> 0, \u27e8x\u27e9 ..."
    assert _console.printable(text, stream("ascii")) == plain
    assert _console.printable("µ·×≤", stream("latin-1")) == "µ·×<="


def test_names_of_files_are_not_transliterated(monkeypatch, tmp_path):
    np.save(tmp_path / "in.npy", np.eye(2)[None])
    console = stream("ascii")
    monkeypatch.setattr(sys, "stdout", console)
    assert main(["eigh", str(tmp_path / "in.npy"), str(tmp_path / "λ×\udce9")]) == 0
    told = console.buffer.getvalue().decode("ascii")
    assert f"status: {tmp_path}/" + r"\u03bb\xd7\udce9/status.npy" in told


def test_every_sign_has_a_plain_form():
    for sign, plain in _console._PLAIN.items():
        assert len(sign) == 1
        assert not sign.isascii()
        assert plain.isascii()


def test_progress_is_for_terminals(monkeypatch):
    quiet, terminal = stream("ascii"), stream("ascii")
    terminal.isatty = lambda: True
    for file in (quiet, terminal):
        monkeypatch.setattr(sys, "stderr", file)
        _console.progress("8 × 8 …")
    assert quiet.buffer.getvalue() == b""
    assert terminal.buffer.getvalue() == b"\r\x1b[K8 x 8 ..."


def test_an_explanation_is_for_the_output_that_there_is(monkeypatch):
    explanation = bed.explain(np.eye(3))
    assert "3 × 3" in str(explanation)
    monkeypatch.setattr(sys, "stdout", stream("ascii"))
    assert "3 x 3" in str(explanation)
    monkeypatch.setattr(sys, "stdout", None)  # as under pythonw
    assert "3 × 3" in str(explanation)
