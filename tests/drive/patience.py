"""A Ray on a machine that does much else: it gives its own start up after 30 s (Ray 2.60), and is then begun again."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import TypeVar

TRIES = 4
GAVE_UP = "timed out during startup"
"""In Ray's own words, which a run passes on."""
Brought = TypeVar("Brought")


def patiently(bring_up: Callable[[], Brought]) -> Brought:
    """Repeat `bring_up` if Ray reached its own time limit. Any other error is raised."""
    for _ in range(TRIES - 1):
        try:
            return bring_up()
        except Exception as error:  # Ray has no own class for it
            if GAVE_UP not in str(error):
                raise
        with warnings.catch_warnings():
            # processes of Ray's failed start have ended but are not reaped: not a fault of the next test
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return bring_up()
