"""A following run beside the one that it follows: the same trials, pair by pair, and what they did unlike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.comparison.work import work_of
from aiperf.errors import JournalDamaged, NoSuchRun
from aiperf.journal.journal import read
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


def followed(report: Report, folder: Path | None = None) -> Followed | None:
    """Of a following run, and of the followed one in that folder, or where it lay when the run began; None: it follows none."""
    follows = report.run.follows
    if follows is None:
        return None
    folder = Path(follows.path) if folder is None else folder

    def none(why: str) -> Followed:
        return Followed(follows.run, why, None, (), None)

    try:
        events = read(folder)
        there = report_of(folder)
        last_hash = _hash_at(folder, follows.lines)
    except NoSuchRun:
        return none(f"there is no journal of it at '{folder}'")
    except (JournalDamaged, OSError) as error:
        return none(f"its journal at '{folder}' cannot be read: {error}")
    del events
    if last_hash != follows.last_hash:
        return none(f"the journal at '{folder}' is not the one that was followed: line {follows.lines} has another hash")
    return Followed(
        run=there.run.name,
        why_not=None,
        flops_per_second=there.score.flops_per_second,
        trials=trial_pairs(report, there),
        pairs=pairs(work_of(there), work_of(report)),
    )


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
