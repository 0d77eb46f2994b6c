"""Search for journals below folders. Each journal is found once, also if several links lead to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aiperf.errors import NoSuchRun
from aiperf.files import what_is_wrong_with
from aiperf.journal.journal import NAME
from aiperf.leaderboard.leaderboard import UnreadableJournal


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
