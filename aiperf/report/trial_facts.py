"""What each trial of a run came to, and what it did inside the valid window."""

from __future__ import annotations

import numpy as np

from aiperf.accounting.trial_record import Operations, TrialRecord
from aiperf.accounting.windows import Window, share_inside
from aiperf.report.facts import InWindow, TrialFacts
from aiperf.report.fold import Collected, TrialResults

AT_THE_END = {"training": "cut off", "waiting": "never started"}
"""What a trial came to that was in such a state when the run ended."""


def trials(run: Collected, inside: Window) -> tuple[TrialFacts, ...]:
    """All that were proposed, in their order; `inside`: the valid window."""
    columns = run.work_log.intervals
    trial = columns.trial
    most = 1 + max(run.trials, default=0)
    seconds = np.bincount(trial, columns.end - columns.start, most).tolist()
    # Sums of floating-point numbers, exact: images of one trial are fewer than 2^53.
    images = np.bincount(trial, columns.training_images, most).tolist()
    weight = share_inside(columns.start, columns.end, inside)
    in_window = [
        np.bincount(trial, weight * amount, most).tolist()
        for amount in (
            columns.training_images,
            columns.flops + columns.wasted,
            columns.tensor_flops,
            columns.busy * columns.ranks,
        )
    ]
    records = run.work_log.trials
    return tuple(
        _trial(
            number,
            results,
            records[number],
            int(images[number]),
            seconds[number],
            run.work_log.ended is not None,
            _in_window(records[number].operations, *(amounts[number] for amounts in in_window)),
        )
        for number, results in run.trials.items()
    )


def _in_window(each: Operations, trained: float, operations: float, tensor: float, busy: float) -> InWindow:
    """Intervals keep no images of validation; what the work is more than that of training is theirs."""
    validated = max(0.0, operations - trained * each.training) / each.validation
    return InWindow(trained, validated, operations, tensor, busy)


def _trial(
    number: int,
    trial: TrialResults,
    record: TrialRecord,
    training_images: int,
    seconds: float,
    has_ended: bool,
    in_window: InWindow,
) -> TrialFacts:
    proposal = trial.proposal
    return TrialFacts(
        number=number,
        round=record.round,
        searcher=proposal.searcher,
        fingerprint=proposal.fingerprint,
        follows=None if proposal.follows is None else proposal.follows.trial,
        parent=proposal.parent,
        morphs=tuple(proposal.morphs),
        generation=trial.generation,
        batch_size=trial.batch_size,
        kernel_size=proposal.kernel_size,
        worker=record.worker,
        attempts=record.attempts,
        started=record.started,
        ended=record.ended,
        epochs=trial.epochs,
        accuracy=trial.accuracy,
        told_accuracy=trial.told_accuracy,
        validation_loss=trial.validation_loss,
        outcome=AT_THE_END.get(record.outcome, record.outcome) if has_ended else record.outcome,
        reason=record.reason,
        precision=trial.precision,
        forward_flops=proposal.forward_flops,
        backward_flops=proposal.backward_flops,
        parameters=proposal.parameters,
        training_images=training_images,
        seconds=seconds,
        in_window=in_window,
    )
