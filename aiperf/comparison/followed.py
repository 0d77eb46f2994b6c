"""Comparison of a following run with the run that it follows, trial by trial."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.comparison.work import work_of
from aiperf.errors import AiperfError
from aiperf.journal.journal import NAME, read
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.write import report_of
from aiperf.statistics.work_mix import EQUAL_WORK, Pairs, pairs


@dataclass(frozen=True, slots=True)
class TrialPair:
    """Trial of the following run (here) and the trial that it follows (there)."""

    here: int
    there: int
    rate_here: float | None
    """Operations per busy accelerator-second inside the window. None without work in the window."""
    rate_there: float | None
    """As `rate_here`."""
    is_equal_work: bool
    """True if the operations inside both windows differ by at most 1 %. Only such pairs are in `FollowedComparison.pairs`."""
    accuracy_here: float | None
    accuracy_there: float | None


@dataclass(frozen=True, slots=True)
class FollowedComparison:
    """Comparison of a following run with the followed run."""

    run: str
    """Name of the followed run."""
    why_not: str | None
    """Reason for missing pairs: the journal was not found or is another. None if there are pairs."""
    flops_per_second: float | None
    """Score of the followed run."""
    trials: tuple[TrialPair, ...]
    """In order of the following run."""
    pairs: Pairs | None
    """Trials with equal work. The first side is the followed run. None if there are none."""


def followed(report: Report, folder: Path) -> FollowedComparison | None:
    """Compare a following run with the followed run. None if the run follows none.

    The followed run is searched at its recorded path, and next to the run's own folder.
    """
    follows = report.run.follows
    if follows is None:
        return None
    places = [Path(follows.path), folder.absolute().parent / Path(follows.path).name]
    place = next((each for each in places if (each / NAME).is_file()), None)
    if place is None:
        return _without(follows.run, f"its journal is neither at '{places[0]}' nor next to this run")
    try:
        if _hash_at(place, follows.lines) != follows.last_hash:
            return _without(
                follows.run, f"the journal at '{place}' is another: its line {follows.lines} has another hash"
            )
        other = report_of(place)
    except (AiperfError, OSError) as error:
        return _without(follows.run, f"its journal at '{place}' cannot be read ({error})")
    return FollowedComparison(
        run=other.run.name,
        why_not=None,
        flops_per_second=other.score.flops_per_second,
        trials=trial_pairs(report, other),
        pairs=pairs(work_of(other), work_of(report)),
    )


def _without(run: str, why: str) -> FollowedComparison:
    return FollowedComparison(run, why, None, (), None)


def _hash_at(folder: Path, lines: int) -> str | None:
    """Return the hash of the first `lines` lines of a journal. None if it has fewer. Raises JournalDamaged."""
    with (folder / NAME).open("rb") as file:
        if sum(1 for _ in file) < lines:
            return None
    reader = read(folder, lines)
    for _ in reader:
        pass
    return reader.reading.chain.decode()


def trial_pairs(report: Report, there: Report) -> tuple[TrialPair, ...]:
    """Return each trial of a following run with the trial of the followed run `there` that it follows.

    A trial without such a counterpart is left out.
    """
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
