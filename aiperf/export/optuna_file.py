"""Export to Optuna studies in the file of a JournalStorage, for `optuna.load_study` and optuna-dashboard.

The first study has all trials with their best measured accuracy. The second study has the trials whose batch and kernel size
were drawn by tuning, with the states and values that tuning observed. It exists if the journal records which trials these are.

Optuna's own storage writes the lines to memory. Its file backend would lock and flush once per trial and store a process name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.distributions import IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from aiperf.export.record import File, RunRecord, TrialDetails
from searchers.history import OF_HYPERPARAMETERS

NAME = "optuna-journal.log"
TUNING = ", tuning"
"""Suffix of the second study's name."""

_STATES = {
    "finished": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "in training": TrialState.RUNNING,
    "cut off": TrialState.PRUNED,
    "waiting": TrialState.WAITING,
    "never started": TrialState.WAITING,
}


def files(record: RunRecord) -> Iterator[File]:
    """Yield the file of the storage."""
    backend = _Memory()
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # hide "study created"
    try:
        storage = JournalStorage(backend)
        _write_study(storage, record, record.title, _architectures(record))
        tuned = [trial for trial in record.trials if trial.proposal.tuned_by in ("startup", "tpe")]
        if tuned:
            _write_study(storage, record, f"{record.title}{TUNING}", _tuning(record, tuned))
    finally:
        optuna.logging.set_verbosity(verbosity)
    yield NAME, backend.lines()


class _Memory(BaseJournalBackend):
    """Lines of a storage's file, in memory."""

    def __init__(self) -> None:
        self._logs: list[dict[str, Any]] = []

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        yield from self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._logs += logs

    def lines(self) -> Iterator[bytes]:
        """Yield the lines as JournalFileBackend writes them, with a constant process name so that exports are reproducible."""
        for log in self._logs:
            yield json.dumps(log | {"worker_id": "aiperf-export"}, separators=(",", ":")).encode() + b"\n"


def _write_study(storage: JournalStorage, record: RunRecord, name: str, trials: Iterable[FrozenTrial]) -> None:
    study = storage.create_new_study([StudyDirection.MAXIMIZE], name)
    run = record.report.run
    attributes = {
        "run": run.name,
        "simulated": run.is_simulated,
        "config_hash": run.config_hash,
        "started_unix": run.started_unix,
        "end_reason": run.end_reason,
        "score_flops_per_second": record.report.score.flops_per_second,
        "is_valid": record.report.score.valid,
    }
    for key, value in attributes.items():
        storage.set_study_user_attr(study, key, value)
    storage.set_study_system_attr(study, "study:metric_names", ["validation accuracy"])
    for trial in trials:
        storage.create_new_trial(study, trial)


def _architectures(record: RunRecord) -> Iterator[FrozenTrial]:
    space = _Space(record, [trial.facts.batch_size for trial in record.trials])
    for index, trial in enumerate(record.trials):
        state = _STATES[trial.state]
        if state is TrialState.COMPLETE and trial.facts.accuracy is None:
            state = TrialState.PRUNED  # no evaluation counts
        value = trial.facts.accuracy if state is TrialState.COMPLETE else None
        yield _frozen(record, space, trial, index, state, trial.facts.batch_size, value)


def _tuning(record: RunRecord, tuned: Sequence[TrialDetails]) -> Iterator[FrozenTrial]:
    """Yield the trials as TPE observes them. Failures by hyperparameters, and each batch that was too large, are pruned."""
    numbers = {trial.facts.number: trial for trial in tuned}
    shrunk = [each for each in record.reductions if each.trial in numbers]
    space = _Space(record, [*(trial.facts.batch_size for trial in tuned), *(each.from_batch_size for each in shrunk)])
    index = 0
    for trial in tuned:
        state, value = _STATES[trial.state], trial.facts.reported_accuracy
        if trial.cause in OF_HYPERPARAMETERS:
            state = TrialState.PRUNED
        reported = value if state is TrialState.COMPLETE else None
        yield _frozen(record, space, trial, index, state, trial.facts.batch_size, reported)
        index += 1
    for each in shrunk:
        trial = numbers[each.trial]
        yield _frozen(
            record, space, trial, index, TrialState.PRUNED, each.from_batch_size, None, "out of memory", each.at
        )
        index += 1


class _Space:
    """Ranges of a study's parameters: values of its trials and limits of the configuration."""

    def __init__(self, record: RunRecord, batches: Sequence[int]) -> None:
        configured = record.report.run.config.get("space")
        allowed: dict[str, Any] = configured if isinstance(configured, dict) else {}
        bounds = [allowed.get("smallest_batch_size"), allowed.get("largest_batch_size")]
        self.batch = _range([*batches, *(bound for bound in bounds if isinstance(bound, int) and bound > 0)])
        self.kernel = _range([trial.own_kernel for trial in record.trials if trial.own_kernel is not None])


def _range(seen: Sequence[int]) -> IntDistribution:
    return IntDistribution(min(seen, default=1), max(seen, default=1))


def _frozen(
    record: RunRecord,
    space: _Space,
    trial: TrialDetails,
    index: int,
    state: TrialState,
    batch_size: int,
    value: float | None,
    reason: str | None = None,
    ended: float | None = None,
) -> FrozenTrial:
    params, distributions = {"batch_size": batch_size}, {"batch_size": space.batch}
    if trial.own_kernel is not None:
        params["kernel_size"], distributions["kernel_size"] = trial.own_kernel, space.kernel
    began, settled = record.span(trial)
    ended = settled if ended is None else ended
    return FrozenTrial(
        number=index,
        trial_id=index,
        state=state,
        value=value,
        datetime_start=None if state is TrialState.WAITING else _moment(record, began),
        datetime_complete=_moment(record, max(began, ended)) if state.is_finished() else None,
        params=params,
        distributions=dict(distributions),
        user_attrs=_attributes(trial, reason),
        system_attrs={},
        # a point that ran out of memory has no measurement
        intermediate_values={} if reason else {each.epoch: each.accuracy for each in trial.last_evaluations},
    )


def _attributes(trial: TrialDetails, reason: str | None) -> dict[str, Any]:
    facts, proposal = trial.facts, trial.proposal
    return {
        "trial": facts.number,
        "state": trial.state,
        "reason": reason or facts.reason,
        "cause": trial.cause,
        "parent": facts.parent,
        "generation": facts.generation,
        "morphs": list(facts.morphs),
        "fingerprint": facts.fingerprint,
        "searcher": facts.searcher,
        "tuned_by": proposal.tuned_by,
        "round": facts.round,
        "worker": facts.worker,
        "attempts": facts.attempts,
        "epochs": facts.epochs,
        "best_accuracy": facts.accuracy,
        "reported_accuracy": facts.reported_accuracy,
        "parameters": facts.parameters,
        "forward_flops": facts.forward_flops,
        "backward_flops": facts.backward_flops,
    }


def _moment(record: RunRecord, at: float) -> datetime:
    return datetime.fromtimestamp(record.unix(at), UTC)
