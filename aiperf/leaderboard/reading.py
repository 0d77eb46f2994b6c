"""Journals into entries, several at once, each in a process of its own that may fail without costing the others.

Figures are always worked out from the journal as it lies there: a report.json beside it can be edited, and a cache would
have to be believed. Whatever is wrong with one journal, its line is in the list with the reason.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from aiperf.data.available_memory import available_bytes
from aiperf.errors import AiperfError
from aiperf.journal.journal import NAME
from aiperf.leaderboard.entry import Ends, Entry, entry_of
from aiperf.leaderboard.leaderboard import Unread
from aiperf.report.write import report_of
from aiperf.side_processes import interrupts_held, side_processes
from aiperf.system.control_groups import usable_processors

MEMORY_PER_BYTE = 2
"""Bytes that a reading takes at most for each of its journal (docs/leaderboard.md), and what each process takes besides:"""
MEMORY_OF_A_PROCESS = 200_000_000
WORTH_A_PROCESS = 8_000_000
"""Bytes of journals that take longer to read than another process to start."""

_TAIL = 1 << 20


def read_entry(folder: Path) -> Entry | Unread:
    """The entry of a run's folder, or why there is none."""
    try:
        return entry_of(report_of(folder), str(folder), ends(folder / NAME))
    except AiperfError as error:
        return Unread(str(folder), str(error))
    except OSError as error:
        return Unread(str(folder), f"could not be read: {error.strerror or error}")


def ends(journal: Path) -> Ends:
    """What tells a journal from others. Its lines follow from one another, as whoever read it has checked."""
    with journal.open("rb") as file:
        first = file.readline()
        length = file.seek(0, os.SEEK_END)
        last, tail = b"", b""
        while not last and len(tail) < length:  # a line is seldom longer than this, but may be
            start = max(0, length - len(tail) - _TAIL)
            file.seek(start)
            tail = file.read(length - len(tail) - start) + tail
            whole = tail[: tail.rfind(b"\n") + 1]
            before = whole.rfind(b"\n", 0, -1)
            last = whole[before + 1 :] if whole and (before >= 0 or start == 0) else b""
    return Ends(hashlib.sha256(first).hexdigest(), hashlib.sha256(last).hexdigest())


def read_entries(folders: Sequence[Path], processes: int | None = None) -> tuple[list[Entry], list[Unread]]:
    """Those of all folders, in their order; `processes` at once, or as many as processors and memory allow."""
    largest_first = sorted(folders, key=lambda folder: -_size(folder))
    results = dict(_in_pool(largest_first, processes or _at_once([_size(folder) for folder in folders])))
    for folder in [folder for folder, result in results.items() if result is None]:
        results |= _in_pool([folder], 1)  # a process died: which of those that it had killed it shows one by one
    dead = "the process that read it was killed; was there too little memory for it?"
    read = [results[folder] or Unread(str(folder), dead) for folder in folders]
    return [each for each in read if isinstance(each, Entry)], [each for each in read if isinstance(each, Unread)]


def _size(folder: Path) -> int:
    try:
        return (folder / NAME).stat().st_size
    except OSError:
        return 0  # gone since it was found: reading it says so


def _at_once(sizes: Sequence[int]) -> int:
    each = MEMORY_OF_A_PROCESS + MEMORY_PER_BYTE * max(sizes, default=0)
    worth = -(-sum(sizes) // WORTH_A_PROCESS)
    return max(1, min(usable_processors(), len(sizes), worth, available_bytes() // each))


def _in_pool(folders: Sequence[Path], processes: int) -> Iterator[tuple[Path, Entry | Unread | None]]:
    """Each folder with what it gave; None where the process that was to read it was gone."""
    with side_processes(processes) as pool:
        with interrupts_held():
            futures = [(folder, pool.submit(read_entry, folder)) for folder in folders]
        for folder, future in futures:
            match future.exception():
                case None:
                    yield folder, future.result()
                case BrokenProcessPool():
                    yield folder, None
                case error:
                    fault = f"it could not be taken in, which is a fault of ours ({type(error).__name__}: {error})"
                    yield folder, Unread(str(folder), fault)
