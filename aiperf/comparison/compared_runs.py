"""Runs of a comparison, named on a command line: found, read, and checked for comparability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.comparison.comparability import RunDifference, differing, unequal
from aiperf.errors import CannotCompare
from aiperf.journal.journal import NAME
from aiperf.journal.run_folder import run_folder
from aiperf.journal.sealed_log import JournalHashes, ends
from aiperf.report.facts import Report
from aiperf.report.write import report_of

MOST_NAMED = 3
"""Largest number of differences in a message."""


@dataclass(frozen=True, slots=True)
class RunJournal:
    """Folder of a run, and the hashes of the first and last line of its journal (event file)."""

    folder: Path
    ends: JournalHashes


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: one run, or several equal runs (repeats of one configuration)."""

    runs: tuple[Report, ...]
    journals: tuple[RunJournal, ...]

    @property
    def name(self) -> str:
        """Name of the first run and the number of further runs, such as `a and 2 more`."""
        more = len(self.runs) - 1
        return self.runs[0].run.name + (f" and {more} more" if more else "")


def folders(words: Sequence[str]) -> list[Path]:
    """Return the folders of the runs that the words of a command line name."""
    found: list[Path] = []
    for word in words:
        held = sorted(path.parent for path in Path(word).glob(f"*/{NAME}"))
        is_run = (Path(word) / NAME).is_file()
        found += held if held and not is_run else [run_folder(word)]
    return found


def require_each_once(journals: Sequence[RunJournal]) -> None:
    """Raise CannotCompare if two journals belong to one run, that is, if their first lines are equal."""
    seen: dict[str, RunJournal] = {}
    for journal in journals:
        if (known := seen.setdefault(journal.ends.first, journal)) is not journal:
            raise CannotCompare(
                f"each run is given once, but '{known.folder}' and '{journal.folder}' are journals of one run (equal first "
                "line): leave one out"
            )


def side(words: Sequence[str]) -> Side:
    """Read the runs of one side of a comparison and check that they are repeats of one configuration."""
    given = folders(words)
    runs = tuple(map(report_of, given))  # refuses what is no journal, such as a FIFO
    journals = tuple(RunJournal(folder, ends(folder / NAME)) for folder in given)
    require_each_once(journals)
    for run in runs:
        if run.run.end_reason is None or not run.score.valid:
            why = "it has not ended" if run.run.end_reason is None else "it has no valid score"
            raise CannotCompare(f"compared runs have ended with a score, but {run.run.name!r}: {why}. Leave it out")
    if apart := [each for each in unequal(runs) if each.kind in ("benchmark", "configuration")]:
        raise CannotCompare(
            f"runs of one side have one configuration, except for the seed, but these differ in {in_words(apart)}. "
            "Compare them with --with, or leave the different run out"
        )
    return Side(runs, journals)


def require_one_benchmark(first: Side, second: Side) -> None:
    """Raise CannotCompare if two sides (one run, or several equal runs, each) have different benchmarks."""
    apart = [each for each in differing(first.runs[0], second.runs[0]) if each.kind == "benchmark"]
    if apart:
        raise CannotCompare(
            "compared runs have one data set and one length, and both are real or both are simulated, but "
            f"'{first.runs[0].run.name}' and '{second.runs[0].run.name}' differ in {in_words(apart)}. "
            "Repeat one with equal values"
        )


def in_words(apart: Sequence[RunDifference]) -> str:
    """Return up to three differences as text: `name (value of the first run; value of the second)`, separated by commas."""
    named = [f"{each.name} ({each.first}; {each.second})" for each in apart[:MOST_NAMED]]
    return ", ".join(named) + (f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else "")
