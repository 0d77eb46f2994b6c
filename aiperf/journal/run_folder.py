"""Which run a word of a command line names: its folder, its name under runs/, or its journal's own path."""

from __future__ import annotations

import os
from pathlib import Path

from aiperf.errors import NoSuchRun, NotAJournal
from aiperf.files import given_path, shown, what_is_wrong_with
from aiperf.journal.journal import NAME
from aiperf.journal.other_files import HEAD, other_file


def run_folder(word: str, runs: str = "runs") -> Path:
    """The folder that a word names. What is wrong with a journal there, whoever reads it says.

    Raises:
        NoSuchRun: there is none.
        NotAJournal: another file is named.
    """
    named = given_path(word)
    places = (named, given_path(runs) / word)
    for folder in places:
        if os.path.lexists(folder / NAME):
            return folder
    wrong = what_is_wrong_with(named)
    if wrong is None:
        if named.name == NAME:
            return named.parent
        raise NotAJournal(f"a run is named by its folder, which holds a {NAME}; {shown(named)} is {_told(named)}")
    if named.is_dir():
        raise NoSuchRun(f"a run is a folder with a {NAME}; there is none in {shown(named)}")
    others = "" if named.is_absolute() else f", nor at {shown(places[1])}"
    why = "" if wrong == "not there" else f", which is {wrong}"
    raise NoSuchRun(f"a run is a folder with a {NAME}; there is none at {shown(named)}{why}{others}")


def _told(file: Path) -> str:
    """A file that is not called a journal, after 'it is'."""
    try:
        with file.open("rb") as opened:
            other = other_file(opened.read(HEAD))
    except OSError as error:
        return f"a file that cannot be read ({error.strerror})"
    if other is None:
        return f"a journal under another name: give it a folder of its own, as FOLDER/{NAME}"
    return f"{other.what}: {other.remedy}"
