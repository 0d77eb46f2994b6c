"""Checks of the epochs in a journal: images and results, learning rates, and checkpoints of parents."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from aiperf.errors import AiperfError
from aiperf.journal.events import CheckpointWritten, EpochFinished, RunStarted, TrialProposed
from aiperf.train.trainer_config import TrainerConf, learning_rate
from aiperf.units import noun
from aiperf.verify.check import Attempts, Check, CheckResult, OpenAttempt, handles, whole_epoch
from morphism import DamagedGraphFile, Detector, decode_architecture

IMAGES = "an epoch has all training images that fill whole steps, and all validation images"
ACCURACY = "an accuracy is a whole number of correct images, divided by all validation images"
SMALLEST_LOSS = (
    "cross-entropy is at least (1 - accuracy) · ln 2: a wrong answer gives the right class a probability of at most 1/2"
)
LARGEST_LOSS = "at accuracy 1, cross-entropy is at most ln(classes): the right class has the largest probability"
LOSSES = "a network that classifies has a validation loss and no regions, and a detector has no validation loss"
REGIONS = "a detector evaluates at most so many regions of an image, and lacks at most its regions of training"
ACCURACY_ROUNDING = 1e-9
"""Images. An accuracy is one division of two whole numbers, and exact to the last bit."""
LOSS_ROUNDING = 1e-3
"""Relative. A loss is summed in single precision over up to 50,000 images."""
RATES = "the learning rate of an epoch's last step is that of the schedule in the first line"
RATE_ROUNDING = 1e-9
"""Relative. A learning rate is a product of few numbers on every processor."""
WEIGHTS = "a parent's weights were saved before its child was proposed"


class Images(Check):
    """Check images, accuracy and loss of each epoch. Of simulated workers only the images: curves generate their results."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._notes = CheckResult("images", IMAGES, "epochs")
        self._training = self._validation = self._classes = 0
        self._simulated = False
        self._samples = ""
        self._detector: Detector | None = None

    def checked(self) -> CheckResult:
        if self._simulated:
            self._notes.not_checked = "accuracies and losses: they come from simulated curves"
        return self._notes.close()

    @handles(RunStarted)
    def _started(self, line: int, event: RunStarted) -> None:
        data = event.dataset
        self._training, self._validation = data["training_images"], data["validation_images"]
        self._samples = noun(data).many
        classes = data.get("classes")
        self._classes = classes if isinstance(classes, int) else 0
        self._simulated = event.simulated
        try:
            network = decode_architecture(json.dumps(event.start_graph))
        except DamagedGraphFile:  # reported by another check
            return
        self._detector = network if isinstance(network, Detector) else None

    @handles(EpochFinished)
    def _epoch(self, line: int, event: EpochFinished) -> None:
        attempt, work = self._attempts.running[event.trial], event.interval
        self._notes.examined += 1
        training, validation = attempt.training_images, attempt.validation_images
        if work is not None:
            training, validation = training + work.training_images, validation + work.validation_images
        if not (self._simulated and training == self._training and validation == self._validation):
            self._check_images(line, event, attempt, (training, validation))
        if self._detector is not None:
            self._check_regions(line, event, training, self._detector)
        elif not self._simulated:
            self._check_results(line, event)

    def _check_images(self, line: int, event: EpochFinished, attempt: OpenAttempt, done: tuple[int, int]) -> None:
        skipped = self._attempts.skipped
        wholes = (
            {self._training}
            if self._simulated
            else {whole_epoch(self._training, batch, attempt.ranks) for batch in attempt.batches}
        )
        training = any(whole - skipped <= done[0] <= whole for whole in wholes)
        if not training or not self._validation - skipped <= done[1] <= self._validation:
            self._notes.add(
                line,
                f"epoch {event.epoch} of trial {event.trial}, batch {attempt.batch_size} on {attempt.ranks} ranks: {done[0]} "
                f"training and {done[1]} validation {self._samples}, expected {' or '.join(map(str, sorted(wholes)))} and "
                f"{self._validation}" + (f", less at most {skipped} corrupt ones" if skipped else ""),
            )

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
            abs(accuracy * images - round(accuracy * images)) > ACCURACY_ROUNDING
            for images in range(max(1, least), self._validation + 1)
        ):
            found = f"accuracy {accuracy!r} of {self._validation} {self._samples} is {accuracy * self._validation!r}"
            self._notes.add(line, f"{where}: {found} {self._samples}", law=ACCURACY)
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

    @handles(RunStarted)
    def _started(self, line: int, event: RunStarted) -> None:
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

    @handles(EpochFinished)
    def _epoch(self, line: int, event: EpochFinished) -> None:
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
        self._notes = CheckResult("weights", WEIGHTS, "children")
        self._saved: set[int] = set()

    @handles(EpochFinished)
    def _epoch(self, line: int, event: EpochFinished) -> None:
        if event.checkpoint:
            self._saved.add(event.trial)

    @handles(CheckpointWritten)
    def _written(self, line: int, event: CheckpointWritten) -> None:
        self._saved.add(event.trial)

    @handles(TrialProposed)
    def _proposed(self, line: int, event: TrialProposed) -> None:
        if event.parent is None:
            return
        self._notes.examined += 1
        if event.parent not in self._saved:
            self._notes.add(line, f"trial {event.number}: its parent, trial {event.parent}, has no checkpoint")
