"""Comparison of two runs or groups of equal runs (sides A and B), or of several equal runs with each other, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean

from aiperf import units
from aiperf.comparison.comparability import (
    RunDifference,
    Side,
    differing,
    in_words,
    require_each_once,
    require_one_benchmark,
    unequal,
)
from aiperf.journal.journal import torn_warning
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.figures import COMPARED, COMPARED_FIXED, Figure, by_name
from aiperf.run_warning import RunWarning
from aiperf.statistics.difference import (
    ENOUGH,
    RelativeChange,
    ScoredRun,
    Verdict,
    change,
    over_runs,
    prior_of,
    verdict,
)
from aiperf.statistics.estimate import Estimate, Spread, more_runs, of_repeats, spread
from aiperf.statistics.machine_ratio import MachineRatio, machine_ratio
from aiperf.statistics.work_mix import Pairs, RunWork, ScoreFactor, TrialWork, pairs, ratio_factors

VERSION = 5
"""Version of the output of --json."""
UNLIKE_TOPS = 0.005
"""Smallest relative difference of the accelerators' peaks that causes a warning."""
PRECISIONS = (0.02, 0.01, 0.005)
"""Precisions for which a number of runs is suggested: half the interval of the mean, as a share of the mean."""


@dataclass(frozen=True, slots=True)
class LossChange:
    """Loss by one cause as a share of the peak, 0..1, on both sides. Mean over the runs of a side."""

    name: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class RegressionGate:
    """Verdict on a result (such as the score) of side B: worse than side A by more than the margin, or not."""

    figure: str
    largest_regression: float
    """Margin as a share."""
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of side A (first) and side B (second). A side is one run, or several equal runs."""

    first: tuple[str, ...]
    """Names of the runs."""
    second: tuple[str, ...]
    differing: tuple[RunDifference, ...]
    """Differences between the first runs of both sides."""
    warnings: tuple[RunWarning, ...]
    figures: tuple[Compared, ...]
    factors: tuple[ScoreFactor, ...]
    pairs: Pairs | None
    """Comparison of equal trials. None if there are none, or if a side has several runs."""
    machines: MachineRatio | None
    """Ratio of the machines. None unless each side is one run, and both trained the same list (`follow`)."""
    losses: tuple[LossChange, ...]
    """Losses that changed, the largest change first. Empty if a run has no loss waterfall."""
    gate: RegressionGate | None
    """Verdict of the regression gate. None without a margin."""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class PrecisionTarget:
    """Number of further runs for an interval of the mean of ± `share`."""

    share: float
    more_runs: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """Mean and spread of the results of several equal runs."""

    runs: tuple[str, ...]
    warnings: tuple[RunWarning, ...]
    figures: tuple[tuple[str, SideFigure], ...]
    precisions: tuple[PrecisionTarget, ...]
    """Precisions of the score."""
    version: int = VERSION


def compare(first: Side, second: Side, largest_regression: float | None = None, figure: str = "score") -> Comparison:
    require_one_benchmark(first, second)
    require_each_once((*first.folders, *second.folders))
    figures = tuple(compared(each, first.runs, second.runs) for each in _figures((*first.runs, *second.runs)))
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
            *_of_assumption((first, figures[0].first), (second, figures[0].second)),
            *_of_unlike_tops(first.runs, second.runs),
            *_of_torn((*first.runs, *second.runs)),
        ),
        figures=figures,
        factors=ratio_factors([work_of(run) for run in first.runs], [work_of(run) for run in second.runs]),
        pairs=pairs(*(work_of(each.runs[0]) for each in (first, second)))
        if len(first.runs) == len(second.runs) == 1
        else None,
        machines=_machines(first, second),
        losses=_losses(first.runs, second.runs),
        gate=gate,
    )


def repeats(side: Side) -> Repeats:
    """Return mean and spread of the results of equal runs, such as score and error."""
    figures = tuple((each.name, of_side(each, side.runs)) for each in _figures(side.runs))
    of_score = figures[0][1].spread
    return Repeats(
        runs=tuple(run.run.name for run in side.runs),
        warnings=(*_of_repeats(side.runs), *_of_assumption((side, figures[0][1])), *_of_torn(side.runs)),
        figures=figures,
        precisions=()
        if of_score is None
        else tuple(PrecisionTarget(share, more_runs(of_score, share)) for share in PRECISIONS),
    )


def _figures(runs: Sequence[Report]) -> list[Figure[Report]]:
    has_target = all(run.fixed_network is not None for run in runs)
    return [by_name(name) for name in (*COMPARED, *(COMPARED_FIXED if has_target else ()))]


def work_of(report: Report) -> RunWork:
    """Return the work of a run inside its valid window, by trial (training of one network) in order of start."""
    trials = sorted(
        (trial for trial in report.trials if trial.in_window.operations > 0 < trial.in_window.busy_seconds), key=_start
    )
    return RunWork(
        flops_per_second=report.score.flops_per_second or 0.0,
        accelerators=report.hardware.accelerators,
        window_seconds=report.score.window_seconds,
        trials=tuple(
            TrialWork(trial.fingerprint, trial.batch_size, trial.in_window.operations, trial.in_window.busy_seconds)
            for trial in trials
        ),
    )


def _machines(first: Side, second: Side) -> MachineRatio | None:
    lists = [None if run.run.follows is None else run.run.follows.sequence for run in (*first.runs, *second.runs)]
    if len(lists) != 2 or not lists[0] or lists[0] != lists[1]:
        return None
    return machine_ratio(*(seconds_of_machine(side.runs[0]) for side in (first, second)))


def seconds_of_machine(report: Report) -> dict[int, float]:
    """Return by place in the list the seconds of each trial after the warm-up ÷ the trials in progress at once."""
    spans = {
        trial.follows: (trial.started, trial.ended)
        for trial in report.trials
        if trial.follows is not None and trial.started is not None and trial.ended is not None
        if trial.outcome == "followed" and trial.started >= report.run.warmup_seconds
    }
    edges = sorted((at, change) for span in spans.values() for at, change in zip(span, (1, -1), strict=True))
    at_once = max(accumulate(change for _, change in edges), default=1)
    return {place: (ended - started) / at_once for place, (started, ended) in spans.items()}


def _start(trial: TrialFacts) -> float:
    assert trial.started is not None, "a trial with work has started"
    return trial.started


def _gate(compared: Compared, largest_regression: float, first: Side, second: Side) -> RegressionGate:
    if compared.change is None or compared.change.interval is None:
        without = [side for side, of in ((first, compared.first), (second, compared.second)) if of.estimate is None]
        named = " and ".join(f"'{side.name}'" for side in without)
        why = (
            f"a difference needs repeats, or a score with an interval; {named} has neither for {compared.name}: "
            "repeat the runs (A1 A2 A3 --with B1 B2 B3)"
        )
        return RegressionGate(compared.name, largest_regression, "cannot be determined", why)
    assert compared.more_is_better is not None, "the command line offers no other"
    outcome = verdict(compared.change, largest_regression, more_is_better=compared.more_is_better)
    whys = {
        "no regression": "the whole 95 % interval is within this margin",
        "regression": "the whole 95 % interval is beyond this margin",
        "cannot be determined": "the 95 % interval crosses this margin: repeat both sides more often",
    }
    return RegressionGate(compared.name, largest_regression, outcome, whys[outcome])


def _of_repeats(runs: Sequence[Report]) -> Iterator[RunWarning]:
    if apart := unequal(runs):
        remedy = "repeat them on equal machines with equal versions, or compare them as two sides (--with)"
        yield RunWarning(f"repeats with differences: {in_words(apart)}", "warning", remedy)


def _of_assumption(*sides: tuple[Side, SideFigure]) -> Iterator[RunWarning]:
    """Warn about an assumed spread of the score between runs, if the result uses it."""
    if any(score.estimate is None for _, score in sides):
        return  # nothing is tested
    windows = [run.score.window_seconds for side, _ in sides if len(side.runs) < ENOUGH for run in side.runs]
    if windows:
        yield RunWarning(
            f"a side has fewer than {ENOUGH} runs. The interval of one run does not cover other runs, so the test of the score "
            f"uses an assumed spread between runs of one machine: {prior_of(min(windows)).text}",
            "warning",
            f"repeat each side {ENOUGH} times or more, and give them as A1 A2 A3 --with B1 B2 B3",
        )


def _of_unlike_tops(first: Sequence[Report], second: Sequence[Report]) -> Iterator[RunWarning]:
    tops = [[run.losses.flops_per_accelerator for run in runs if run.losses is not None] for runs in (first, second)]
    if all(tops) and abs(fmean(tops[1]) / fmean(tops[0]) - 1) >= UNLIKE_TOPS:
        low, high = (units.flops_per_second(fmean(each)) for each in tops)
        yield RunWarning(
            f"losses are shares of an accelerator's peak, and the peaks differ: {low} in A, {high} in B",
            "warning",
            "compare the losses in FLOPS, as listed in each run's report",
        )


def _of_torn(runs: Sequence[Report]) -> Iterator[RunWarning]:
    for run in runs:
        if (torn := torn_warning(run.run.torn_bytes, run.run.events)) is not None:
            yield replace(torn, text=f"{run.run.name}: {torn.text}")


def _losses(first: Sequence[Report], second: Sequence[Report]) -> tuple[LossChange, ...]:
    def shares(runs: Sequence[Report]) -> dict[str, float]:
        parts = [{} if run.losses is None else {loss.name: loss.share for loss in run.losses.losses} for run in runs]
        return {name: fmean([of_run.get(name, 0.0) for of_run in parts]) for of_run in parts for name in of_run}

    if any(run.losses is None for run in (*first, *second)):
        return ()
    before, after = shares(first), shares(second)
    names = {**before, **after}
    changes = [LossChange(name, before.get(name, 0.0), after.get(name, 0.0)) for name in names]
    changes = [each for each in changes if each.first != each.second]
    return tuple(sorted(changes, key=lambda each: -abs(each.second - each.first)))


@dataclass(frozen=True, slots=True)
class SideFigure:
    """Result of one side of a comparison (one run, or several equal runs)."""

    value: float | None
    """Mean over the runs of the side. None if a run lacks the result."""
    estimate: Estimate | None
    """None if the uncertainty is unknown."""
    spread: Spread | None
    """None for a single run."""
    sampled: tuple[float, float] | None = None
    """95 % interval of a single run by sampling alone."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One result of both sides, with the relative change from the first side to the second."""

    name: str
    title: str
    more_is_better: bool | None
    first: SideFigure
    second: SideFigure
    change: RelativeChange | None
    """None if a side has no value."""


def of_side(figure: Figure[Report], runs: Sequence[Report]) -> SideFigure:
    """Return mean, uncertainty and spread of a result over the runs of one side, all None if a run lacks it."""
    figures = [figure.of(run) for run in runs]
    values = [value for value in figures if value is not None]
    if len(values) < len(figures):
        return SideFigure(None, None, None)
    estimate = score_estimate(runs) if figure.name == "score" else of_repeats(values)
    return SideFigure(fmean(values), estimate, spread(values), figure.sampling(runs[0]) if len(runs) == 1 else None)


def score_estimate(runs: Sequence[Report]) -> Estimate | None:
    """Mean score with its uncertainty. None for one run without an interval: nothing is tested by the assumption alone."""
    if len(runs) == 1 and runs[0].score.flops_per_second_interval is None:
        return None
    return over_runs(list(map(_scored, runs)))


def _scored(run: Report) -> ScoredRun:
    score = run.score
    return ScoredRun(
        score.flops_per_second or 0.0, score.flops_per_second_interval, score.interval_freedom, score.window_seconds
    )


def compared(figure: Figure[Report], first: Sequence[Report], second: Sequence[Report]) -> Compared:
    """The change is None if a side has no value, or if that of the first side is not positive."""
    one, other = of_side(figure, first), of_side(figure, second)
    apart = None
    if one.value is not None and other.value is not None:
        apart = change(one.value, other.value, one.estimate, other.estimate)
    return Compared(figure.name, figure.title, figure.more_is_better, one, other, apart)
