"""The runs of a comparison: found by the words of a command line, read, and held to what can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.comparison.sameness import Differing, differing, unequal
from aiperf.errors import CannotCompare
from aiperf.journal.journal import NAME
from aiperf.journal.run_folder import run_folder
from aiperf.report.facts import Report
from aiperf.report.write import report_of

MOST_NAMED = 3
"""Differences that a refusal names."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run, or several equal ones."""

    runs: tuple[Report, ...]

    @property
    def name(self) -> str:
        """Of the one, or of the first and how many more."""
        more = len(self.runs) - 1
        return self.runs[0].run.name + (f" and {more} more" if more else "")


def folders(words: Sequence[str]) -> list[Path]:
    """A word is a run, or a folder that holds runs, which are taken in the order of their names.

    Raises:
        NoSuchRun: there is none; CannotCompare: one is named twice.
    """
    found: list[Path] = []
    for word in words:
        held = sorted(path.parent for path in Path(word).glob(f"*/{NAME}"))
        is_run = (Path(word) / NAME).is_file()
        found += held if held and not is_run else [run_folder(word)]
    seen: dict[Path, Path] = {}
    for folder in found:
        if (known := seen.setdefault(folder.resolve(), folder)) is not folder:
            raise CannotCompare(f"a run is given once; '{folder}' and '{known}' are the same: leave one out")
    return found


def side(words: Sequence[str], read: Callable[[Path], Report] = report_of) -> Side:
    """The runs that words name.

    Raises:
        NoSuchRun: there is none.
        CannotCompare: one has no score, or they are not repeats of one configuration on one system.
    """
    return _held(tuple(read(folder) for folder in folders(words)))


def side_of(report: Report) -> Side:
    """A run that was read already. Raises CannotCompare: it has no score."""
    return _held((report,))


def _held(runs: tuple[Report, ...]) -> Side:
    for run in runs:
        if run.run.end_reason is None or not run.score.valid:
            why = "it has not ended" if run.run.end_reason is None else "it has no valid score"
            raise CannotCompare(
                f"runs that are compared have ended with a score; '{run.run.name}': {why}: leave it out"
            )
    _require_repeats(runs)
    return Side(runs)


def _require_repeats(runs: Sequence[Report]) -> None:
    apart = [each for each in unequal(runs) if each.kind in ("benchmark", "configuration")]
    if apart:
        raise CannotCompare(
            "several runs of one side are repeats of one configuration, but for the seed; these are not: "
            f"{in_words(apart)}: compare them by --with, or leave the odd one out"
        )


def require_one_benchmark(first: Side, second: Side) -> None:
    """Raises CannotCompare where figures cannot stand against each other: another data set or schedule, or a simulated run."""
    apart = [each for each in differing(first.runs[0], second.runs[0]) if each.kind == "benchmark"]
    if apart:
        raise CannotCompare(
            "figures are compared of one benchmark: the same data set, the same lengths, both real or both simulated; "
            f"'{first.runs[0].run.name}' and '{second.runs[0].run.name}' differ in {in_words(apart)}: run the one as the other"
        )


def in_words(apart: Sequence[Differing]) -> str:
    """A few of them."""
    told = [f"{each.name} ({each.first}; {each.second})" for each in apart[:MOST_NAMED]]
    return ", ".join(told) + (f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else "")
