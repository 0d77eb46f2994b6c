"""Conversion of a report into the work of its trials (`aiperf.statistics.work_mix`)."""

from __future__ import annotations

from aiperf.report.facts import Report, TrialFacts
from aiperf.statistics.work_mix import RunWork, TrialWork


def work_of(report: Report) -> RunWork:
    """Return the work of a run that has ended."""
    trials = [_trial(trial) for trial in report.trials if trial.started is not None]
    return RunWork(
        name=report.run.name,
        flops_per_second=report.score.flops_per_second or 0.0,
        accelerators=report.hardware.accelerators,
        window_seconds=report.score.window_seconds,
        trials=tuple(sorted((trial for trial in trials if trial.is_measured), key=lambda trial: trial.started)),
    )


def _trial(trial: TrialFacts) -> TrialWork:
    assert trial.started is not None
    inside = trial.in_window
    return TrialWork(
        network=trial.fingerprint,
        batch=trial.batch_size,
        started=trial.started,
        images=inside.trained_images + inside.validated_images,
        operations=inside.operations,
        tensor_operations=inside.tensor_operations,
        parameters=trial.parameters,
        generation=trial.generation,
        busy_seconds=inside.busy_seconds,
    )
