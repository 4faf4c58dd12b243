"""Run code in an interpreter of its own."""

import os
import subprocess
import sys

import emulated


def run_python(code, driver=None):
    """Run code in a new interpreter that finds bed; returns what it printed.

    `driver` is the engine the code uses, if it may be one that only these tests know.
    """
    if driver == emulated.ENGINE.name:
        code = f"import emulated, bed\nbed.engines.register(emulated.ENGINE)\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,  # seconds, where one or two are needed
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
