"""Search for journals (event files of runs), and their reading for a list in parallel processes.

Figures are always recomputed from the journal, because a report.json or a cache could have been edited. A journal that cannot
be read is listed with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from aiperf.errors import AiperfError, NoSuchRun
from aiperf.journal.journal import NAME
from aiperf.journal.sealed_log import ends
from aiperf.leaderboard.entry import Entry, entry_of
from aiperf.leaderboard.leaderboard import UnreadableJournal
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.report.write import report_of
from aiperf.system.control_groups import available_bytes, usable_processors


def runs_under(words: Iterable[str], runs: str = "runs") -> tuple[list[Path], list[UnreadableJournal]]:
    found: list[Path] = []
    fruitless: list[UnreadableJournal] = []
    seen: set[tuple[int, int]] = set()
    for word in words:
        top = next((folder for folder in (Path(word), Path(runs) / word) if folder.is_dir()), None)
        if top is None:
            fruitless.append(UnreadableJournal(word, f"there is no such folder, nor '{Path(runs) / word}'"))
            continue
        below = list(_below(top, seen, fruitless))
        found += [folder for folder, is_new in below if is_new]
        if not below:
            fruitless.append(UnreadableJournal(word, f"no {NAME} in this folder or below it"))
    if not found:
        raise NoSuchRun(
            f"rank takes folders with a {NAME} in them or below them, but found none: "
            + "; ".join(f"'{each.folder}': {each.reason}" for each in fruitless)
            + ". Give the folder of a run, or a folder with runs"
        )
    return found, fruitless


def _below(top: Path, seen: set[tuple[int, int]], fruitless: list[UnreadableJournal]) -> Iterator[tuple[Path, bool]]:
    """Yield folders with a journal, and folders that were seen before, each with True if it is new. Links are followed."""

    def refused(error: OSError) -> None:
        fruitless.append(UnreadableJournal(str(error.filename), f"could not be read: {error.strerror}"))

    for name, folders, files in os.walk(top, onerror=refused, followlinks=True):
        status = Path(name).stat()
        is_new = (status.st_dev, status.st_ino) not in seen
        seen.add((status.st_dev, status.st_ino))
        has_journal = NAME in files or NAME in folders  # the reader reports a folder of that name
        if has_journal or not is_new:
            yield Path(name), is_new
            folders.clear()  # no run's folder contains another run
        folders.sort()


MEMORY_PER_BYTE = 2
"""Maximum memory for reading, in bytes per byte of the journal (docs/ranking.md)."""
MEMORY_OF_A_PROCESS = 200_000_000
"""Further memory of each process in bytes."""
WORTH_A_PROCESS = 8_000_000
"""Bytes of journals from which another process saves time."""


def read_entry(folder: Path) -> Entry | UnreadableJournal:
    """Read the journal in a run's folder. Return its list entry, or the reason why it cannot be read, without an error."""
    try:
        return entry_of(report_of(folder), str(folder), ends(folder / NAME))
    except AiperfError as error:
        return UnreadableJournal(str(folder), str(error))
    except OSError as error:
        return UnreadableJournal(str(folder), f"could not be read: {error.strerror or error}")


def read_entries(folders: Sequence[Path], processes: int | None = None) -> tuple[list[Entry], list[UnreadableJournal]]:
    sizes = {folder: _size(folder) for folder in folders}
    with side_processes(processes or _at_once(list(sizes.values()))) as pool:
        with interrupts_held():
            futures = {
                folder: pool.submit(read_entry, folder) for folder in sorted(folders, key=lambda each: -sizes[each])
            }
        read = [_result(folder, futures[folder]) for folder in folders]
    return [each for each in read if isinstance(each, Entry)], [
        each for each in read if isinstance(each, UnreadableJournal)
    ]


def _result(folder: Path, future: Future[Entry | UnreadableJournal]) -> Entry | UnreadableJournal:
    try:
        return future.result()
    except BrokenProcessPool:
        return UnreadableJournal(str(folder), "the process that read it was killed, probably because memory ran out")


def _size(folder: Path) -> int:
    try:
        return (folder / NAME).stat().st_size
    except OSError:
        return 0  # removed since the search: reading it reports the error


def _at_once(sizes: Sequence[int]) -> int:
    each = MEMORY_OF_A_PROCESS + MEMORY_PER_BYTE * max(sizes, default=0)
    worth = -(-sum(sizes) // WORTH_A_PROCESS)
    return max(1, min(usable_processors(), len(sizes), worth, available_bytes() // each))
