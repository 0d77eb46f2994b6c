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
    """What `bring_up` brings up; anything but Ray's own hurry is an error at once."""
    for _ in range(TRIES - 1):
        try:
            return bring_up()
        except Exception as error:  # Ray has no class of its own for it
            if GAVE_UP not in str(error):
                raise
        with warnings.catch_warnings():
            # what Ray had begun is ended, and nobody has waited for it: that is no fault of the test that comes next
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return bring_up()
