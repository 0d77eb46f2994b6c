"""Progress of a long command on standard error: what is done, and about how long the rest takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from aiperf.units import duration, share

T = TypeVar("T")
FIRST_SECONDS = 5.0
"""A shorter command prints no progress."""
EVERY_SECONDS = 10.0
MOST_COUNTED = 10_000
"""Of more steps (bytes of a journal) the share is shown."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    what: str
    done: Callable[[], float]
    of: float
    began: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        done = self.done()
        if self.of <= MOST_COUNTED:
            return f"{self.what} {done:.0f} of {self.of:.0f}"
        return f"{self.what} {share(min(1.0, done / self.of), 0)}"

    def left(self, now: float) -> float | None:
        done = self.done()
        return max(0.0, (now - self.began) * (self.of / done - 1)) if done else None


_parts: ContextVar[list[_Part] | None] = ContextVar("parts", default=None)
"""Parts of the command under way, from the outermost. None if no progress is shown."""


@contextmanager
def under_way(what: str, done: Callable[[], float], of: float) -> Iterator[None]:
    """Name a part of a command while the block runs. `done`: called from another thread, steps done of `of`."""
    part, parts = _Part(what, done, of), _parts.get()
    if parts is None:
        yield
        return
    parts.append(part)
    try:
        yield
    finally:
        parts.remove(part)


def steps(what: str, all_steps: Sequence[T]) -> Iterator[T]:
    """Yield the steps of a part of a command."""
    done = 0
    with under_way(what, lambda: done, len(all_steps)):
        for step in all_steps:
            yield step
            done += 1


@contextmanager
def shown(command: str) -> Iterator[None]:
    """Print a line about the parts under way in the block after 5 s, and then every 10 s."""
    parts: list[_Part] = []
    ended, began = threading.Event(), time.monotonic()

    def show() -> None:
        wait = FIRST_SECONDS
        while not ended.wait(wait):
            wait = EVERY_SECONDS
            try:
                print(_line(command, [*parts], began), file=sys.stderr, flush=True)
            except (OSError, ValueError):  # a part has just ended, or the stream is closed
                continue

    token, thread = _parts.set(parts), threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _parts.reset(token)


def _line(command: str, parts: Sequence[_Part], began: float) -> str:
    now = time.monotonic()
    left = next((left for part in parts if (left := part.left(now)) is not None), None)
    rest = "" if left is None else f", about {duration(left)} left"
    return f"{command}: {', '.join([*(part.text() for part in parts), f'{duration(now - began)} so far'])}{rest}"
