"""What tests of every engine share."""

import pytest

from bed import engines


def skip_unless_taken(driver, n):
    """Skip a test at a size that an engine says it does not take."""
    engine = engines.get(driver)
    if not engine.takes(n):
        pytest.skip(f"{driver} takes n ≤ {engine.max_n}")
