"""Export to an Optuna study in the file of a JournalStorage, for `optuna.load_study` and optuna-dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import optuna
from optuna.distributions import IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from aiperf.export.record import RunRecord
from aiperf.report.facts import TrialFacts

NAME = "optuna-journal.log"

_STATES = {
    "failed": TrialState.FAIL,
    "training": TrialState.RUNNING,
    "lost": TrialState.RUNNING,
    "waiting": TrialState.WAITING,
    "cut off": TrialState.PRUNED,
    "never started": TrialState.WAITING,
}
"""States by outcome. Other outcomes are complete."""


def write(record: RunRecord, folder: Path, out: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # hide "study created"
    storage = JournalStorage(JournalFileBackend(str(folder / NAME)))
    study = optuna.create_study(storage=storage, study_name=record.title, direction="maximize")
    run, score = record.report.run, record.report.score
    attributes = {
        "run": run.name,
        "simulated": run.is_simulated,
        "config_hash": run.config_hash,
        "started_unix": run.started_unix,
        "end_reason": run.end_reason,
        "score_flops_per_second": score.flops_per_second,
        "is_valid": score.valid,
        **record.results(),
    }
    for key, value in attributes.items():
        study.set_user_attr(key, value)
    trials = record.report.trials
    ranges = {
        name: IntDistribution(min(values), max(values))
        for name in ("batch_size", "kernel_size")
        if (values := [value for trial in trials if (value := getattr(trial, name)) is not None])
    }
    study.add_trials([_frozen(record, trial, ranges) for trial in trials])


def _frozen(record: RunRecord, trial: TrialFacts, ranges: Mapping[str, IntDistribution]) -> FrozenTrial:
    params = {name: value for name in ranges if (value := getattr(trial, name)) is not None}
    state = _STATES.get(trial.outcome, TrialState.COMPLETE)
    if state is TrialState.COMPLETE and trial.accuracy is None:
        state = TrialState.PRUNED  # no evaluation counts
    began, ended = (datetime.fromtimestamp(record.unix(at), UTC) for at in record.span(trial))
    return FrozenTrial(
        number=-1,  # the study numbers its trials
        trial_id=-1,
        state=state,
        value=trial.accuracy if state is TrialState.COMPLETE else None,
        datetime_start=None if state is TrialState.WAITING else began,
        datetime_complete=ended if state.is_finished() else None,
        params=params,
        distributions={name: ranges[name] for name in params},
        user_attrs={"trial": trial.number} | msgspec.to_builtins(trial),
        system_attrs={},
        intermediate_values={
            epoch: each.accuracy for epoch, each in sorted(record.epochs.get(trial.number, {}).items())
        },
    )
