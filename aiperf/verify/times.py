"""Checks of epochs (images, results, rates, parents' checkpoints) and of times (intervals, edges, clock, silences)."""

from __future__ import annotations

import json
import math
from operator import attrgetter
from typing import Any

import msgspec

from aiperf.accounting.work_log import WorkLog
from aiperf.errors import AiperfError
from aiperf.journal import events
from aiperf.journal.events import (
    CheckpointWritten,
    EpochFinished,
    Progress,
    RunResumed,
    RunStarted,
    TrialProposed,
    Work,
)
from aiperf.rules.limits import limits_of
from aiperf.train.trainer_config import TrainerConf, learning_rate
from aiperf.units import noun
from aiperf.verify.check import Attempts, Check, CheckResult, OpenAttempt, whole_epoch
from morphism import DamagedGraphFile, Detector, decode_architecture

LAW = "a worker is declared lost, and a proposal rejected, after limits.silence_seconds without a message"
DUE = "a worker or a proposal without a message for limits.silence_seconds is given up"
LATE_DECISION_SECONDS = 120.0
"""Longest delay of a decision in seconds. A turn with messages of 4096 workers takes a few seconds."""
PAUSE_SECONDS = 60.0
"""Time without a line after which the driver may have been stopped."""
GENERATOR = "a proposal is lost with its generator, whose loss has a line of its own"
SAMPLES = "an epoch has all training samples that fill whole steps, and all validation samples"
ACCURACY = "an accuracy is a whole number of correct samples (or tokens), divided by all validation samples (or tokens)"
SMALLEST_LOSS = (
    "cross-entropy is at least (1 - accuracy) · ln 2: a wrong answer gives the right class a probability of at most 1/2"
)
LARGEST_LOSS = "at accuracy 1, cross-entropy is at most ln(classes): the right class has the largest probability"
LOSSES = "a network that classifies has a validation loss and no regions, and a detector has no validation loss"
REGIONS = "a detector evaluates at most so many regions of a sample, and lacks at most its regions of training"
HALVES = "the correct samples of both halves are the accuracy, none exceeds its half, and both halves are the evaluated samples"
ACCURACY_ROUNDING = 1e-9
"""Images. An accuracy is one division of two whole numbers, and exact to the last bit."""
LOSS_ROUNDING = 1e-3
"""Relative. A loss is summed in single precision over up to 50,000 images."""
RATES = "the learning rate of an epoch's last step is that of the schedule in the first line"
RATE_ROUNDING = 1e-9
"""Relative. A learning rate is a product of few numbers on every processor."""
WEIGHTS = "a parent's weights were saved before its child was proposed"

_Message = (
    Progress
    | EpochFinished
    | events.TrialPrepared
    | events.BatchReduced
    | events.TrialHeartbeat
    | CheckpointWritten
    | events.TrialLost
)


class Silences(Check):
    """Check that workers were declared lost, and proposals rejected, only after the configured time without a message."""

    def __init__(self, attempts: Attempts, work_log: WorkLog) -> None:
        self._attempts = attempts.running
        self._work_log, self._present = work_log, work_log.present
        self._notes = CheckResult("silences", LAW, "decisions")
        self._seconds: float | None = None
        """limits.silence_seconds. None if this release cannot read the limits."""
        self._requests: dict[int, events.ProposalRequested] = {}
        """Open requests by number, oldest first."""
        self._generator_lost = -1.0
        self._awake_since = 0.0
        """Time from which on the driver wrote lines without a long pause, as if it had been stopped."""

    def on_line(self, line: int, event: events.AnyEvent) -> None:
        if event.at > self._work_log.at + PAUSE_SECONDS:
            self._awake_since = event.at

    def on_started(self, line: int, event: RunStarted) -> None:
        try:
            self._seconds = limits_of(event).silence_seconds
        except (AiperfError, LookupError, ValueError) as error:
            self._notes.not_checked = f"this release cannot read the limits of the configuration ({error})"

    def on_resumed(self, line: int, event: RunResumed) -> None:
        self._requests.clear()

    def on_requested(self, line: int, event: events.ProposalRequested) -> None:
        self._requests[event.number] = event

    def on_proposed(self, line: int, event: events.TrialProposed) -> None:
        self._due(line, f"proposal {event.number}", self._requests.pop(event.number).at)

    def on_message(self, line: int, event: _Message) -> None:
        self._due(line, f"trial {event.trial}", self._attempts[event.trial].received)

    def _due(self, line: int, what: str, since: float) -> None:
        """Add a finding if the driver wrote lines long after a silence was due, but did not end it."""
        if self._seconds is None:
            return
        last = self._work_log.at
        if last > max(since + self._seconds, self._awake_since) + LATE_DECISION_SECONDS:
            found = f"{what} was silent for {last - since:.0f} s and not given up"
            self._notes.add(line, f"{found}, but limits.silence_seconds is {self._seconds:g}", law=DUE)

    def on_helper_lost(self, line: int, event: events.HelperLost) -> None:
        if event.helper == "generator":
            self._generator_lost = event.at

    def on_rejected(self, line: int, event: events.TrialRejected) -> None:
        request = self._requests.pop(event.number)
        if event.by == "silence" and self._seconds is not None:
            self._check(line, f"proposal {event.number} was rejected", event.at - request.at)
            if self._present[request.worker].trial is None:
                found = f"proposal {event.number} was rejected for silence, but its worker trained nothing"
                self._notes.add(line, found)
        elif event.by == "generator":
            self._notes.examined += 1
            if self._generator_lost < request.at:
                found = f"proposal {event.number} was lost with a generator, but no line since its request records that loss"
                self._notes.add(line, found, "cannot be determined", law=GENERATOR)

    def on_worker_lost(self, line: int, event: events.WorkerLost) -> None:
        requests = [request for request in self._requests.values() if request.worker == event.worker]
        for request in requests:
            del self._requests[request.number]
        if event.cause != "silence" or self._seconds is None:
            return
        trial = self._present[event.worker].trial
        if trial is not None:
            self._check(line, f"worker {event.worker} was declared lost", event.at - self._attempts[trial].received)
        elif requests:
            self._check(line, f"worker {event.worker} was declared lost", event.at - requests[0].at)
        else:
            found = f"worker {event.worker} was declared lost for silence, but no message from it was due"
            self._notes.add(line, found)

    def _check(self, line: int, decision: str, silent: float) -> None:
        assert self._seconds is not None, "checked by the caller"
        self._notes.examined += 1
        if silent < self._seconds:
            self._notes.add(line, f"{decision} after {silent:.3f} s, but limits.silence_seconds is {self._seconds:g}")


INTERVALS = "an attempt's intervals follow one another without a gap, each to the time of its line"
INTERVAL_PARTS = (
    "exchange and validation are parts of the busy time; busy time, input and checkpoint are parts of the interval"
)
_of_length, _of_busy = (attrgetter(*clocks) for clocks in (events.CLOCKS_OF_LENGTH, events.CLOCKS_OF_BUSY))
INTERVAL_ROUNDING = 1e-9
"""Rounding error of sums of a few numbers: seconds per second of the interval, and seconds in addition."""
EDGES = "a worker that trains across an edge of the window reports at its first step after the edge"
LATE_SECONDS = 2.0
"""Maximum delivery delay of a message in seconds, in addition to LATE_STEPS. The driver polls every 0.5 s."""
LATE_STEPS = 3.0
"""Maximum delay in training steps."""
SEVERAL_LATE = 3
"""Number of late workers that is no coincidence, if they are most of those that trained."""
STALL_SECONDS = 10.0
"""Longest pause of a driver on a loaded machine, in seconds."""
CLOCKS = "on one boot, a run's time advances with the host's boot clock"
CLOCK_ROUNDING = 1e-6
"""Seconds. The compared time is a sum of three doubles."""


class Intervals(Check):
    """Check that the intervals of work of an attempt follow one another without a gap."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = CheckResult("intervals", INTERVALS, "intervals")

    def on_interval(self, line: int, event: Progress | EpochFinished) -> None:
        work: Work | None = event if type(event) is Progress else event.interval
        if work is None:
            return
        notes, start, end, worked = self._notes, work.start, work.end, self._running[event.trial].worked
        notes.examined += 1
        if start != worked:
            notes.add(line, f"trial {event.trial}: it starts at {start!r} s, the previous one ended at {worked!r} s")
        if end != event.at and end != max(event.at, start):
            notes.add(line, f"trial {event.trial}: it ends at {end!r} s, in a line of {event.at!r} s")
        length, busy = end - start, work.busy_seconds
        slack = INTERVAL_ROUNDING * (1.0 + length)
        if sum(_of_busy(work)) > busy + slack or sum(_of_length(work)) > length + slack:
            parts = " and ".join(f"{name} {getattr(work, name)!r} s" for name in events.CLOCKS)
            notes.add(line, f"trial {event.trial}: {parts}, of {length!r} s in all", law=INTERVAL_PARTS)


class Edges(Check):
    """Late ends are contradictions if they are most, and at least 3 are late or one by more than 10 s."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = CheckResult("window edges", EDGES, "intervals over an edge")
        self._edge = math.inf
        """Start of the valid window in seconds. inf without a warm-up."""
        self._late: list[tuple[int, float, str]] = []
        """Late intervals: line, seconds and description."""

    def checked(self) -> CheckResult:
        notes, late = self._notes, self._late
        is_most = 2 * len(late) > notes.examined
        is_moved = is_most and (len(late) >= SEVERAL_LATE or max(seconds for _, seconds, _ in late) > STALL_SECONDS)
        for line, _, found in late:
            notes.add(line, found, "contradiction" if is_moved else "cannot be determined")
        return notes.close()

    def on_started(self, line: int, event: RunStarted) -> None:
        if event.warmup_seconds > 0:
            self._edge = event.warmup_seconds

    def on_interval(self, line: int, event: Progress | EpochFinished) -> None:
        work: Work | None = event if type(event) is Progress else event.interval
        if work is None or not work.start < self._edge < work.end:
            return
        self._notes.examined += 1
        attempt = self._running[event.trial]
        images = work.training_images + work.validation_images
        step = (work.end - work.start) * min(1.0, attempt.batch_size * attempt.ranks / max(1, images))
        late = work.end - self._edge
        if late > LATE_SECONDS + LATE_STEPS * step:
            description = (
                f"trial {event.trial}: its interval ends {late:.3f} s after the edge at {self._edge:g} s; "
                f"a step is {step:.3f} s"
            )
            self._late.append((line, late, description))


class Clocks(Check):
    """Check the run's clock at each resume against the boot clock of the driver's host."""

    def __init__(self) -> None:
        self._notes = CheckResult("clocks", CLOCKS, "resumes")
        self._boot_id: str | None = None
        self._boot_seconds: float | None = None
        self._began = 0.0
        self._last = 0.0
        self._other_boots = 0

    def checked(self) -> CheckResult:
        if self._other_boots:
            self._notes.not_checked = (
                f"{self._other_boots} resumes on another boot: only the wall clock measured the time between"
            )
        return self._notes.close()

    def on_started(self, line: int, event: RunStarted) -> None:
        self._boot_id, self._boot_seconds = event.boot_id, event.boot_seconds

    def on_resumed(self, line: int, event: RunResumed) -> None:
        if event.boot_id is None or event.boot_id != self._boot_id or self._boot_seconds is None:
            self._other_boots += 1
        elif event.boot_seconds is not None:
            self._notes.examined += 1
            by_boot = self._began + event.boot_seconds - self._boot_seconds
            before = event.at - event.down_seconds
            if abs(event.at - max(by_boot, before)) > CLOCK_ROUNDING:
                self._notes.add(line, f"resumed at {event.at!r} s, but at {by_boot!r} s by the host's boot clock")
        self._boot_id, self._boot_seconds, self._began = event.boot_id, event.boot_seconds, event.at


class Images(Check):
    """Check images, accuracy and loss of each epoch. Of simulated workers only the images: curves generate their results."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._notes = CheckResult("images", SAMPLES, "epochs")
        self._training = self._validation = self._classes = 0
        self._simulated = False
        self._detector: Detector | None = None
        self._answers = 1

    def checked(self) -> CheckResult:
        if self._simulated:
            self._notes.not_checked = "accuracies and losses: they come from simulated curves"
        return self._notes.close()

    def on_started(self, line: int, event: RunStarted) -> None:
        data = event.dataset
        self._training, self._validation = data["training_images"], data["validation_images"]
        self._notes.name = noun(data).many
        # of a language model each token of a sequence is an answer
        self._answers = int(data["image"]) if event.metric == "next_token" else 1
        classes = data.get("classes")
        self._classes = classes if isinstance(classes, int) else 0
        self._simulated = event.simulated
        try:
            network = decode_architecture(json.dumps(event.start_graph))
        except DamagedGraphFile:  # reported by another check
            return
        self._detector = network if isinstance(network, Detector) else None

    def on_epoch(self, line: int, event: EpochFinished) -> None:
        attempt, work = self._attempts.running[event.trial], event.interval
        self._notes.examined += 1
        training, validation = attempt.training_images, attempt.validation_images
        if work is not None:
            training, validation = training + work.training_images, validation + work.validation_images
        if not (self._simulated and training == self._training and validation == self._validation):
            self._check_images(line, event, attempt, (training, validation))
        if event.halves is not None:
            self._check_halves(line, event, event.halves, validation)
        if self._detector is not None:
            self._check_regions(line, event, training, self._detector)
        elif not self._simulated:
            self._check_results(line, event)

    def _check_images(self, line: int, event: EpochFinished, attempt: OpenAttempt, done: tuple[int, int]) -> None:
        skipped = self._attempts.skipped
        wholes = {whole_epoch(self._training, batch, attempt.ranks) for batch in attempt.batches}
        training = any(whole - skipped <= done[0] <= whole for whole in wholes)
        if not training or not self._validation - skipped <= done[1] <= self._validation:
            self._notes.add(
                line,
                f"epoch {event.epoch} of trial {event.trial}, batch {attempt.batch_size} on {attempt.ranks} ranks: {done[0]} "
                f"training and {done[1]} validation {self._notes.name}, expected {' or '.join(map(str, sorted(wholes)))} and "
                f"{self._validation}" + (f", less at most {skipped} corrupt ones" if skipped else ""),
            )

    def _check_halves(self, line: int, event: EpochFinished, told: events.Halves, validated: int) -> None:
        correct, samples = told.even_correct + told.odd_correct, told.even_samples + told.odd_samples
        most = self._validation - self._validation // 2, self._validation // 2
        if not (
            correct == round(event.accuracy * samples)
            and told.even_correct <= told.even_samples <= most[0]
            and told.odd_correct <= told.odd_samples <= most[1]
            and samples == validated
        ):
            found = f"{msgspec.structs.asdict(told)} at accuracy {event.accuracy!r} of {validated} {self._notes.name}"
            self._notes.add(line, f"epoch {event.epoch} of trial {event.trial}: {found}", law=HALVES)

    def _check_regions(self, line: int, event: EpochFinished, trained: int, detector: Detector) -> None:
        where = f"epoch {event.epoch} of trial {event.trial}"
        if event.validation_loss is not None:
            self._notes.add(line, f"{where}: validation loss {event.validation_loss!r} of a detector", law=LOSSES)
        for name, found, most in (
            ("regions", event.regions, self._validation * detector.sizes.most_regions),
            ("missing_regions", event.missing_regions, trained * detector.sizes.regions),
        ):
            if found > most:
                self._notes.add(line, f"{where}: {name} {found}, at most {most}", law=REGIONS)

    def _check_results(self, line: int, event: EpochFinished) -> None:
        accuracy, loss, least = event.accuracy, event.validation_loss, self._validation - self._attempts.skipped
        where = f"epoch {event.epoch} of trial {event.trial}"
        if loss is None or event.regions or event.missing_regions:
            regions = event.regions, event.missing_regions
            self._notes.add(line, f"{where}: validation loss {loss!r}, regions {regions}", law=LOSSES)
            return
        if all(
            abs(accuracy * images * self._answers - round(accuracy * images * self._answers)) > ACCURACY_ROUNDING
            for images in range(max(1, least), self._validation + 1)
        ):
            found = f"accuracy {accuracy!r} of {self._validation} {self._notes.name} is {accuracy * self._validation!r}"
            self._notes.add(line, f"{where}: {found} {self._notes.name}", law=ACCURACY)
        if loss < (1.0 - accuracy) * math.log(2.0) * (1.0 - LOSS_ROUNDING):
            self._notes.add(line, f"{where}: loss {loss!r} at accuracy {accuracy!r}", law=SMALLEST_LOSS)
        if accuracy == 1.0 and self._classes and loss > math.log(self._classes) * (1.0 + LOSS_ROUNDING):
            self._notes.add(line, f"{where}: loss {loss!r} at accuracy 1", law=LARGEST_LOSS)


class LearningRates(Check):
    """Check the learning rate of each epoch's last step against the schedule in the first line."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = CheckResult("learning rates", RATES, "epochs")
        self._conf: TrainerConf | None = None
        self._images = 0
        self._known: dict[tuple[int, int], float] = {}

    def on_started(self, line: int, event: RunStarted) -> None:
        self._images = event.dataset["training_images"]
        if event.simulated:
            self._notes.not_checked = "simulated workers do not train"
            return
        trainer: Any = event.config.get("trainer")
        try:
            conf = msgspec.convert(trainer, TrainerConf)
        except (msgspec.ValidationError, AiperfError) as error:
            self._notes.not_checked = f"this release cannot read the trainer's configuration ({error})"
            return
        if conf.decay_epochs is None:
            self._notes.not_checked = "the configuration has no trainer.decay_epochs"
            return
        self._conf = conf

    def on_epoch(self, line: int, event: EpochFinished) -> None:
        if self._conf is None:
            return
        attempt = self._running[event.trial]
        self._notes.examined += 1
        rates = [self._rate(self._conf, event.epoch, batch * attempt.ranks) for batch in attempt.batches]
        if not any(math.isclose(event.learning_rate, rate, rel_tol=RATE_ROUNDING) for rate in rates):
            self._notes.add(
                line,
                f"epoch {event.epoch} of trial {event.trial}: {event.learning_rate!r}, but by the schedule "
                f"{' or '.join(map(repr, rates))}",
            )

    def _rate(self, conf: TrainerConf, epoch: int, step: int) -> float:
        rate = self._known.get((epoch, step))
        if rate is None:
            steps = max(1, self._images // step)
            rate = self._known[epoch, step] = learning_rate(conf, epoch, step, (steps - 1) / steps)
        return rate


class Weights(Check):
    """Check that a checkpoint of the parent was written before each child was proposed."""

    def __init__(self) -> None:
        self._notes = CheckResult("weights", WEIGHTS, "child trials")
        self._saved: set[int] = set()

    def on_epoch(self, line: int, event: EpochFinished) -> None:
        if event.checkpoint:
            self._saved.add(event.trial)

    def on_written(self, line: int, event: CheckpointWritten) -> None:
        self._saved.add(event.trial)

    def on_proposed(self, line: int, event: TrialProposed) -> None:
        if event.parent is None:
            return
        self._notes.examined += 1
        if event.parent not in self._saved:
            self._notes.add(line, f"trial {event.number}: its parent, trial {event.parent}, has no checkpoint")
