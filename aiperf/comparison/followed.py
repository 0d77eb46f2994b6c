"""A following run beside the one that it follows: the same trials, pair by pair, and what they did unlike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.comparison.work import work_of
from aiperf.errors import AiperfError
from aiperf.journal.journal import NAME, read
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.write import report_of
from aiperf.statistics.pairs import EQUAL_WORK, Pairs, pairs


@dataclass(frozen=True, slots=True)
class TrialPair:
    """A trial here and the one that it follows there."""

    here: int
    there: int
    rate_here: float | None
    """Operations a busy accelerator-second, of its work in the window; None: it did none there. The next is alike."""
    rate_there: float | None
    is_equal_work: bool
    """Whether both did as many operations in their windows, within a hundredth: only such pairs are in `Followed.pairs`."""
    accuracy_here: float | None
    accuracy_there: float | None


@dataclass(frozen=True, slots=True)
class Followed:
    """What a following run and the followed one have in common."""

    run: str
    """The followed run's name."""
    why_not: str | None
    """Why there are no pairs, where its journal was not found or is another; None: there are."""
    flops_per_second: float | None
    """Its score."""
    trials: tuple[TrialPair, ...]
    """In the order of this run."""
    pairs: Pairs | None
    """Over those that did equal work; the first side is the followed run. None: there are none."""


def followed(report: Report, folder: Path) -> Followed | None:
    """Of a following run and the followed one, which is looked for where it lay when the run began, and beside the run's own
    folder; None: it follows none."""
    follows = report.run.follows
    if follows is None:
        return None
    places = [Path(follows.path), folder.absolute().parent / Path(follows.path).name]
    place = next((each for each in places if (each / NAME).is_file()), None)
    if place is None:
        return _without(follows.run, f"its journal is neither at '{places[0]}' nor beside this run")
    try:
        if _hash_at(place, follows.lines) != follows.last_hash:
            return _without(
                follows.run, f"the journal at '{place}' is another: it has no line {follows.lines} of that hash"
            )
        there = report_of(place)
    except (AiperfError, OSError) as error:
        return _without(follows.run, f"its journal at '{place}' cannot be read ({error})")
    return Followed(
        run=there.run.name,
        why_not=None,
        flops_per_second=there.score.flops_per_second,
        trials=trial_pairs(report, there),
        pairs=pairs(work_of(there), work_of(report)),
    )


def _without(run: str, why: str) -> Followed:
    return Followed(run, why, None, (), None)


def _hash_at(folder: Path, lines: int) -> str | None:
    """Of a journal's so many first lines, which are checked; None: it has fewer. Raises JournalDamaged: one is damaged."""
    with (folder / NAME).open("rb") as file:
        if sum(1 for _ in file) < lines:
            return None
    reader = read(folder, lines)
    for _ in reader:
        pass
    return reader.reading.chain.decode()


def trial_pairs(report: Report, there: Report) -> tuple[TrialPair, ...]:
    """Each trial of a following run with the one that it follows."""
    others = {trial.number: trial for trial in there.trials}
    return tuple(
        _pair(trial, others[trial.follows])
        for trial in report.trials
        if trial.follows is not None and trial.follows in others
    )


def _pair(here: TrialFacts, there: TrialFacts) -> TrialPair:
    done, before = here.in_window.operations, there.in_window.operations
    return TrialPair(
        here=here.number,
        there=there.number,
        rate_here=_rate(here),
        rate_there=_rate(there),
        is_equal_work=before > 0 and abs(done / before - 1) <= EQUAL_WORK,
        accuracy_here=here.accuracy,
        accuracy_there=there.accuracy,
    )


def _rate(trial: TrialFacts) -> float | None:
    inside = trial.in_window
    return inside.operations / inside.busy_seconds if inside.busy_seconds > 0 else None
