"""Search for the run that a command-line argument names."""

from __future__ import annotations

import os
from pathlib import Path

from aiperf.errors import NoSuchRun, NotAJournal
from aiperf.files import given_path, shown, what_is_wrong_with
from aiperf.journal.journal import NAME
from aiperf.journal.sealed_log import HEAD, why_no_journal


def run_folder(name: str, runs: str = "runs") -> Path:
    """Return the folder of a run, by its path, its journal's or its name in `runs`. Raise NoSuchRun or NotAJournal."""
    named = given_path(name)
    places = (named, given_path(runs) / name)
    for folder in places:
        if os.path.lexists(folder / NAME):
            return folder
    wrong = what_is_wrong_with(named)
    if wrong is None:
        if named.name == NAME:
            return named.parent
        raise NotAJournal(f"a run must be named by its folder with a {NAME}. {shown(named)} is {_described(named)}")
    if named.is_dir():
        raise NoSuchRun(
            f"the folder of a run must contain a {NAME}. There is none in {shown(named)}: give the folder of a run"
        )
    others = "" if named.is_absolute() else f", nor at {shown(places[1])}"
    why = "" if wrong == "not there" else f", which is {wrong}"
    raise NoSuchRun(
        f"the folder of a run must contain a {NAME}. There is none at {shown(named)}{why}{others}: give the folder of a run"
    )


def run_folders(name: str, runs: str = "runs") -> list[Path]:
    """Return the folders of the runs in a folder, sorted by name, or the folder of one run as `run_folder` finds it."""
    for folder in (given_path(name), given_path(runs) / name):
        below = sorted(path.parent for path in folder.glob(f"*/{NAME}"))
        if below and not (folder / NAME).is_file():
            return below
    return [run_folder(name, runs)]


def _described(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            why = why_no_journal(opened.read(HEAD))
    except OSError as error:
        return f"a file that cannot be read ({error.strerror}): give this user permission to read it"
    return why or f"a journal under another name: give it a folder of its own, as FOLDER/{NAME}"
