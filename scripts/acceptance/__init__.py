"""Parts of `scripts/gpu_acceptance.py`, each checking or timing one promise of bed.

Importing this package makes `bed` importable without an installation.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
