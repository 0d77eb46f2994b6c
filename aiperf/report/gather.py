"""Computation of the report of a run from its events: one pass over the journal, then sums over columns."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aiperf.accounting import accelerator_time
from aiperf.accounting.error_figures import error_figures
from aiperf.accounting.intervals import Window
from aiperf.accounting.score import CurvePoint, Score, capacity, curve, score, settled
from aiperf.accounting.score_texts import no_score, score_warnings
from aiperf.accounting.step_breakdown import step_breakdown
from aiperf.accounting.valid_flops import fixed_network_result, quality_epoch
from aiperf.accounting.work_log import WorkLog, window
from aiperf.journal.events import AnyEvent, WorkerJoined
from aiperf.ranking.breaches import breaches
from aiperf.ranking.division import BUILT_IN, division, largest_error
from aiperf.report import facts
from aiperf.report.architecture import best_architecture, start_fingerprint, tree
from aiperf.report.candidate import candidate
from aiperf.report.fold import Collected, collect, exchange_facts
from aiperf.report.nodes import clock_offsets, nodes, preflight_warnings, system_warnings, unusable_accelerators
from aiperf.report.training_floor import HostRoofs, padding_share, training_floor
from aiperf.report.trial_facts import pareto_front, trials
from aiperf.report.utilisation import losses, peak_of_rank, utilisation
from aiperf.report.worker_timeline import gantt
from aiperf.rules.limits import is_published_workload
from aiperf.run_warning import RunWarning
from aiperf.system.energy import EnergyFacts, energy_facts, energy_warnings
from aiperf.system.meters import Meter, read_meters
from aiperf.system.of_run import SystemDescription, system_description
from aiperf.system.summary import LARGE_RUN, Telemetry, summarise_folder
from aiperf.system.warnings import damage_warnings, died, telemetry_warnings

CURVE_POINTS = 240
ERROR_POINTS = 1500
"""Number of epochs in the plot of the error, in addition to every improvement."""


def gather(
    events: Iterable[AnyEvent],
    folder: Path | None = None,
    roofs: HostRoofs | None = None,
    stated_error: float | None = None,
) -> facts.Report:
    """Return the report of a run, computed from all events of its journal, which are read once and in order.

    `stated_error`: error to which the time is shown. Default: the largest one of the ranking.
    """
    run = collect(events)
    work_log = run.work_log
    result = score(work_log)
    inside = window(work_log)
    end = work_log.at if work_log.ended is None else work_log.ended.at
    measured, metered = None, tuple[Meter, ...]()
    if folder is not None and inside.seconds > 0:
        measured = _telemetry(folder, run, inside)
        metered = read_meters(folder, run.started.started_unix, (inside.start, inside.end))
    used = utilisation(run, inside)
    architecture = best_architecture(run)
    points = curve(work_log, CURVE_POINTS)
    spent = accelerator_time.accelerator_time(work_log, inside)
    present = accelerator_time.seconds_present(work_log.presences, inside)
    available = accelerator_time.availability(work_log, inside, end, result.flops_per_second)
    worked_until = _worked_until(work_log, inside)
    hosts = _hosts(run.workers[number] for number in worked_until)
    energy = energy_facts(measured, metered, hosts, result.flops_per_second, present, inside.seconds)
    described = system_description(run.started.config, run.checks)
    checked = candidate(run, inside, result, used.mfu_busy)
    fp32 = None if run.target is None else peak_of_rank(run, "fp32")
    peak = None if fp32 is None else fp32.flops * capacity(work_log)
    settled_trials = trials(run, inside)
    return facts.Report(
        run=_run(run, end, checked.start_network),
        hardware=_hardware(run),
        score=result,
        no_score=no_score(work_log, result),
        breaches=breaches(checked),
        divisions=tuple(name for name in BUILT_IN if not breaches(checked, division(name))),
        warnings=_warnings(run, result, described, measured, metered, energy, worked_until),
        curve=points,
        instantaneous=_instantaneous(points),
        settled=settled(points, inside),
        errors=_errors(run),
        error_points=len(run.error),
        error_figures=error_figures(work_log, stated_error or largest_error()),
        time_breakdown=accelerator_time.time_breakdown(spent),
        losses=losses(spent, available.planned, result.flops_per_second, used, measured, present, worked_until),
        availability=available,
        utilisation=used,
        proposals=_proposals(run),
        trials=settled_trials,
        best=run.best,
        front=tuple(trial.number for trial in pareto_front(settled_trials)),
        workers=_workers(run),
        nodes=nodes(run.checks),
        systems=_systems(run),
        system=described,
        gantt=gantt(work_log, end),
        tree=tree(run.trials, run.best),
        architecture=architecture,
        telemetry=measured,
        energy=energy,
        fixed_network=fixed_network_result(
            work_log,
            run.target,
            run.target_epochs,
            peak,
            is_published_workload=is_published_workload(run.started.config, run.started.dataset, checked.start_network),
        ),
        weights=quality_epoch(run.work_log),
        attempts_lost_share=checked.lost_share,
        trials_given_up_share=checked.given_up_share,
        proposals_ended_share=checked.proposals_ended_share,
        worker_class=checked.worker_class,
        training_floor=training_floor(run, settled_trials, used.peak_flops, roofs),
        padding_share=padding_share(run, settled_trials),
        exchange=exchange_facts(run, inside),
        prediction=_prediction(run, accelerator_time.time_breakdown(spent), result.flops_per_second),
        step=None if run.profiled is None else step_breakdown(run.profiled),
    )


def _telemetry(folder: Path, run: Collected, inside: Window) -> Telemetry | None:
    """Summarize the telemetry of the window on the driver's clock. Return None without telemetry."""
    if not (folder / "telemetry").exists():
        return None
    summed = summarise_folder(
        folder / "telemetry",
        (inside.start, inside.end),
        accelerator_time.spans(run.work_log, inside),
        clock_offsets(run.checks),
        by_minute=capacity(run.work_log) > LARGE_RUN,
    )
    return summed if summed.workers or summed.damaged else None


def _prediction(
    run: Collected, spent: accelerator_time.TimeBreakdown, score: float | None
) -> facts.PredictionFacts | None:
    if run.predicted is None:
        return None
    content = run.predicted.prediction
    lines = tuple(
        facts.PredictedLine(
            line.name, content["shares"].get(line.name, 0.0), line.share, line.share * content["score"] / score
        )
        for line in spent.lines
        if spent.whole_seconds > 0 and score
    )
    return facts.PredictionFacts(
        flops_per_second=content["score"],
        interval=(content["interval"][0], content["interval"][1]),
        workers=content["workers"],
        is_extrapolated=bool(content["is_extrapolated"]),
        source=content["source"],
        lines=lines,
        largest_gap=max(lines, key=lambda line: abs(line.gap)).name if lines else None,
    )


def _run(run: Collected, end: float, start_network: str | None) -> facts.RunFacts:
    started, ended = run.started, run.work_log.ended
    return facts.facts_of(
        facts.RunFacts,
        started,
        name=started.run,
        journal_schema=started.schema,
        start_network=start_network,
        start_fingerprint=start_fingerprint(started.start_graph),
        is_simulated=started.simulated,
        end=end,
        end_reason=None if ended is None else ended.reason,
        resumes=len(run.resumes),
        down_seconds=run.work_log.down_seconds,
        events=run.line,
        torn_bytes=run.torn_bytes,
        versions=run.resumes[-1].versions if run.resumes else started.versions,
        versions_changed=tuple(run.versions_changed),
    )


def _hardware(run: Collected) -> facts.Hardware:
    joined = run.workers.values()
    shape = run.started.shape
    return facts.Hardware(
        devices=tuple(sorted({each.device for each in joined})),
        accelerators=capacity(run.work_log),
        are_accelerators=any(each.machine.get("accelerators") for each in joined)
        or (shape is not None and shape.accelerators > 0),
        hosts=len(_hosts(joined)),
        precisions=tuple(sorted({preparation.precision for preparation in run.work_log.preparations})),
        collectives=tuple(sorted({each.collective for each in joined})),
    )


def _instantaneous(points: Sequence[CurvePoint]) -> facts.Instantaneous | None:
    rates = [point.instantaneous_flops_per_second for point in points if point.flops_per_second is not None]
    if not rates or len(points) < 2:
        return None
    low, median, high = np.percentile(rates, (5, 50, 95)).tolist()
    return facts.Instantaneous(median, low, high, points[1].at - points[0].at)


def _errors(run: Collected) -> tuple[facts.ErrorPoint, ...]:
    error = np.maximum(np.array(run.error), 1.0 / (2 * int(run.started.dataset["validation_images"])))
    best = np.minimum.accumulate(np.minimum(error, 1.0))
    return tuple(
        facts.ErrorPoint(run.error_at[index], run.error_trial[index], float(error[index]), float(best[index]))
        for index in thinned(best, ERROR_POINTS)
    )


def thinned(best: npt.NDArray[np.float64], most: int) -> list[int]:
    """Return the indices of the epochs to draw: every improvement, the first, the last, and evenly spaced other epochs."""
    if not len(best):
        return []
    is_shown = np.arange(len(best)) % -(-len(best) // most) == 0
    is_shown[0] = is_shown[-1] = True
    is_shown[1:] |= best[1:] < best[:-1]
    return [int(index) for index in np.flatnonzero(is_shown)]


def _proposals(run: Collected) -> facts.Proposals:
    seconds = [trial.proposal.seconds for trial in run.trials.values()]
    return facts.Proposals(
        requested=len(run.asked),
        made=len(run.trials),
        rejected=run.work_log.rejected,
        median_seconds=statistics.median(seconds) if seconds else None,
        largest_seconds=max(seconds, default=None),
        pruned=sum(len(trial.proposal.pruned) for trial in run.trials.values()),
        batch_reductions=run.batch_reductions,
        startup_trials=sum(trial.proposal.tuned_by == "startup" for trial in run.trials.values()),
        startup_share=_startup_share(run),
        **_reached(run),
    )


def _reached(run: Collected) -> dict[str, float]:
    records = run.work_log.trials.items()
    begun = [(run.trials[n].proposal.forward_flops, -each.started) for n, each in records if each.started is not None]
    match run.started.config.get("space"):
        case {"budget": {"forward_flops": int(most)}} if most > 0 and len({size for size, _ in begun}) > 1:
            largest, since = max(begun)
            return {"reached_share": largest / most, "reached_after": -since}
    return {}


def _startup_share(run: Collected) -> float | None:
    columns = run.work_log.intervals
    busy = np.bincount(columns.trial, columns.clock("busy") * columns.ranks, 1 + max(run.trials, default=0))
    is_recorded = all(trial.proposal.tuned_by for trial in run.trials.values())
    at_random = [number for number, trial in run.trials.items() if trial.proposal.tuned_by == "startup"]
    return float(busy[at_random].sum() / busy.sum()) if is_recorded and busy.sum() > 0 else None


def _workers(run: Collected) -> tuple[facts.WorkerFacts, ...]:
    return tuple(
        facts.facts_of(
            facts.WorkerFacts,
            presence,
            run.workers[presence.worker],
            number=presence.worker,
            lost=presence.left,
            lost_reason=presence.left_reason,
        )
        for presence in sorted(run.work_log.presences, key=lambda presence: presence.worker)
    )


_OF_ONE_HOST = frozenset({"host", "boot_id", "scheduler", "accelerators"})
"""Parts of a description that differ between equal hosts (accelerators have serial numbers)."""


def _systems(run: Collected) -> tuple[facts.SystemFacts, ...]:
    alike: dict[tuple[str, ...], list[WorkerJoined]] = {}
    for _, joined in sorted(run.workers.items()):
        key = (joined.device, str(joined.device_memory_bytes), joined.collective, repr(_of_all_hosts(joined)))
        alike.setdefault(key, []).append(joined)
    systems = [
        facts.facts_of(
            facts.SystemFacts,
            workers[0],
            hosts=len(_hosts(workers)),
            example=workers[0].host,
            workers=len(workers),
            accelerators=sum(joined.ranks for joined in workers),
            machine=_of_all_hosts(workers[0]),
        )
        for workers in alike.values()
    ]
    return tuple(sorted(systems, key=lambda system: (-system.workers, system.example)))


def _of_all_hosts(joined: WorkerJoined) -> dict[str, Any]:
    return {name: value for name, value in joined.machine.items() if name not in _OF_ONE_HOST}


def _worked_until(work_log: WorkLog, inside: Window) -> dict[int, float]:
    """Return the end of the last work inside the window, in seconds, of each worker that worked there."""
    columns = work_log.intervals
    end = np.minimum(columns.end, inside.end)
    order = np.lexsort((end, columns.worker))
    worker, end = columns.worker[order], end[order]
    is_last = np.append(worker[1:] != worker[:-1], True) if len(worker) else np.zeros(0, dtype=bool)
    last = zip(worker[is_last].tolist(), end[is_last].tolist(), strict=True)
    return {number: at for number, at in last if at > inside.start}


def _hosts(workers: Iterable[WorkerJoined]) -> frozenset[str]:
    return frozenset(host for joined in workers for host in (joined.hosts or (joined.host,)))


def _warnings(
    run: Collected,
    result: Score,
    described: SystemDescription,
    measured: Telemetry | None,
    metered: tuple[Meter, ...],
    energy: EnergyFacts | None,
    worked_until: dict[int, float],
) -> tuple[RunWarning, ...]:
    is_simulated = run.started.simulated
    warnings = [*score_warnings(run.work_log, result)]
    warnings += damage_warnings([meter.damaged for meter in metered if meter.damaged is not None], "power meter")
    warnings += [] if run.torn is None else [run.torn]
    warnings += preflight_warnings(run.checks, run.started.config, is_simulated=is_simulated)
    warnings += system_warnings(described)
    warnings += unusable_accelerators(run.workers.values())
    if measured is not None:
        warnings += telemetry_warnings(measured)
    warnings += () if energy is None else energy_warnings(energy)
    if measured is not None and measured.workers:
        warnings += died(measured, worked_until)
    if (measured is None or not measured.workers) and not is_simulated:
        text = "utilisation, power and temperature of the devices were not measured"
        warnings.append(RunWarning(text, "note", "keep the folder telemetry/ next to the journal, see docs/report.md"))
    order = ("critical", "warning", "note")
    return tuple(sorted(warnings, key=lambda warning: order.index(warning.severity)))
