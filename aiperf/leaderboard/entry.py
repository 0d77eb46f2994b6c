"""Entry of a list of runs: the results of a run's report, or the median over the announced runs of a system.

A site therefore cannot enter its best run alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, get_args

from aiperf.accounting.valid_flops import valid_flops
from aiperf.accounting.work_log import SealedEpoch
from aiperf.errors import BadConfiguration
from aiperf.journal.journal import torn_warning
from aiperf.journal.sealed_log import JournalHashes
from aiperf.leaderboard.benchmark import Benchmark, benchmark_of, procedure_of, purpose_of
from aiperf.nearest import nearest
from aiperf.ranking.breaches import RuleViolation
from aiperf.report import phrases
from aiperf.report.facts import Report, facts_of
from aiperf.report.figures import RANKED, Figure, by_name
from aiperf.run_warning import RunWarning
from aiperf.sanitize import identity
from aiperf.statistics.difference import ENOUGH, ListSpread, ScoredRun, over_runs, pooled, prior_of
from aiperf.statistics.estimate import Estimate


@dataclass(frozen=True, slots=True)
class ModelCount:
    """Accelerators of one model. On machines without accelerators: training processes."""

    model: str
    count: int


@dataclass(frozen=True, slots=True)
class Power:
    """Mean power in the valid window, from the measurement that covers the largest part of the machine."""

    watts: float
    flops_per_watt: float | None
    """Score ÷ watts. None without a score."""
    scope: str
    """Measured part of the machine: 'meters', 'accelerators' or 'processors'."""
    level: int
    """Level of the EEHPC methodology, 0 to 3. Green500 accepts 1 and above."""


QualityShown = Literal["no", "not shown", "not evaluated", "yes"]
"""'yes' and 'no': its weights were evaluated. 'not evaluated': the weights that the journal seals are there."""


@dataclass(frozen=True, slots=True)
class AnnouncedCounts:
    """Counts of a site's announced runs and of the published ones among them."""

    published: int
    announced: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Results and properties of one run in a list. None means "not measured" or "not known", never zero."""

    run: str
    folder: str
    system: str | None
    """Name of the system, given by the site. None if the site gives none."""
    site: str | None
    started_unix: float | None
    """Start of the run in seconds since 1970. None for a simulated run."""
    seed: int
    config_hash: str
    release: str | None
    """AIPerf release of the run's last driver."""
    proposal_rules: int
    events: int
    journal: JournalHashes
    benchmark: Benchmark
    contents: str | None
    """Hash of the contents of the images. None if not shown."""
    archives: Mapping[str, Mapping[str, str]]
    """MD5 and SHA-256 by name of the archives with the published sums from which the site made the images."""
    is_simulated: bool
    lacks: str
    """Reason for the missing score, or '' for a run with a score."""
    figures: Mapping[str, float | None]
    """Figures of the ranking by name."""
    flops_per_second_interval: tuple[float, float] | None
    """95 % interval. For one run it covers the steadiness of that run, not other seeds. For several runs: over runs."""
    interval_freedom: int | None
    """Student's degrees of freedom of that interval."""
    regulated_flops_per_second_interval: tuple[float, float] | None
    """95 % interval of one run by the sampling of the validation samples alone. None for several runs."""
    valid_flops_5: float | None
    """Valid FLOPS with exponent 5, whatever the exponent of the run is."""
    valid_flops_10: float | None
    peak_source: str | None
    is_peak_declared: bool
    """True if the user declared the peak. MFU is then shown and not ranked."""
    accelerators: tuple[ModelCount, ...]
    """Number of accelerators by model, the largest number first."""
    power: Power | None
    """Mean power and efficiency. None if not measured for all accelerators."""
    seconds: float
    """Length of the run in seconds."""
    window_seconds: float
    breaches: tuple[RuleViolation, ...]
    """Broken rules of the ranking."""
    rules_heading: str
    """Heading of `rules_not_met` for a simulated run, else ''."""
    rules_not_met: tuple[str, ...]
    """Broken rules as text, as listed in the report."""
    warnings: tuple[RunWarning, ...]
    torn: RunWarning | None
    """Warning about a torn last line of the journal, which was dropped. It is also in `warnings`."""
    announcement: str | None
    """Id of the announcement named in the journal. None if the run was not announced."""
    announced: AnnouncedCounts | None
    """Counts from the site's log. None if no given log holds the announcement."""
    announcement_fault: str
    """Difference of the run from its announcement in the given logs. '' without a fault or without logs."""
    witnessed: float | None
    """Share of the run's time in which another principal witnessed the journal. None without a log and its principals."""
    hosts: tuple[str, ...]
    """Hosts of the workers."""
    procedure: str
    """Digest of configuration and sources, equal for repeats."""
    purpose: tuple[str, ...]
    """Purpose of the run: site, system, data set, length, and 'ranking' or 'other' (`purpose_of`)."""
    attempts_lost_share: float
    trials_given_up_share: float
    proposals_ended_share: float
    weights: SealedEpoch | None
    quality_shown: QualityShown = "not shown"

    @property
    def score(self) -> float | None:
        return self.figures["score"]

    @property
    def accelerator_count(self) -> int:
        """Sum over all models of the largest number of accelerators at once. On hosts without any: training processes."""
        return sum(each.count for each in self.accelerators)


def entry_of(report: Report, folder: str, journal: JournalHashes) -> Entry:
    run, score = report.run, report.score
    heading, rules = phrases.broken_rules(report)
    return facts_of(
        Entry,
        run,
        score,
        report.utilisation,
        report,
        run=run.name,
        folder=folder,
        system=_text(report.system.form.get("name")),
        site=_text(report.system.form.get("site")),
        started_unix=None if run.is_simulated else run.started_unix,
        release=run.versions.get("aiperf-cluster"),
        journal=journal,
        benchmark=benchmark_of(report),
        contents=_text(run.dataset.get("contents")),
        archives=run.dataset.get("archives", {}),
        lacks=_lacks(report),
        figures={name: by_name(name).of(report) for name in RANKED},
        valid_flops_5=_valid_flops(report, 5),
        valid_flops_10=_valid_flops(report, 10),
        accelerators=_accelerators(report),
        power=_power(report),
        seconds=run.end,
        window_seconds=max(0.0, score.window_seconds),
        rules_heading=heading,
        rules_not_met=tuple(rules),
        torn=torn_warning(run.torn_bytes, run.events),
        announcement=None if (named := run.config.get("announcement")) is None else str(named),
        announced=None,
        announcement_fault="",
        witnessed=None,
        hosts=tuple(sorted({worker.host for worker in report.workers})),
        procedure=procedure_of(run.config, run.versions),
        purpose=purpose_of(run.config),
    )


def _valid_flops(report: Report, exponent: int) -> float | None:
    result = report.fixed_network
    if result is None:
        return None
    return valid_flops(result.flops_per_second_to_last_epoch, result.quality, result.target_quality, exponent)


def _accelerators(report: Report) -> tuple[ModelCount, ...]:
    """Return the largest number of each model that worked at once. Replacements of lost workers are not counted twice."""
    present: Counter[str] = Counter()
    most: Counter[str] = Counter()
    changes = [(worker.joined, 1, worker.device, worker.ranks) for worker in report.workers]
    changes += [(worker.lost, 0, worker.device, -worker.ranks) for worker in report.workers if worker.lost is not None]
    for _, _, model, ranks in sorted(changes):  # at equal times, losses come before arrivals
        present[model] += ranks
        most[model] = max(most[model], present[model])
    return tuple(
        ModelCount(model, count) for model, count in sorted(most.items(), key=lambda each: (-each[1], each[0]))
    )


def _power(report: Report) -> Power | None:
    energy = report.energy
    if energy is None or energy.best.watts is None:
        return None
    return Power(energy.best.watts, energy.best.flops_per_watt, energy.best.scope, energy.level.level)


def _text(field: object) -> str | None:
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


def system_key(entry: Entry) -> tuple[str, ...]:
    """Return the identity of the measured system, without announcements with its accelerators, configuration and sources."""
    named = (identity(entry.site or ""), identity(entry.system)) if entry.system else ("", *entry.hosts)
    if named == ("",):
        return (entry.journal.first,)
    if entry.benchmark.is_announced and entry.system:
        return named
    return (*named, *(f"{each.model} × {each.count}" for each in entry.accelerators), entry.procedure)


BAND = 1.5
"""Runs of a system with this ratio of accelerators or less are one entry."""


def bands(sizes: Iterable[int]) -> list[int]:
    """Return the largest number of accelerators of each entry of a system, descending.

    >>> bands([8, 64, 43, 42, 6])
    [64, 42, 8]
    """
    tops: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not tops or size * BAND < tops[-1]:
            tops.append(size)
    return tops


def middle(values: Sequence[float | None], missing: int, *, is_less_better: bool = False) -> float | None:
    """Return the median of the values and of `missing` further runs that count as worse than all values.

    `is_less_better`: True if a small value is good. None if a value is unknown, or if the median depends on a missing run.

    >>> middle([3.0, 1.0, 2.0], 0), middle([3.0, 1.0, 2.0], 1), middle([3.0], 1)
    (2.0, 1.5, None)
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    ordered: list[float | None] = [*[None] * missing, *sorted(known, reverse=is_less_better)]
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return None if low is None or high is None else (low + high) / 2


def of_system(runs: Sequence[Entry], missing: int, spread: ListSpread) -> Entry:
    """Return one entry for the runs of a system, with the median of each result. None if it depends on a missing one."""
    if len(runs) == 1 and not missing:
        return runs[0]
    power = _power_of_system(runs, missing)
    figures = {
        name: middle([run.figures[name] for run in runs], missing, is_less_better=by_name(name).better == "less")
        for name in RANKED
    } | {"flops-per-watt": None if power is None else power.flops_per_watt}
    score = figures["score"]
    typical = min(runs, key=lambda run: (abs((run.score or 0.0) - (score or 0.0)), run.folder))
    over = uncertainty(by_name("score"), runs, score, spread)
    return replace(
        typical,
        figures=figures,
        flops_per_second_interval=None if over is None else over.interval,
        interval_freedom=None if over is None else over.freedom,
        regulated_flops_per_second_interval=None,
        valid_flops_5=middle([run.valid_flops_5 for run in runs], missing),
        valid_flops_10=middle([run.valid_flops_10 for run in runs], missing),
        power=power,
        attempts_lost_share=max(run.attempts_lost_share for run in runs),
        trials_given_up_share=max(run.trials_given_up_share for run in runs),
        proposals_ended_share=max(run.proposals_ended_share for run in runs),
        witnessed=min((run.witnessed for run in runs if run.witnessed is not None), default=None),
        quality_shown=min((run.quality_shown for run in runs), key=get_args(QualityShown).index),
        warnings=tuple(dict.fromkeys(chain.from_iterable(run.warnings for run in runs))),
    )


def spread_of(figure: Figure[Report], systems: Sequence[Sequence[Entry]]) -> ListSpread:
    """Return the spread of a figure between runs of one system. Only the score has an assumed one."""
    windows = [run.window_seconds for runs in systems for run in runs]
    known = [[run.figures[figure.name] for run in runs] for runs in systems]
    repeats = pooled([value for value in values if value is not None] for values in known)
    return ListSpread(prior_of(min(windows)) if figure.name == "score" and windows else None, repeats)


def uncertainty(
    figure: Figure[Report], runs: Sequence[Entry], value: float | None, spread: ListSpread
) -> Estimate | None:
    """Return the uncertainty of a system's figure over its runs. None if the spread between runs is unknown."""
    if value is None or (len(runs) < ENOUGH and spread.used is None):
        return None
    is_score = figure.name == "score"
    estimate = over_runs(
        [
            ScoredRun(
                run.figures[figure.name] or 0.0,
                run.flops_per_second_interval if is_score else None,
                run.interval_freedom if is_score else None,
                run.window_seconds,
            )
            for run in runs
        ],
        of_median=True,
        spread=spread.used,
    )
    return estimate and replace(estimate, value=value, standard_error=estimate.standard_error / estimate.value * value)


def _power_of_system(runs: Sequence[Entry], missing: int) -> Power | None:
    measured = [run.power for run in runs if run.power is not None]
    if len(measured) < len(runs) or len({power.scope for power in measured}) > 1:
        return None  # not measured in all runs, or of different parts of the machine
    watts = middle([power.watts for power in measured], missing, is_less_better=True)
    per_watt = middle([power.flops_per_watt for power in measured], missing)
    return None if watts is None else Power(watts, per_watt, measured[0].scope, min(power.level for power in measured))


def why_unranked(figure: Figure[Report], entry: Entry) -> str:
    """Return the reason why an entry with a figure gets no place by it, or ''."""
    if figure.name == "mfu" and entry.is_peak_declared:
        return "the peak is declared"
    # As in the Green500: measuring a smaller part of the machine would give a better place.
    is_below = figure.name == "flops-per-watt" and entry.power is not None and entry.power.level < 1
    return "measured below EEHPC Level 1" if is_below else ""


def ranking_figure(name: str) -> Figure[Report]:
    """Return the figure of an order by the name that a user gave."""
    if name not in RANKED:
        raise BadConfiguration(f"--by is one of {', '.join(RANKED)}, but found {name!r}{nearest(name, RANKED)}")
    return by_name(name)
