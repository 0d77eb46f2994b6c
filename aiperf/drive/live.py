"""Display of a running run: a table in a terminal, or one line per minute if the output is not a terminal.

`live_table.py` renders the table. The driver passes a function that makes a LiveView. It is called only when a refresh
is due: at most twice a second, and within 2 % of the driver's time. No thread is started.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live as RichLive

from aiperf.drive.live_table import line, table
from aiperf.drive.live_view import LiveView

REFRESH_SECONDS = 0.5
LINE_SECONDS = 60.0
LARGEST_SHARE = 0.02
"""Maximum share of the driver's time for the display."""


def terminal() -> Console:
    """Return the console of standard output.

    A terminal without cursor control (TERM=dumb) is treated as a plain file.
    """
    can_move = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Console(force_terminal=can_move)


class Live:
    """Display of a run, used in a `with` block. Lines printed meanwhile appear above the table."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds from any beginning."""
        self._console = console
        self._clock = clock
        self._next = clock()
        self._live: RichLive | None = None
        """From the first refresh on, in a terminal."""

    def show(self, make: Callable[[], LiveView], *, is_last: bool = False) -> bool:
        """Show the run if a refresh is due.

        Return whether it was shown. `make` is called only then. The last refresh is always due, and its table stays on
        the screen.
        """
        before = self._clock()
        if before < self._next and not is_last:
            return False
        if self._console.is_terminal:
            self._update(make())
        else:
            self._console.print(line(make()), markup=False, highlight=False, soft_wrap=True)
        interval = REFRESH_SECONDS if self._console.is_terminal else LINE_SECONDS
        self._next = before + max(interval, (self._clock() - before) / LARGEST_SHARE)
        if is_last:
            self._close()
        return True

    def _update(self, view: LiveView) -> None:
        if self._live is None:
            self._live = RichLive(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(table(view, self._console.size.height), refresh=True)

    def _close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
