"""Progress of a long command on standard error: what is done, and about how long the rest takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from aiperf.units import duration, share

T = TypeVar("T")
FIRST_SECONDS = 5.0
"""A shorter command prints no progress."""
EVERY_SECONDS = 10.0
MOST_COUNTED = 10_000
"""Of more steps (bytes of a journal) the share is shown."""


_Part = tuple[str, Callable[[], float], float, float]
"""Name, function that returns the steps done, number of all steps, and time of the begin."""
_parts: ContextVar[list[_Part] | None] = ContextVar("parts", default=None)
"""Parts of the command under way, from the outermost. None if no progress is shown."""


@contextmanager
def under_way(what: str, done: Callable[[], float], of: float) -> Iterator[None]:
    """Name a part of a command while the block runs. `done`: called from another thread, steps done of `of`."""
    part, parts = (what, done, of, time.monotonic()), _parts.get()
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
    now, texts, left = time.monotonic(), [], ""
    for what, done_of, of, since in parts:
        done = done_of()
        texts.append(f"{what} {f'{done:.0f} of {of:.0f}' if of <= MOST_COUNTED else share(min(1.0, done / of), 0)}")
        if done and not left:
            left = f", about {duration(max(0.0, (now - since) * (of / done - 1)))} left"
    return f"{command}: {', '.join([*texts, f'{duration(now - began)} so far'])}{left}"
