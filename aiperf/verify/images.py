"""Images of an epoch: as many as the data set has in whole steps, and every one of validation; and what their results can be.

Simulated workers train on every image and draw their results from curves: of them the number of images alone is checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from aiperf.journal.events import EpochFinished, RunStarted
from aiperf.verify.attempts import Attempt, Attempts, whole_epoch
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

IMAGES = "an epoch is all training images that make whole steps, and all validation images"
GRID = "an accuracy is a whole number of right images, divided by all validation images"
LOSS = "cross-entropy is at least (1 - accuracy) · ln 2: whoever is wrong has given the right class at most a half"
CERTAIN = "cross-entropy is at most ln(classes) where all images are right: each has given the right class the most"
GRID_ROUNDING = 1e-9
"""Of one image: an accuracy is one division of two whole numbers, and right to the last bit."""
LOSS_ROUNDING = 1e-3
"""Of a loss, which is summed in single precision over up to 50,000 images."""


class Images:
    """A check."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._notes = Notes("images", IMAGES, "epochs")
        self._training = self._validation = self._classes = 0
        self._simulated = False

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started, EpochFinished: self._epoch}

    def checked(self) -> Checked:
        """See `Check`."""
        if self._simulated:
            self._notes.not_checked = "accuracies and losses: simulated curves draw them"
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        data = event.dataset
        self._training, self._validation = data["training_images"], data["validation_images"]
        classes = data.get("classes")
        self._classes = classes if isinstance(classes, int) else 0
        self._simulated = event.simulated

    def _epoch(self, line: int, event: EpochFinished) -> None:
        attempt, work = self._attempts.running[event.trial], event.interval
        self._notes.examined += 1
        training, validation = attempt.training_images, attempt.validation_images
        if work is not None:
            training, validation = training + work.training_images, validation + work.validation_images
        if not (self._simulated and training == self._training and validation == self._validation):
            self._look_at_images(line, event, attempt, (training, validation))
        if not self._simulated:
            self._look_at_results(line, event)

    def _look_at_images(self, line: int, event: EpochFinished, attempt: Attempt, done: tuple[int, int]) -> None:
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
                IMAGES,
                f"epoch {event.epoch} of trial {event.trial}, batch {attempt.batch_size} on {attempt.ranks} ranks: {done[0]} "
                f"training and {done[1]} validation images, of {' or '.join(map(str, sorted(wholes)))} and {self._validation}"
                + (f", {skipped} of them corrupt at most" if skipped else ""),
            )

    def _look_at_results(self, line: int, event: EpochFinished) -> None:
        accuracy, loss, least = event.accuracy, event.validation_loss, self._validation - self._attempts.skipped
        if all(
            abs(accuracy * images - round(accuracy * images)) > GRID_ROUNDING
            for images in range(max(1, least), self._validation + 1)
        ):
            self._notes.add(
                line,
                GRID,
                f"epoch {event.epoch} of trial {event.trial}: {accuracy!r} of {self._validation} images are "
                f"{accuracy * self._validation!r}",
            )
        if loss < (1.0 - accuracy) * math.log(2.0) * (1.0 - LOSS_ROUNDING):
            self._notes.add(
                line, LOSS, f"epoch {event.epoch} of trial {event.trial}: loss {loss!r} at accuracy {accuracy!r}"
            )
        if accuracy == 1.0 and self._classes and loss > math.log(self._classes) * (1.0 + LOSS_ROUNDING):
            self._notes.add(
                line, CERTAIN, f"epoch {event.epoch} of trial {event.trial}: loss {loss!r}, all images right"
            )
