"""Conversion of messages to journal events. An interval ends when its message arrives: the worker's clock is not used."""

from __future__ import annotations

import msgspec

from aiperf.journal import events, messages
from aiperf.journal.legality import IllegalLine, TrialState, check_state
from aiperf.rules.procedure import end_of_trial, reported_accuracy
from aiperf.rules.state import Run, Trial

FILES_OF_A_LINE = 100
"""Maximum number of corrupt images in one event."""


def interpret(run: Run, message: messages.Message, now: float) -> list[events.AnyEvent]:
    """Return the events of a message that arrives at `now`. Empty if it is late or repeated, or reports nothing new."""
    match message:
        case messages.CorruptImagesFound():
            return _skipped(run, message, now)
        case messages.ProposalReturned() | messages.ProposalFailed():
            raise AssertionError("the driver checks it")
        case (
            messages.EpochDone()
            | messages.Advanced()
            | messages.TrialDone()
            | messages.Crashed()
            | messages.CheckpointGone()
        ):
            trial = _current(run, message.trial, message.attempt)
        case _:
            return [msgspec.structs.replace(message, at=now)] if _is_news(run, message) else []
    if trial is None:
        return []
    match message:
        case messages.EpochDone():
            return _epoch_done(trial, message, now)
        case messages.Advanced():
            return _advanced(trial, message, now)
        case messages.TrialDone():
            return _done(run, trial, message, now)
        case messages.Crashed():
            if message.retry:
                return [messages.recorded(events.TrialLost, message, now)]
            return [messages.recorded(events.TrialFailed, message, now)]
        case messages.CheckpointGone():
            return _checkpoint_gone(message, now)


def _is_news(run: Run, message: events.AnyEvent) -> bool:
    try:
        check_state(message, run)
    except IllegalLine:
        return False
    match message:
        case events.TrialPrepared():
            return not run.trials[message.trial].is_prepared
        case events.CheckpointWritten():
            # Otherwise it was reported before, or the message of its epoch is lost.
            trial = run.trials[message.trial]
            return trial.saved_epoch < message.epoch <= trial.epoch
        case events.CheckpointNotWritten():
            trial = run.trials[message.trial]
            return trial.unsaved_epoch < message.epoch <= trial.epoch
        case events.BatchReduced():
            return message.to_batch_size < run.trials[message.trial].batch_size
        case _:
            return True


def _current(run: Run, trial: int, attempt: int) -> Trial | None:
    known = run.trials.get(trial)
    if known is None or known.state is not TrialState.RUNNING or known.attempt != attempt:
        return None
    return known


def _advanced(trial: Trial, message: messages.Advanced, now: float) -> list[events.AnyEvent]:
    if message.epoch != trial.current_epoch or message.batch_size > trial.batch_size:
        return []  # arrived after the end of its epoch, or after the epoch was restarted with a smaller batch
    result = _unreported_reduction(trial, message, now)
    interval = _interval(trial, message, now)
    if interval is not None:
        result.append(messages.recorded(events.Progress, message, now, **msgspec.structs.asdict(interval)))
    return result


def _unreported_reduction(trial: Trial, message: messages.Advanced, now: float) -> list[events.AnyEvent]:
    """Return the batch reduction that this message is the first to report: BatchReduced has not arrived."""
    if message.batch_size >= trial.batch_size:
        return []
    before, after = trial.batch_size, message.batch_size
    return [messages.recorded(events.BatchReduced, message, now, from_batch_size=before, to_batch_size=after)]


def _interval(trial: Trial, message: messages.Advanced, now: float, regions: int = 0) -> events.Interval | None:
    images, validated = message.training_images, message.validation_images
    if message.batch_size >= trial.batch_size:  # otherwise the epoch was restarted
        images -= trial.training_images
        validated -= trial.validation_images
    if images < 0 or validated < 0:
        return None
    assert trial.worker is not None
    start, end = trial.interval_end, max(now, trial.interval_end)
    length = end - start
    # Sums are compared with sums. An excess is left to the next interval: a message may arrive early after a late one, or
    # during a step.
    rest, parts = {"": length}, {}
    for (name, whole), total, before in zip(events.CLOCKS.items(), events.clocks(message), trial.sums, strict=True):
        part, most = total - before, rest[whole]
        part = min(part, most) if part > 0.0 else 0.0
        parts[name] = rest[name] = part
        rest[whole] = most - part
    if not (images or validated or regions or any(parts.values())):
        return None
    return events.Interval(
        worker=trial.worker,
        start=start,
        end=end,
        training_images=images,
        validation_images=validated,
        **parts,
    )


def _epoch_done(trial: Trial, message: messages.EpochDone, now: float) -> list[events.AnyEvent]:
    sums = message.advanced
    if sums.epoch != trial.current_epoch:
        return []
    # A finished epoch was not restarted, however late its message is. It counts at any batch size.
    return [
        *_unreported_reduction(trial, sums, now),
        messages.recorded(events.EpochFinished, message, now, interval=_interval(trial, sums, now, message.regions)),
    ]


def _skipped(run: Run, message: messages.CorruptImagesFound, now: float) -> list[events.AnyEvent]:
    """Report each file once: all ranks of all workers read the same files."""
    if message.worker not in run.workers and message.worker not in run.departed:
        return []
    fresh = [(name, why) for name, why in dict(message.files).items() if name not in run.corrupt]
    return [
        events.ImagesSkipped(
            at=now,
            worker=message.worker,
            images=len(run.corrupt) + min(start + FILES_OF_A_LINE, len(fresh)),
            files=dict(fresh[start : start + FILES_OF_A_LINE]),
        )
        for start in range(0, len(fresh), FILES_OF_A_LINE)
    ]


def _done(run: Run, trial: Trial, message: messages.TrialDone, now: float) -> list[events.AnyEvent]:
    reason = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
    if reason is None:
        # The message of an epoch was lost or is late, so the work log lacks its images. The epoch is repeated from the last
        # saved one.
        text = f"it was called done ({message.reason}), but its end has not arrived: {trial.epoch} epochs have"
        return [messages.recorded(events.TrialLost, message, now, reason=text)]
    return end(run, trial, reason, now)


def end(run: Run, trial: Trial, reason: str, now: float) -> list[events.AnyEvent]:
    """Return TrialFinished, and CheckpointDropped if the trial was never saved."""
    result: list[events.AnyEvent] = [finish(run, trial, reason, now)]
    if not trial.saved_epoch:
        result.append(
            events.CheckpointDropped(at=now, trial=trial.number, cause="not written", reason="none was ever written")
        )
    return result


def finish(run: Run, trial: Trial, reason: str, now: float) -> events.TrialFinished:
    return events.TrialFinished(
        at=now,
        trial=trial.number,
        attempt=trial.attempt,
        reason=reason,
        accuracy=trial.best_accuracy,
        reported_accuracy=reported_accuracy(run.schedule, trial.accuracies),
    )


def _checkpoint_gone(message: messages.CheckpointGone, now: float) -> list[events.AnyEvent]:
    dropped = events.CheckpointDropped(at=now, trial=message.missing, cause="gone", reason=message.reason)
    if message.missing == message.trial:
        # The trial starts again. The work of its earlier epochs counts as wasted when they are repeated.
        return [dropped, messages.recorded(events.TrialLost, message, now)]
    reason = f"its parent's weights are gone: {message.reason}"
    return [dropped, events.TrialFailed(at=now, trial=message.trial, reason=reason, cause="machine")]
