"""Reader of journals for a list. Journals are read in parallel processes, and one that fails does not stop the others.

Figures are always recomputed from the journal, because a report.json or a cache could have been edited. A journal that cannot
be read is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from aiperf.data.available_memory import available_bytes
from aiperf.errors import AiperfError
from aiperf.journal.ends import ends
from aiperf.journal.journal import NAME
from aiperf.leaderboard.entry import Entry, entry_of
from aiperf.leaderboard.leaderboard import UnreadableJournal
from aiperf.reader_processes import interrupts_held, side_processes
from aiperf.report.write import report_of
from aiperf.system.control_groups import usable_processors

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
