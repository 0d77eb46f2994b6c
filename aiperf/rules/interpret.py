"""Conversion of executor messages to events, by the run's state and the driver's clock.

Late messages of an ended attempt, repeated and outdated messages yield no event. Sums become intervals that tile the
attempt's time: an interval ends when its message arrives and begins at the end of the previous interval. The worker's clock
is not used.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from aiperf.journal import events, messages
from aiperf.rules.procedure import end_of_trial, reported_accuracy
from aiperf.rules.state import Run
from aiperf.rules.trial import Trial, TrialState

WorkerMessage = (
    messages.WorkerUp
    | messages.WorkerDown
    | messages.NotStarted
    | messages.Inspected
    | messages.HelperDown
    | messages.Ceiling
    | messages.Prepared
    | messages.Heartbeat
    | messages.Advanced
    | messages.EpochDone
    | messages.CheckpointSaved
    | messages.CheckpointFailed
    | messages.CorruptImagesFound
    | messages.OutOfMemory
    | messages.TrialDone
    | messages.Crashed
    | messages.CheckpointGone
)
"""All messages except the answers to Propose, which the driver first checks against their lineage."""

FILES_OF_A_LINE = 100
"""Maximum number of corrupt images in one event."""


def interpret(run: Run, word: WorkerMessage, now: float) -> list[events.AnyEvent]:
    """Return the events of a message that arrives at `now` seconds after the start of the run.

    Empty if it reports nothing new.
    """
    match word:
        case messages.Advanced():
            trial = _current(run, word.trial, word.attempt)
            return [] if trial is None else _advanced(trial, word, now)
        case messages.EpochDone():
            return _epoch_done(run, word, now)
        case messages.WorkerUp():
            if word.worker in run.workers or word.worker in run.departed:
                return []
            return [_joined(word, now)]
        case messages.WorkerDown():
            if word.worker not in run.workers:
                return []
            return [
                events.WorkerLost(
                    at=now,
                    worker=word.worker,
                    cause="released" if word.released else "reported",
                    reason=word.reason,
                )
            ]
        case messages.NotStarted():
            return [events.WorkerNotStarted(at=now, host=word.host, failures=word.failures, reason=word.reason)]
        case messages.Inspected():
            return [events.NodeChecked(at=now, **msgspec.structs.asdict(word))]
        case messages.HelperDown():
            if word.worker not in run.workers:
                return []
            return [events.HelperLost(at=now, worker=word.worker, helper=word.helper, reason=word.reason)]
        case messages.Ceiling():
            if word.worker not in run.workers:
                return []
            return [events.CeilingMeasured(at=now, worker=word.worker, family=word.family, batch_size=word.batch_size)]
        case messages.Prepared():
            trial = _current(run, word.trial, word.attempt)
            if trial is None or trial.is_prepared:
                return []
            return [_prepared(word, now)]
        case messages.CheckpointSaved():
            trial = _current(run, word.trial, word.attempt)
            if trial is None or not trial.saved_epoch < word.epoch <= trial.epoch:
                return []  # reported before, or of an epoch whose own message is lost
            return [events.CheckpointWritten(at=now, trial=word.trial, attempt=word.attempt, epoch=word.epoch)]
        case messages.CheckpointFailed():
            trial = _current(run, word.trial, word.attempt)
            if trial is None or not trial.unsaved_epoch < word.epoch <= trial.epoch:
                return []  # reported before, or of an epoch whose own message is lost
            return [
                events.CheckpointNotWritten(
                    at=now, trial=word.trial, attempt=word.attempt, epoch=word.epoch, reason=word.reason
                )
            ]
        case messages.Heartbeat():
            if _current(run, word.trial, word.attempt) is None:
                return []
            return [events.TrialHeartbeat(at=now, trial=word.trial, attempt=word.attempt, doing=word.doing)]
        case messages.CorruptImagesFound():
            return _skipped(run, word, now)
        case messages.OutOfMemory():
            trial = _current(run, word.trial, word.attempt)
            if trial is None or trial.batch_size <= word.to_batch_size:
                return []
            return [_reduced(word, word.from_batch_size, word.to_batch_size, now)]
        case messages.TrialDone():
            return _done(run, word, now)
        case messages.Crashed():
            if _current(run, word.trial, word.attempt) is None:
                return []
            if not word.retry:
                return [events.TrialFailed(at=now, trial=word.trial, reason=word.reason, cause=word.cause)]
            return [events.TrialLost(at=now, trial=word.trial, attempt=word.attempt, reason=word.reason)]
        case messages.CheckpointGone():
            return _checkpoint_gone(run, word, now)
        case _:
            assert_never(word)


def _joined(word: messages.WorkerUp, now: float) -> events.WorkerJoined:
    return events.WorkerJoined(
        at=now,
        worker=word.worker,
        host=word.host,
        ranks=word.ranks,
        device=word.device,
        device_memory_bytes=word.device_memory_bytes,
        collective=word.collective,
        machine=word.machine,
        hosts=word.hosts,
    )


def _prepared(word: messages.Prepared, now: float) -> events.TrialPrepared:
    return events.TrialPrepared(
        at=now,
        trial=word.trial,
        attempt=word.attempt,
        precision=word.precision,
        ranks=word.ranks,
        compiled=word.compiled,
        cuda_graphs=word.cuda_graphs,
        build_seconds=word.build_seconds,
        weights_seconds=word.weights_seconds,
        compile_seconds=word.compile_seconds,
    )


def _current(run: Run, trial: int, attempt: int) -> Trial | None:
    """Return the trial if this attempt is running."""
    found = run.trials.get(trial)
    if found is None or found.state is not TrialState.RUNNING or found.attempt != attempt:
        return None
    return found


def _advanced(trial: Trial, word: messages.Advanced, now: float) -> list[events.AnyEvent]:
    if word.epoch != trial.current_epoch or word.batch_size > trial.batch_size:
        return []  # arrived after the end of its epoch, or after the epoch was restarted with a smaller batch
    result = _begun_again(trial, word, now)
    interval = _interval(trial, word, now)
    if interval is not None:
        fields = msgspec.structs.asdict(interval)
        result.append(events.Progress(at=now, trial=word.trial, attempt=word.attempt, epoch=word.epoch, **fields))
    return result


def _begun_again(trial: Trial, word: messages.Advanced, now: float) -> list[events.AnyEvent]:
    """Return the batch reduction that this message is the first to report. The OutOfMemory message has not arrived."""
    if word.batch_size >= trial.batch_size:
        return []
    return [_reduced(word, trial.batch_size, word.batch_size, now)]


def _interval(trial: Trial, word: messages.Advanced, now: float) -> events.Interval | None:
    """Return the work of the current epoch since the last message. None if it was reported before."""
    images, validated = word.training_images, word.validation_images
    if word.batch_size >= trial.batch_size:  # otherwise the epoch was restarted
        images -= trial.training_images
        validated -= trial.validation_images
    if images < 0 or validated < 0:
        return None
    assert trial.worker is not None
    start, end = trial.interval_end, max(now, trial.interval_end)
    length = end - start
    before = trial.sums
    # Sums are compared with sums. An excess is left to the next interval: a message may arrive early after a late one, or
    # during a step. Exchange and validation are parts of the busy time. Input and checkpoint are not.
    busy = min(max(0.0, word.busy_seconds - before[0]), length)
    communication = min(max(0.0, word.communication_seconds - before[1]), busy)
    validation = min(max(0.0, word.validation_seconds - before[2]), busy - communication)
    input_ = min(max(0.0, word.input_seconds - before[3]), length - busy)
    checkpoint = min(max(0.0, word.checkpoint_seconds - before[4]), length - busy - input_)
    if not (images or validated or busy or communication or validation or input_ or checkpoint):
        return None
    return events.Interval(
        worker=trial.worker,
        start=start,
        end=end,
        training_images=images,
        validation_images=validated,
        busy_seconds=busy,
        communication_seconds=communication,
        validation_seconds=validation,
        input_seconds=input_,
        checkpoint_seconds=checkpoint,
    )


def _reduced(word: messages.Advanced | messages.OutOfMemory, before: int, to: int, now: float) -> events.BatchReduced:
    return events.BatchReduced(at=now, trial=word.trial, attempt=word.attempt, from_batch_size=before, to_batch_size=to)


def _epoch_done(run: Run, word: messages.EpochDone, now: float) -> list[events.AnyEvent]:
    sums = word.advanced
    trial = _current(run, sums.trial, sums.attempt)
    if trial is None or sums.epoch != trial.current_epoch:
        return []
    # A finished epoch was not restarted, however late its message is. It counts at any batch size.
    return [
        *_begun_again(trial, sums, now),
        events.EpochFinished(
            at=now,
            trial=sums.trial,
            attempt=sums.attempt,
            epoch=sums.epoch,
            accuracy=word.accuracy,
            validation_loss=word.validation_loss,
            training_loss=word.training_loss,
            learning_rate=word.learning_rate,
            checkpoint=word.checkpoint,
            interval=_interval(trial, sums, now),
        ),
    ]


def _skipped(run: Run, word: messages.CorruptImagesFound, now: float) -> list[events.AnyEvent]:
    """Report each file once: all ranks of all workers read the same files."""
    if word.worker not in run.workers and word.worker not in run.departed:
        return []
    fresh = [(name, why) for name, why in dict(word.files).items() if name not in run.corrupt]
    return [
        events.ImagesSkipped(
            at=now,
            worker=word.worker,
            images=len(run.corrupt) + min(start + FILES_OF_A_LINE, len(fresh)),
            files=dict(fresh[start : start + FILES_OF_A_LINE]),
        )
        for start in range(0, len(fresh), FILES_OF_A_LINE)
    ]


def _done(run: Run, word: messages.TrialDone, now: float) -> list[events.AnyEvent]:
    trial = _current(run, word.trial, word.attempt)
    if trial is None:
        return []
    reason = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
    if reason is None:
        # The message of an epoch was lost or is late, so the work log lacks its images. The epoch is repeated from the last
        # saved one.
        return [
            events.TrialLost(
                at=now,
                trial=word.trial,
                attempt=word.attempt,
                reason=f"it was called done ({word.reason}), but its end has not arrived: {trial.epoch} epochs have",
            )
        ]
    return end(run, trial, reason, now)


def end(run: Run, trial: Trial, reason: str, now: float) -> list[events.AnyEvent]:
    """Return the events that end a trial whose epochs were all reported. A trial that was never saved leaves no weights."""
    result: list[events.AnyEvent] = [finish(run, trial, reason, now)]
    if not trial.saved_epoch:
        result.append(
            events.CheckpointDropped(at=now, trial=trial.number, cause="not written", reason="none was ever written")
        )
    return result


def finish(run: Run, trial: Trial, reason: str, now: float) -> events.TrialFinished:
    """Return the result of a trial."""
    return events.TrialFinished(
        at=now,
        trial=trial.number,
        attempt=trial.attempt,
        reason=reason,
        accuracy=trial.best_accuracy,
        reported_accuracy=reported_accuracy(run.schedule, trial.accuracies),
    )


def _checkpoint_gone(run: Run, word: messages.CheckpointGone, now: float) -> list[events.AnyEvent]:
    if _current(run, word.trial, word.attempt) is None:
        return []
    dropped = events.CheckpointDropped(at=now, trial=word.missing, cause="gone", reason=word.reason)
    if word.missing == word.trial:
        # The trial starts again. The work of its earlier epochs counts as wasted when they are repeated.
        return [dropped, events.TrialLost(at=now, trial=word.trial, attempt=word.attempt, reason=word.reason)]
    reason = f"its parent's weights are gone: {word.reason}"
    return [dropped, events.TrialFailed(at=now, trial=word.trial, reason=reason, cause="machine")]
