"""Search for journals and their reading for a list. Each journal is found once, also if several links lead to it.

Journals are read in parallel processes, and one that fails does not stop the others.
Figures are always recomputed from the journal, because a report.json or a cache could have been edited. A journal that cannot
be read is listed with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from aiperf.data.available_memory import available_bytes
from aiperf.errors import AiperfError, NoSuchRun
from aiperf.files import what_is_wrong_with
from aiperf.journal.journal import NAME
from aiperf.journal.sealed_log import ends
from aiperf.leaderboard.entry import Entry, entry_of
from aiperf.leaderboard.leaderboard import UnreadableJournal
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.report.write import report_of
from aiperf.system.control_groups import usable_processors


def runs_under(words: Iterable[str], runs: str = "runs") -> tuple[list[Path], list[UnreadableJournal]]:
    """Return folders with a journal, in order of name, and each word or folder without one, with the reason.

    A word is a run's folder, its name under `runs`, or a folder with runs at any depth below it. Links are followed. A folder
    that several paths lead to is returned once, with the first path.

    Raises:
        NoSuchRun: No word leads to a journal.
    """
    search = _Search()
    for word in words:
        top = next((folder for folder in (Path(word), Path(runs) / word) if folder.is_dir()), None)
        if top is None:
            search.fruitless.append(UnreadableJournal(word, f"there is no such folder, nor '{Path(runs) / word}'"))
        elif not search.below(top):
            search.fruitless.append(UnreadableJournal(word, f"no {NAME} in this folder or below it"))
    if not search.found:
        raise NoSuchRun(
            f"rank takes folders with a {NAME} in them or below them, but found none: "
            + "; ".join(f"'{each.folder}': {each.reason}" for each in search.fruitless)
        )
    return search.found, search.fruitless


class _Search:
    """Walk over several folders that visits each folder once."""

    def __init__(self) -> None:
        self.found: list[Path] = []
        self.fruitless: list[UnreadableJournal] = []
        self._folders: set[tuple[int, int]] = set()
        self._journals: set[tuple[int, int]] = set()

    def below(self, top: Path) -> bool:
        """Add the journals below a folder. Return False if there is none, new or found before."""
        waiting, is_any = [top], False
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                names = sorted(each.name for each in folder.iterdir()) if self._is_new(self._folders, status) else None
                if names is None:  # visited before: a link to a parent, or a word given twice
                    is_any = True
                    continue
                if NAME in names:  # the reader reports a file that is no journal
                    if what_is_wrong_with(folder / NAME) or self._is_new(self._journals, (folder / NAME).stat()):
                        self.found.append(folder)
                    is_any = True
                    continue  # no run's folder contains another run
                waiting += [folder / name for name in reversed(names) if (folder / name).is_dir()]
            except OSError as error:
                self.fruitless.append(UnreadableJournal(str(folder), f"could not be read: {error.strerror}"))
                is_any = True
        return is_any

    @staticmethod
    def _is_new(seen: set[tuple[int, int]], status: os.stat_result) -> bool:
        key = status.st_dev, status.st_ino
        if key in seen:
            return False
        seen.add(key)
        return True


MEMORY_PER_BYTE = 2
"""Maximum memory for reading, in bytes per byte of the journal (docs/ranking.md)."""
MEMORY_OF_A_PROCESS = 200_000_000
"""Further memory of each process in bytes."""
WORTH_A_PROCESS = 8_000_000
"""Bytes of journals from which another process saves time."""


def read_entry(folder: Path) -> Entry | UnreadableJournal:
    """Return the entry of a run's folder, or the reason for a missing entry."""
    try:
        return entry_of(report_of(folder), str(folder), ends(folder / NAME))
    except AiperfError as error:
        return UnreadableJournal(str(folder), str(error))
    except OSError as error:
        return UnreadableJournal(str(folder), f"could not be read: {error.strerror or error}")


def read_entries(folders: Sequence[Path], processes: int | None = None) -> tuple[list[Entry], list[UnreadableJournal]]:
    """Read all folders and return entries and failures, in order of the folders.

    Args:
        folders: Folders of runs.
        processes: Parallel processes. Default: as many as processors and memory allow.
    """
    largest_first = sorted(folders, key=lambda folder: -_size(folder))
    results = dict(_in_pool(largest_first, processes or _at_once([_size(folder) for folder in folders])))
    for folder in [folder for folder, result in results.items() if result is None]:
        results |= _in_pool([folder], 1)  # after a killed process, read its folders one by one to find the cause
    dead = "the process that read it was killed, probably because memory ran out"
    read = [results[folder] or UnreadableJournal(str(folder), dead) for folder in folders]
    return [each for each in read if isinstance(each, Entry)], [
        each for each in read if isinstance(each, UnreadableJournal)
    ]


def _size(folder: Path) -> int:
    try:
        return (folder / NAME).stat().st_size
    except OSError:
        return 0  # removed since the search: reading it reports the error


def _at_once(sizes: Sequence[int]) -> int:
    each = MEMORY_OF_A_PROCESS + MEMORY_PER_BYTE * max(sizes, default=0)
    worth = -(-sum(sizes) // WORTH_A_PROCESS)
    return max(1, min(usable_processors(), len(sizes), worth, available_bytes() // each))


def _in_pool(folders: Sequence[Path], processes: int) -> Iterator[tuple[Path, Entry | UnreadableJournal | None]]:
    """Yield each folder with its result. None if the reading process was killed."""
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
                    fault = f"it could not be read because of a bug in AIPerf ({type(error).__name__}: {error})"
                    yield folder, UnreadableJournal(str(folder), fault)
