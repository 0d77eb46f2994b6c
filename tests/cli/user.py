"""Command line of a user in a new folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, Journal


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a command."""

    status: int
    out: str
    err: str


User = Callable[..., Answer]
"""Types the words after `python -m aiperf`."""


def write_run(folder: Path, events: Sequence[AnyEvent]) -> Path:
    """Write a run's folder with these events."""
    folder.mkdir(parents=True)
    with Journal(folder / NAME) as journal:
        journal.append(events)
    return folder
