"""Waiting in tests for what another process does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def comes_true(is_so: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return True as soon as the condition holds, False after the time."""
    deadline = time.monotonic() + seconds
    while not (so := is_so()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return so
