"""A run while it goes on: a table in a terminal, a plain line every minute where the output is none.

The table is laid out by `live_table.py`. The driver hands over a way to make a LiveView, and it is asked only when a refresh
is due: at most twice a second, and so seldom that showing takes no more than 2 % of the driver's time. Nothing here runs in a
thread of its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live as RichLive

from aiperf.drive.live_table import line, table
from aiperf.drive.live_values import LAST_STAGE, LiveView

REFRESH_SECONDS = 0.5
LINE_SECONDS = 60.0
LARGEST_SHARE = 0.02
"""Of the driver's time, spent on showing."""


def terminal() -> Console:
    """What a run is shown on: whether it is a terminal is asked of the terminal alone, and one that can do nothing is none."""
    can_move = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Console(force_terminal=can_move)


class Live:
    """Shows a run for as long as it is open. Use it in a `with` block; what is printed meanwhile goes above the table."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds from any beginning."""
        self._console = console
        self._clock = clock
        self._next = clock()
        self._next_line = self._next
        self._stage: str | None = None
        self._live: RichLive | None = None
        """From the first refresh on, in a terminal."""
        self._size = console.size

    def show(self, make: Callable[[], LiveView], *, is_last: bool = False) -> bool:
        """Shows the run if a refresh is due, and says whether it did; `make` is called only then. The last one always is due,
        and stays."""
        before = self._clock()
        if before < self._next and not is_last:
            return False
        shown = self._draw(make(), is_last)
        spent = self._clock() - before
        self._next = before + max(REFRESH_SECONDS, spent / LARGEST_SHARE)
        if not self._console.is_terminal and self._stage == LAST_STAGE:
            self._next = max(self._next, self._next_line)  # nothing is to be said before
        if is_last:
            self._close()
        return shown

    def _draw(self, view: LiveView, is_last: bool) -> bool:
        if self._console.is_terminal:
            self._update(view)
            return True
        now, before, self._stage = self._clock(), self._stage, view.stage
        if now < self._next_line and self._stage == before and not is_last:
            return False
        self._next_line = now + LINE_SECONDS
        self._console.print(line(view), markup=False, highlight=False, soft_wrap=True)
        return True

    def _update(self, view: LiveView) -> None:
        size = self._console.size
        if self._live is not None and size != self._size:
            # how a terminal folds lines that were there before is its own affair: the table begins anew on an empty screen
            self._close(is_kept=False)
            self._console.clear()
        if self._live is None:
            self._live = RichLive(console=self._console, auto_refresh=False)
            self._live.start()
        self._size = size
        can_draw = self._console.encoding.startswith("utf")
        width = size.width if can_draw else size.width - 2  # '…' is three signs there
        shown = table(view, width, size.height - 1, can_draw=can_draw)
        self._live.update(Group(*shown), refresh=True)

    def _close(self, *, is_kept: bool = True) -> None:
        if self._live is not None:
            self._live.transient = not is_kept
            self._live.stop()
            self._live = None

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
