"""What a run does before its table stands and after it: a line for each phase, with the time it took.

On a terminal the line of the phase that goes on counts its seconds; elsewhere it is written whole, at the beginning and at the
end. It goes to the error stream: what is asked for stands on the other.
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
"""What takes less is not told of."""
SAID_AGAIN_SECONDS = 60.0
"""Where there is no terminal, a phase that goes on is told of so often."""


class Phases:
    """One phase at a time; the next one ends it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream`: the process's error stream, as it is then."""
        self._stream = sys.stderr if stream is None else stream
        self._updates = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._name: str | None = None
        self._began = 0.0
        self._is_told = False
        self._over = threading.Event()
        self._ticks: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """From now on `name` goes on: `starting Ray`."""
        self.end()
        interrupts.check()
        self._name, self._began, self._over = name, time.monotonic(), threading.Event()
        self._ticks = threading.Thread(target=self._tick, args=(self._over,), name="phases", daemon=True)
        self._ticks.start()

    def end(self, *, is_done: bool = True) -> None:
        """It is over. None goes on: nothing happens. `is_done`: else it was broken off, and its line says no time."""
        if self._name is None or self._ticks is None:
            return
        self._over.set()
        self._ticks.join()
        took = time.monotonic() - self._began
        told = f"{self._name:<44} {duration(took):>12}" if is_done else f"{self._name}, broken off"
        if self._is_told:
            self._write(f"\r\x1b[K{told}\n" if self._updates else f"{told}\n")
        self._name, self._is_told = None, False
        if is_done:
            interrupts.check()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase from here to the end of the block."""
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
        self._is_told, said = True, self._began
        self._write(self._current())
        while not over.wait(TICK_SECONDS):
            if self._updates:
                self._write(self._current())
            elif time.monotonic() - said >= SAID_AGAIN_SECONDS:
                said = time.monotonic()
                self._write(self._current())

    def _current(self) -> str:
        elapsed = time.monotonic() - self._began
        if self._updates:
            return f"\r\x1b[K{self._name} … {duration(round(elapsed)) if elapsed >= 1 else ''}"
        return f"{self._name} …{f' {duration(elapsed)} so far' if elapsed >= SAID_AGAIN_SECONDS else ''}\n"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
