"""From a run's report to what its score is made of, trial by trial (`aiperf.statistics.work_mix`)."""

from __future__ import annotations

from aiperf.report.facts import Report, TrialFacts
from aiperf.statistics.work_mix import RunWork, TrialWork


def work_of(report: Report) -> RunWork:
    """Of a run that has ended."""
    trials = [_trial(trial) for trial in report.trials if trial.started is not None]
    return RunWork(
        name=report.run.name,
        flops_per_second=report.score.flops_per_second or 0.0,
        accelerators=round(report.time_breakdown.whole_seconds / report.score.window_seconds)
        if report.score.window_seconds > 0
        else 0,
        window_seconds=report.score.window_seconds,
        trials=tuple(sorted((trial for trial in trials if trial.is_measured), key=lambda trial: trial.started)),
    )


def _trial(trial: TrialFacts) -> TrialWork:
    assert trial.started is not None
    there = trial.in_window
    return TrialWork(
        network=trial.fingerprint,
        batch=trial.batch_size,
        started=trial.started,
        images=there.trained_images + there.validated_images,
        operations=there.operations,
        tensor_operations=there.tensor_operations,
        parameters=trial.parameters,
        generation=trial.generation,
        busy_seconds=there.busy_seconds,
    )
