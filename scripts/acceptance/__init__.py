"""Parts of `scripts/gpu_acceptance.py`, each checking or timing one promise of bed.

Importing this package makes `bed` and the helpers of its tests importable without an
installation.
"""

import sys
import types
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]

for _folder in (ROOT, ROOT / "tests"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))

# tests/checks.py imports pytest for skips alone, which nothing here asks for.
if "pytest" not in sys.modules and find_spec("pytest") is None:
    sys.modules["pytest"] = types.ModuleType("pytest")
