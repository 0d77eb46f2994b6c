"""Progress lines for the phases before and after the live table, one line per phase with its duration.

A terminal shows the seconds of the current phase. Other outputs get one line at the beginning and one at the end.
The lines go to standard error.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from aiperf import interrupts
from aiperf.units import duration

TICK_SECONDS = 0.5
WORTH_A_LINE_SECONDS = 0.3
"""Shortest duration of a phase that is printed."""
REPEAT_SECONDS = 60.0
"""Interval between lines about the same phase if the output is no terminal."""


class Phases:
    """Sequence of phases. The next phase ends the current one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream`: default: standard error."""
        self._stream = sys.stderr if stream is None else stream
        self._updates = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._name: str | None = None
        self._began = 0.0
        self._is_shown = False
        self._over = threading.Event()
        self._ticks: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """Begin a phase, for example `starting Ray`."""
        self.end()
        interrupts.check()
        self._name, self._began, self._over = name, time.monotonic(), threading.Event()
        self._ticks = threading.Thread(target=self._tick, args=(self._over,), name="phases", daemon=True)
        self._ticks.start()

    def end(self, *, is_done: bool = True) -> None:
        """End the current phase, if there is one. `is_done`: False for an interrupted phase, printed without its time."""
        if self._name is None or self._ticks is None:
            return
        self._over.set()
        self._ticks.join()
        took = time.monotonic() - self._began
        line = f"{self._name:<44} {duration(took):>12}" if is_done else f"{self._name}, broken off"
        if self._is_shown:
            self._write(f"\r\x1b[K{line}\n" if self._updates else f"{line}\n")
        self._name, self._is_shown = None, False
        if is_done:
            interrupts.check()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show a phase from here to the end of the block."""
        self.begin(name)
        try:
            yield
        except BaseException:
            self.end(is_done=False)
            raise
        self.end()

    def _tick(self, over: threading.Event) -> None:
        if over.wait(WORTH_A_LINE_SECONDS):
            return
        self._is_shown, shown_at = True, self._began
        self._write(self._current())
        while not over.wait(TICK_SECONDS):
            if self._updates:
                self._write(self._current())
            elif time.monotonic() - shown_at >= REPEAT_SECONDS:
                shown_at = time.monotonic()
                self._write(self._current())

    def _current(self) -> str:
        elapsed = time.monotonic() - self._began
        if self._updates:
            return f"\r\x1b[K{self._name} … {duration(round(elapsed)) if elapsed >= 1 else ''}"
        return f"{self._name} …{f' {duration(elapsed)} so far' if elapsed >= REPEAT_SECONDS else ''}\n"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
