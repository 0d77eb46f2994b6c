"""Progress lines on standard error for the steps before and after a run, such as `starting Ray`, with their durations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from aiperf import interrupts
from aiperf.console import SanitizedConsole
from aiperf.units import duration

WORTH_A_LINE_SECONDS = 0.3
"""Shortest duration of a phase whose end is printed."""


class Phases:
    """Progress display of a sequence of phases (steps before or after a run). The begin of a phase ends the current one."""

    def __init__(self, console: Console | None = None) -> None:
        """Create the display without a phase. `console`: output of the lines. Default: standard error."""
        self._console = console or SanitizedConsole(stderr=True)
        self._name: str | None = None
        self._began = 0.0
        self._seconds: Progress | None = None
        """Seconds of the current phase, on a terminal."""

    def begin(self, name: str) -> None:
        """Begin a phase and show its name, for example `starting Ray`. The current phase ends."""
        self.end()
        interrupts.check()
        self._name, self._began = name, time.monotonic()
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            columns = TextColumn("{task.description} …"), TimeElapsedColumn()
            self._seconds = Progress(*columns, console=self._console, transient=True)
            self._seconds.add_task(name, total=None)
            self._seconds.start()
        else:
            self._console.print(f"{name} …", highlight=False, soft_wrap=True)

    def end(self, *, is_done: bool = True) -> None:
        """End the current phase, and print its name and duration if it took 0.3 s or more. Do nothing without a phase."""
        if self._name is None:
            return
        name, self._name = self._name, None
        if self._seconds is not None:
            self._seconds.stop()
            self._seconds = None
        took = time.monotonic() - self._began
        if took >= WORTH_A_LINE_SECONDS:
            line = f"{name:<44} {duration(took):>12}" if is_done else f"{name}, broken off"
            self._console.print(line, highlight=False, soft_wrap=True)
        if is_done:
            interrupts.check()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Return a context manager that shows the phase `name` while its block runs. An exception marks it as interrupted."""
        self.begin(name)
        try:
            yield
        except BaseException:
            self.end(is_done=False)
            raise
        self.end()

    @contextmanager
    def steps(self, name: str) -> Iterator[Callable[[str], None]]:
        """Return a context manager like `phase`. It gives a function that shows each step by its name when the step begins."""
        with self.phase(name):
            yield lambda step: self.begin(f"{name}: {step}")
