"""One run as it stands in a list: its figures as its report has them, and those that only lists have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from aiperf.journal.journal import torn_warning
from aiperf.leaderboard.benchmark import Benchmark, benchmark_of
from aiperf.leaderboard.valid_flops import valid_flops
from aiperf.ranking.breaches import Breach
from aiperf.report import words
from aiperf.report.facts import Report
from aiperf.run_warning import RunWarning


@dataclass(frozen=True, slots=True)
class Accelerators:
    """Accelerators of one model; on machines without, the processes that train."""

    model: str
    count: int


@dataclass(frozen=True, slots=True)
class Power:
    """What was drawn in the valid window, by the widest measurement that there is."""

    watts: float
    flops_per_watt: float | None
    """Score ÷ watts; None: there is no score."""
    scope: str
    """What it was measured of: 'meters', 'accelerators' or 'processors'."""
    level: int
    """Of the EEHPC methodology, 0 to 3. Green500 takes 1 and above; below it a part may pass for the whole."""


@dataclass(frozen=True, slots=True)
class OfAnnounced:
    """How many of the runs that a site announced were published."""

    published: int
    announced: int


@dataclass(frozen=True, slots=True)
class Ends:
    """What tells a journal from all others."""

    first: str
    """SHA-256 of its first line: equal, and it is the same run."""
    last: str
    """Of its last whole line, which follows from all before it: equal too, and it is the same journal."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of a list. None is "not measured" or "not known", never zero."""

    run: str
    folder: str
    system: str | None
    """As the site calls it."""
    site: str | None
    started_unix: float | None
    """None: a simulated run began at no time."""
    seed: int
    config_hash: str
    release: str | None
    """Of aiperf, the run's last driver."""
    proposal_rules: int
    events: int
    journal: Ends
    benchmark: Benchmark
    is_simulated: bool
    lacks: str
    """What it has not, that a score takes; '' for nothing."""
    flops_per_second: float | None
    flops_per_second_interval: tuple[float, float] | None
    """95 %: how evenly this run went, not what another seed would give."""
    interval_freedom: int | None
    """Student's degrees of freedom of that interval."""
    regulated_flops_per_second: float | None
    error: float | None
    valid_flops: float | None
    mfu: float | None
    peak_source: str | None
    accelerators: tuple[Accelerators, ...]
    """Most first."""
    power: Power | None
    """None: not measured, or not of all accelerators."""
    seconds: float
    """From the run's beginning to its end."""
    window_seconds: float
    availability: float | None
    breaches: tuple[Breach, ...]
    """What keeps it out of the division ranking."""
    rules_heading: str
    rules_not_met: tuple[str, ...]
    """The same in words, as its report lists them; of a simulated run under a heading, which is '' otherwise."""
    warnings: tuple[RunWarning, ...]
    torn: RunWarning | None
    """That its journal's last line was torn and dropped, which stands among the warnings too; None: none was."""
    announcement: str | None
    """The id of the announcement that its journal names; None: it names none."""
    announced: OfAnnounced | None
    """Of its site's log; None: no log was given that holds its announcement."""

    @property
    def accelerator_count(self) -> int:
        return sum(each.count for each in self.accelerators)


def entry_of(report: Report, folder: str, journal: Ends) -> Entry:
    """The run of a report that was computed from the journal in `folder`."""
    run, score = report.run, report.score
    heading, rules = words.broken_rules(report)
    return Entry(
        run=run.name,
        folder=folder,
        system=_told(report.system.form.get("name")),
        site=_told(report.system.form.get("site")),
        started_unix=None if run.is_simulated else run.started_unix,
        seed=run.seed,
        config_hash=run.config_hash,
        release=run.versions.get("aiperf-cluster"),
        proposal_rules=run.proposal_rules,
        events=run.events,
        journal=journal,
        benchmark=benchmark_of(report),
        is_simulated=run.is_simulated,
        lacks=_lacks(report),
        flops_per_second=score.flops_per_second,
        flops_per_second_interval=score.flops_per_second_interval,
        interval_freedom=score.interval_freedom,
        regulated_flops_per_second=score.regulated_flops_per_second,
        error=score.error,
        valid_flops=valid_flops(score.flops_per_second, score.error, run.dataset),
        mfu=report.utilisation.mfu,
        peak_source=report.utilisation.peak_source,
        accelerators=_accelerators(report),
        power=_power(report),
        seconds=run.end,
        window_seconds=max(0.0, score.window_seconds),
        availability=report.availability.share,
        breaches=report.breaches,
        rules_heading=heading,
        rules_not_met=tuple(rules),
        warnings=report.warnings,
        torn=torn_warning(run.torn_bytes, run.events),
        announcement=None if (named := run.config.get("announcement")) is None else str(named),
        announced=None,
    )


def _accelerators(report: Report) -> tuple[Accelerators, ...]:
    """Of each model as many as ever worked at once, workers that came in place of lost ones not counted twice."""
    there: Counter[str] = Counter()
    most: Counter[str] = Counter()
    changes = [(worker.joined, 1, worker.device, worker.ranks) for worker in report.workers]
    changes += [(worker.lost, 0, worker.device, -worker.ranks) for worker in report.workers if worker.lost is not None]
    for _, _, model, ranks in sorted(changes):  # a worker that leaves as another comes is no moment with both
        there[model] += ranks
        most[model] = max(most[model], there[model])
    return tuple(
        Accelerators(model, count) for model, count in sorted(most.items(), key=lambda each: (-each[1], each[0]))
    )


def _power(report: Report) -> Power | None:
    energy = report.energy
    if energy is None or energy.best.watts is None:
        return None
    return Power(energy.best.watts, energy.best.flops_per_watt, energy.best.scope, energy.level.level)


def _told(field: object) -> str | None:
    return field if isinstance(field, str) and field else None


def _lacks(report: Report) -> str:
    score = report.score
    if report.run.end_reason is None:
        return "the run has not ended"
    if score.window_seconds <= 0:
        return "no valid window: it ended within its warm-up"
    if not score.trials_finished:
        return "no trial was finished"
    return "" if score.valid else "no work, or no evaluation, in the valid window"
