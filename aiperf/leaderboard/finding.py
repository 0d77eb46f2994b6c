"""Journals under folders: each found once, whatever links lead to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aiperf.errors import NoSuchRun
from aiperf.files import what_is_wrong_with
from aiperf.journal.journal import NAME
from aiperf.leaderboard.leaderboard import Unread


def runs_under(words: Iterable[str], runs: str = "runs") -> tuple[list[Path], list[Unread]]:
    """Folders that hold a journal, in order of name, and words and folders that gave none, each with the reason.

    A word is a run's folder, its name under `runs`, or a folder with runs somewhere below it. Links are followed; what several
    ways lead to is found by the first.

    Raises:
        NoSuchRun: there is no journal at all.
    """
    search = _Search()
    for word in words:
        top = next((folder for folder in (Path(word), Path(runs) / word) if folder.is_dir()), None)
        if top is None:
            search.fruitless.append(Unread(word, f"there is no such folder, nor '{Path(runs) / word}'"))
        elif not search.below(top):
            search.fruitless.append(Unread(word, f"no folder with a {NAME} in it, nor below it"))
    if not search.found:
        raise NoSuchRun(
            f"rank takes folders that hold a {NAME}, or folders with such below them; found none: "
            + "; ".join(f"'{each.folder}': {each.reason}" for each in search.fruitless)
        )
    return search.found, search.fruitless


class _Search:
    """One walk over some folders, which remembers where it has been."""

    def __init__(self) -> None:
        self.found: list[Path] = []
        self.fruitless: list[Unread] = []
        self._folders: set[tuple[int, int]] = set()
        self._journals: set[tuple[int, int]] = set()

    def below(self, top: Path) -> bool:
        """Adds what lies there; whether there was anything, here or where the walk had been before."""
        waiting, is_any = [top], False
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                names = sorted(each.name for each in folder.iterdir()) if self._is_new(self._folders, status) else None
                if names is None:  # a link to a folder above, or one that was named twice
                    is_any = True
                    continue
                if NAME in names:  # whatever it is: what is no journal is told of by whoever reads it
                    if what_is_wrong_with(folder / NAME) or self._is_new(self._journals, (folder / NAME).stat()):
                        self.found.append(folder)
                    is_any = True
                    continue  # a run's folder holds telemetry and checkpoints, and no other run
                waiting += [folder / name for name in reversed(names) if (folder / name).is_dir()]
            except OSError as error:
                self.fruitless.append(Unread(str(folder), f"could not be looked into: {error.strerror}"))
                is_any = True
        return is_any

    @staticmethod
    def _is_new(seen: set[tuple[int, int]], status: os.stat_result) -> bool:
        key = status.st_dev, status.st_ino
        if key in seen:
            return False
        seen.add(key)
        return True
