"""Two sides against each other, or several equal runs among themselves: everything that is shown, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aiperf import units
from aiperf.comparison.figures import FIGURES, Compared, OfSide, compared, of_side
from aiperf.comparison.sameness import Differing, differing, unequal
from aiperf.comparison.sides import Side, in_words, require_one_benchmark
from aiperf.comparison.work import work_of
from aiperf.journal.journal import torn_warning
from aiperf.report.facts import Report
from aiperf.run_warning import RunWarning
from aiperf.statistics.difference import Verdict, verdict
from aiperf.statistics.estimate import mean
from aiperf.statistics.pairs import Pairs, pairs
from aiperf.statistics.shares import ScoreDifference, SharesOfSpread, difference, shares_of_spread
from aiperf.statistics.spread import more_runs

VERSION = 2
"""Of what --json prints."""
UNLIKE_TOPS = 0.005
"""From such a difference of what an accelerator can do it is said; on processors that is measured by each run."""
PRECISIONS = (0.02, 0.01, 0.005)
"""For which more runs are suggested: half the interval of the mean, as a share of it."""


@dataclass(frozen=True, slots=True)
class LossChange:
    """A part of the loss waterfall, as a share of its top; the mean of a side's runs."""

    name: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a figure of the second side may be called no worse."""

    figure: str
    largest_regression: float
    """A share."""
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides."""

    first: tuple[str, ...]
    """Names of the runs."""
    second: tuple[str, ...]
    differing: tuple[Differing, ...]
    """Between the first runs of both."""
    warnings: tuple[RunWarning, ...]
    figures: tuple[Compared, ...]
    made_of: ScoreDifference | None
    """What the difference of the scores is made of."""
    pairs: Pairs | None
    """The same trials of both; None: there are none, or a side has several runs."""
    losses: tuple[LossChange, ...]
    """Parts that changed, the largest change first. Empty: a run has no waterfall."""
    gate: Gate | None
    """None: no margin was asked for."""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Precision:
    """How many runs more a precision takes."""

    share: float
    more_runs: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """Several equal runs."""

    runs: tuple[str, ...]
    warnings: tuple[RunWarning, ...]
    figures: tuple[tuple[str, OfSide], ...]
    precisions: tuple[Precision, ...]
    """Of the score."""
    made_of: SharesOfSpread | None
    """Of the score's spread; None: they are all equal."""
    version: int = VERSION


def compare(
    first: Side, second: Side, largest_regression: float | None = None, figure: str = FIGURES[0].name
) -> Comparison:
    """Raises CannotCompare where the two are not of one benchmark."""
    require_one_benchmark(first, second)
    figures = tuple(compared(each, first.runs, second.runs) for each in FIGURES)
    gate = None
    if largest_regression is not None:
        gate = _gate(next(each for each in figures if each.name == figure), largest_regression, first, second)
    return Comparison(
        first=tuple(run.run.name for run in first.runs),
        second=tuple(run.run.name for run in second.runs),
        differing=differing(first.runs[0], second.runs[0]),
        warnings=(
            *_of_repeats(first.runs),
            *_of_repeats(second.runs),
            *_of_one_run_each(first, second),
            *_of_unlike_tops(first.runs, second.runs),
            *_of_torn((*first.runs, *second.runs)),
        ),
        figures=figures,
        made_of=difference([work_of(run) for run in first.runs], [work_of(run) for run in second.runs]),
        pairs=pairs(*(work_of(each.runs[0]) for each in (first, second)))
        if len(first.runs) == len(second.runs) == 1
        else None,
        losses=_losses(first.runs, second.runs),
        gate=gate,
    )


def repeats(side: Side) -> Repeats:
    """Of two equal runs or more."""
    figures = tuple((each.name, of_side(each, side.runs)) for each in FIGURES)
    of_score = figures[0][1].spread
    return Repeats(
        runs=tuple(run.run.name for run in side.runs),
        warnings=(*_of_repeats(side.runs), *_of_torn(side.runs)),
        figures=figures,
        precisions=()
        if of_score is None
        else tuple(Precision(share, more_runs(of_score, share)) for share in PRECISIONS),
        made_of=shares_of_spread([work_of(run) for run in side.runs]),
    )


def _gate(found: Compared, largest_regression: float, first: Side, second: Side) -> Gate:
    if found.change is None or found.change.interval is None:
        without = [side for side, of in ((first, found.first), (second, found.second)) if of.estimate is None]
        named = " and ".join(f"'{side.name}'" for side in without)
        why = (
            f"a difference is told from repeats, or from a score's own interval; {named} has neither for {found.name}: "
            "repeat the runs (A1 A2 A3 --with B1 B2 B3), or run longer"
        )
        return Gate(found.name, largest_regression, "cannot be determined", why)
    assert found.more_is_better is not None, "the command line offers no other"
    said = verdict(found.change, largest_regression, more_is_better=found.more_is_better)
    whys = {
        "no regression": "none of the 95 % interval lies beyond it",
        "regression": "all of the 95 % interval lies beyond it",
        "cannot be determined": "the 95 % interval lies across it: more runs of each side would narrow it",
    }
    return Gate(found.name, largest_regression, said, whys[said])


def _of_repeats(runs: Sequence[Report]) -> Iterator[RunWarning]:
    """That equal runs were not on equal machines, or with equal versions."""
    if apart := unequal(runs):
        remedy = "repeat them on equal machines with equal versions, or compare them as two sides (--with)"
        yield RunWarning(f"repeats, but not alike: {in_words(apart)}", "warning", remedy)


def _of_one_run_each(first: Side, second: Side) -> Iterator[RunWarning]:
    if len(first.runs) == 1 or len(second.runs) == 1:
        yield RunWarning(
            "one run of a side: its interval tells how evenly it ran, not what another run would give; "
            "two runs of one configuration differ by more",
            "warning",
            "repeat both sides, and give them as A1 A2 A3 --with B1 B2 B3",
        )


def _of_unlike_tops(first: Sequence[Report], second: Sequence[Report]) -> Iterator[RunWarning]:
    tops = [[run.losses.flops_per_accelerator for run in runs if run.losses is not None] for runs in (first, second)]
    if all(tops) and abs(mean(tops[1]) / mean(tops[0]) - 1) >= UNLIKE_TOPS:
        low, high = (units.flops_per_second(mean(each)) for each in tops)
        yield RunWarning(
            f"losses are shares of what an accelerator could do, and that differs: {low} in A, {high} in B",
            "warning",
            "compare the losses in FLOPS, as each run's report has them",
        )


def _of_torn(runs: Sequence[Report]) -> Iterator[RunWarning]:
    for run in runs:
        if (torn := torn_warning(run.run.torn_bytes, run.run.events)) is not None:
            yield replace(torn, text=f"{run.run.name}: {torn.text}")


def _losses(first: Sequence[Report], second: Sequence[Report]) -> tuple[LossChange, ...]:
    def shares(runs: Sequence[Report]) -> dict[str, float]:
        parts = [{} if run.losses is None else {loss.name: loss.share for loss in run.losses.losses} for run in runs]
        return {name: mean([of_run.get(name, 0.0) for of_run in parts]) for of_run in parts for name in of_run}

    if any(run.losses is None for run in (*first, *second)):
        return ()
    before, after = shares(first), shares(second)
    names = {**before, **after}
    changes = [LossChange(name, before.get(name, 0.0), after.get(name, 0.0)) for name in names]
    changes = [each for each in changes if each.first != each.second]
    return tuple(sorted(changes, key=lambda each: -abs(each.second - each.first)))
