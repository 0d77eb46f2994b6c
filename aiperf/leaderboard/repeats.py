"""Entry for all runs of one system: the median of its announced runs, so that a site cannot enter its best run alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from aiperf.leaderboard.entry import Entry, Power
from aiperf.statistics.between_runs import ScoredRun, over_runs
from aiperf.statistics.estimate import Estimate


def system_key(entry: Entry) -> tuple[str, ...]:
    """Return the identity of the measured system. Runs with equal keys are repeats.

    The key contains site and name, or else the hosts, and the accelerators. Outside the ranking it also contains the
    configuration and the sources, because a system is measured there in several ways. Each of these is an entry.
    """
    named = (entry.site or "", entry.system) if entry.system else ("", *entry.hosts)
    if named == ("",):
        return (entry.journal.first,)
    procedure = "" if entry.benchmark.division == "ranking" else entry.procedure
    return (*named, *(f"{each.model} × {each.count}" for each in entry.accelerators), procedure)


def middle(values: Sequence[float | None], missing: int, *, is_less_better: bool = False) -> float | None:
    """Return the median of the values and of `missing` runs that count as worse than all values.

    None if a value is unknown, or if the median is one of the missing runs.

    >>> middle([3.0, 1.0, 2.0], 0), middle([3.0, 1.0, 2.0], 1), middle([3.0], 1)
    (2.0, 1.5, None)
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    ordered: list[float | None] = [*[None] * missing, *sorted(known, reverse=is_less_better)]
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return None if low is None or high is None else (low + high) / 2


def of_system(runs: Sequence[Entry], missing: int) -> Entry:
    """Return one entry for the runs of a system, with the median of each figure.

    Other fields come from the run with the score nearest to the median. `missing`: announced runs without a valid result.
    """
    if len(runs) == 1 and not missing:
        return runs[0]

    def of(figure: Callable[[Entry], float | None], *, is_less_better: bool = False) -> float | None:
        return middle([figure(run) for run in runs], missing, is_less_better=is_less_better)

    score = of(lambda run: run.flops_per_second)
    nearest = min(runs, key=lambda run: (abs((run.flops_per_second or 0.0) - (score or 0.0)), run.folder))
    over = uncertainty(runs, score)
    return replace(
        nearest,
        flops_per_second=score,
        flops_per_second_interval=None if over is None else over.interval,
        interval_freedom=None if over is None else over.freedom,
        regulated_flops_per_second=of(lambda run: run.regulated_flops_per_second),
        error=of(lambda run: run.error, is_less_better=True),
        valid_flops=of(lambda run: run.valid_flops),
        valid_flops_5=of(lambda run: run.valid_flops_5),
        valid_flops_10=of(lambda run: run.valid_flops_10),
        mfu=of(lambda run: run.mfu),
        availability=of(lambda run: run.availability),
        power=_power(runs, missing),
        attempts_lost_share=max(run.attempts_lost_share for run in runs),
        trials_given_up_share=max(run.trials_given_up_share for run in runs),
        warnings=tuple(dict.fromkeys(chain.from_iterable(run.warnings for run in runs))),
    )


def uncertainty(runs: Sequence[Entry], score: float | None) -> Estimate | None:
    """Return the uncertainty of a system's score over runs. None if unknown."""
    found = over_runs(
        [
            ScoredRun(
                run.flops_per_second or 0.0, run.flops_per_second_interval, run.interval_freedom, run.window_seconds
            )
            for run in runs
        ],
        of_median=True,
    )
    if found is None or score is None:
        return None
    return replace(found, value=score, standard_error=found.standard_error / found.value * score)


def _power(runs: Sequence[Entry], missing: int) -> Power | None:
    measured = [run.power for run in runs if run.power is not None]
    if len(measured) < len(runs) or len({power.scope for power in measured}) > 1:
        return None  # not measured in all runs, or of different parts of the machine
    watts = middle([power.watts for power in measured], missing, is_less_better=True)
    per_watt = middle([power.flops_per_watt for power in measured], missing)
    return None if watts is None else Power(watts, per_watt, measured[0].scope, min(power.level for power in measured))
