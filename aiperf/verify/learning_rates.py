"""The learning rate of each epoch's last step, as the configuration in the first line prescribes it for that epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from aiperf.errors import AiperfError
from aiperf.journal.events import EpochFinished, RunStarted
from aiperf.train.learning_rate import learning_rate
from aiperf.train.trainer_config import TrainerConf
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "the learning rate of an epoch's last step is that of the schedule in the first line"
ROUNDING = 1e-9
"""Relative: the same few products, on whatever processor."""


class LearningRates:
    """A check."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = Notes("learning rates", LAW, "epochs")
        self._conf: TrainerConf | None = None
        self._images = 0
        self._known: dict[tuple[int, int], float] = {}

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started, EpochFinished: self._epoch}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._images = event.dataset["training_images"]
        if event.simulated:
            self._notes.not_checked = "simulated workers train nothing"
            return
        trainer: Any = event.config.get("trainer")
        try:
            conf = msgspec.convert(trainer, TrainerConf)
        except (msgspec.ValidationError, AiperfError) as error:
            self._notes.not_checked = f"the trainer's configuration is none of this release ({error})"
            return
        if conf.decay_epochs is None:
            self._notes.not_checked = "the configuration does not say over how many epochs it falls"
            return
        self._conf = conf

    def _epoch(self, line: int, event: EpochFinished) -> None:
        if self._conf is None:
            return
        attempt = self._running[event.trial]
        self._notes.examined += 1
        rates = [self._rate(self._conf, event.epoch, batch * attempt.ranks) for batch in attempt.batches]
        if not any(math.isclose(event.learning_rate, rate, rel_tol=ROUNDING) for rate in rates):
            self._notes.add(
                line,
                LAW,
                f"epoch {event.epoch} of trial {event.trial}: {event.learning_rate!r}, by the schedule "
                f"{' or '.join(map(repr, rates))}",
            )

    def _rate(self, conf: TrainerConf, epoch: int, step: int) -> float:
        rate = self._known.get((epoch, step))
        if rate is None:
            steps = max(1, self._images // step)
            rate = self._known[epoch, step] = learning_rate(conf, epoch, step, (steps - 1) / steps)
        return rate
