"""`jax_on_four_devices.py` passes, in a process whose CPU is four devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

# XLA ends the process where devices wait for each other longer than 40 s, which they do
# on a machine that is busy.
FLAGS = (
    "--xla_force_host_platform_device_count=4 "
    "--xla_cpu_collective_call_terminate_timeout_seconds=600"
)


@pytest.mark.slow
def test_on_four_devices():
    file = Path(__file__).with_name("jax_on_four_devices.py")
    flags = os.environ.get("XLA_FLAGS", "")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": f"{flags} {FLAGS}"},
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-5000:]
