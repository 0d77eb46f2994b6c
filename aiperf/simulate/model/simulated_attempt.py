"""One simulated training of a network by a worker (attempt). It sends the messages of a real trainer at their times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiperf.data.description import DataSet
from aiperf.journal import events, messages
from aiperf.rules.procedure import ends_interval, has_stopped_improving
from aiperf.rules.state import NO_SUMS
from aiperf.simulate.model.learning_curves import Curve
from aiperf.simulate.model.machine_state import Checkpoints
from aiperf.simulate.model.profile import TrialTiming
from searchers.batch_sizes import smaller

_ROUNDING = 1e-6
"""Steps by which a report at the end of a step is late, so that rounding does not leave the step out."""
_ACCIDENT_SHARE = 0.4
"""Share of an epoch's training time after which an accident happens, if a fault has drawn one for that epoch."""


@dataclass(slots=True)
class AttemptFaults:
    """Accidents of one attempt (training of a network by a worker) that a simulated fault has set."""

    is_lost: str | None = None
    """'before': the worker ends before the network is built. 'after': it ends after the last epoch. None: it does not end."""
    out_of_memory_in: int | None = None
    """Epoch of the attempt in which memory runs out, counted from 0. None for no such epoch."""
    crashes_in: int | None = None
    """Epoch of the attempt in which it crashes, counted from 0. None for no such epoch."""
    crash_can_be_retried: bool = True
    has_no_disk: bool = False
    """True if none of its checkpoints can be written."""


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """Simulated worker. The driver knows it by its number. After its end another worker may use its slot."""

    number: int
    slot: int
    host: str
    speed: float
    """Multiple of the configured speed."""
    clock_rate: float = 1.0
    """Seconds on its clock per second of the driver's clock."""
    is_silent: bool = False
    """True if it holds its slot but sends no more messages."""
    attempt: SimulatedAttempt | None = None


@dataclass(slots=True, eq=False)
class SimulatedAttempt:
    """Simulated attempt (training of a network by a worker), from the command to its last message or the end of the worker."""

    order: messages.Train
    worker: SimulatedWorker
    dataset: DataSet
    pace_of: Callable[[int], TrialTiming]
    """Function that returns the timing at a batch size."""
    holds: Callable[[int], bool]
    """Function that returns True if the accelerators' memory holds the trial at a batch size."""
    curve: Curve
    checkpoints: Checkpoints
    prepared: events.TrialPrepared
    began: float
    """Time of the order."""
    fate: AttemptFaults
    losses: list[float]
    batch_size: int
    due: float = field(init=False)
    """Time of the next call of `step`. Infinite after the end of the attempt."""
    pace: TrialTiming = field(init=False)
    _who: dict[str, Any] = field(init=False)
    epoch: int = 0
    """Current epoch. 0 while the network is being built."""
    _epoch_began: float = 0.0
    _epoch_ends: float = 0.0
    _last_report: float = 0.0
    _accident_at: float = math.inf
    _sums_before: tuple[float, ...] = NO_SUMS
    """events.CLOCKS of the finished epochs."""

    def __post_init__(self) -> None:
        self.pace = self.pace_of(self.batch_size)
        self._who = {"trial": self.order.trial, "attempt": self.order.attempt}
        self._prepare(self.began)

    @property
    def is_over(self) -> bool:
        """True if the attempt has sent its last message."""
        return self.due == math.inf

    @property
    def left_seconds(self) -> float:
        """Maximum duration of the training in seconds, from its first epoch to its last allowed one, without faults."""
        epochs = max(0, self.order.last_epoch - self.order.first_epoch + 1)
        return epochs * self.pace.epoch_seconds

    def step(self) -> list[messages.Message]:
        """Return the messages that are due now, in sequence."""
        now = self.due
        if not self.epoch:
            if not self.holds(self.batch_size):
                message = self._run_out_of_memory()
                if not self.is_over:
                    self._prepare(now)
                return [message]
            return [self.prepared, *self._go_on(self.order.first_epoch, now)]
        if now >= self._accident_at:
            return self._accident(now)
        if now >= self._epoch_ends:
            return self._end_epoch(now)
        self._last_report = now
        self._set_due()
        return [self.sums(now)]

    def _prepare(self, now: float) -> None:
        """Build the network. If memory runs out, it does so here, before weights are read and before anything is compiled."""
        prepared = self.prepared
        self.due = now + prepared.build_seconds
        if self.holds(self.batch_size):
            self.due += prepared.weights_seconds + prepared.compile_seconds

    def _run_out_of_memory(self) -> events.BatchReduced | messages.Crashed:
        before = self.batch_size
        reduced = smaller(before)
        if reduced is None:
            self.due = math.inf
            reason = f"out of memory even at batch {before}"
            return messages.Crashed(**self._who, reason=reason, retry=False, cause="memory")
        self.batch_size, self.pace = reduced, self.pace_of(reduced)
        return events.BatchReduced(**self._who, from_batch_size=before, to_batch_size=reduced)

    def _go_on(self, epoch: int, now: float) -> list[messages.Message]:
        """Begin the next epoch, or end the attempt. A resumed trial may have no epoch left."""
        order = self.order
        reason = None
        if epoch > order.last_epoch:
            reason = "epochs"
        elif has_stopped_improving(self.losses, order.patience, order.improvement):
            reason = "early stop"
        if reason is not None:
            self.due = math.inf
            return [messages.TrialDone(**self._who, reason=reason)]
        self._begin_epoch(epoch, now)
        return []

    def _begin_epoch(self, epoch: int, now: float) -> None:
        self.epoch = epoch
        self._epoch_began = self._last_report = now
        self._epoch_ends = now + self.pace.epoch_seconds
        drawn = epoch - self.order.first_epoch
        has_accident = drawn in (self.fate.out_of_memory_in, self.fate.crashes_in)
        self._accident_at = now + _ACCIDENT_SHARE * self.pace.training_seconds if has_accident else math.inf
        self._set_due()

    def _set_due(self) -> None:
        rate = self.worker.clock_rate
        every = self.order.progress_seconds / rate
        due = self._last_report + every
        if not ends_interval(every, self._epoch_ends - due, every):
            due = self._epoch_ends
        due = min(due, self._accident_at)
        for edge in self.order.edges:
            at = self.began + edge / rate
            step, inside = self.pace.step_seconds, at - self._epoch_began
            if 0 <= inside < self.pace.training_seconds and step:
                # at the first step after the edge, as a real worker: a report without a new step gives no interval
                at = self._epoch_began + (math.ceil(inside / step) + _ROUNDING) * step
            if self._last_report < at < due:
                due = at
        self.due = due

    def _accident(self, now: float) -> list[messages.Message]:
        order, fate = self.order, self.fate
        if fate.crashes_in == self.epoch - order.first_epoch:
            self.due = math.inf
            if fate.crash_can_be_retried:
                return [messages.Crashed(**self._who, reason="an invented crash", retry=True)]
            reason = "an invented divergence"
            return [messages.Crashed(**self._who, reason=reason, retry=False, cause="divergence")]
        fate.out_of_memory_in = None
        self._sums_before = events.clocks(self.sums(now))
        message = self._run_out_of_memory()
        if not self.is_over:
            self._begin_epoch(self.epoch, now)
        return [message]

    def _end_epoch(self, now: float) -> list[messages.Message]:
        order, epoch, curve = self.order, self.epoch, self.curve
        loss = curve.loss(epoch, self.dataset.classes)
        self.losses.append(loss)
        if not self.fate.has_no_disk:
            self.checkpoints.save(order.trial, epoch, curve.experience(epoch), now)
        sums = self.sums(now)
        self._sums_before = events.clocks(sums)
        done = messages.EpochDone(
            **self._who,
            epoch=epoch,
            advanced=sums,
            accuracy=1 - curve.error(epoch),
            validation_loss=loss,
            training_loss=0.9 * loss,
            learning_rate=0.1,
            checkpoint=not self.fate.has_no_disk,
            halves=halves(1 - curve.error(epoch), self.dataset.validation_images),
        )
        unsaved: list[messages.Message] = []
        if self.fate.has_no_disk:
            unsaved = [events.CheckpointNotWritten(**self._who, epoch=epoch, reason="an invented full disk")]
        return [done, *unsaved, *self._go_on(epoch + 1, now)]

    def sums(self, now: float) -> messages.Advanced:
        """Return the progress message at the time `now` (seconds of the run's clock) within the current epoch."""
        pace, data, inside, rate = self.pace, self.dataset, now - self._epoch_began, self.worker.clock_rate
        validation = validated = checkpoint = 0.0
        steps = pace.steps
        if now >= self._epoch_ends:
            validated, validation = data.validation_images, pace.validation_seconds
            checkpoint = pace.checkpoint_seconds
        elif inside < pace.training_seconds:
            steps = int(inside / pace.step_seconds)
        else:
            validation = min(pace.validation_seconds, inside - pace.training_seconds)
            validated = data.validation_images * validation / pace.validation_seconds
        seconds = {
            "busy_seconds": steps * pace.busy_seconds + validation,
            "communication_seconds": steps * pace.communication_seconds,
            "validation_seconds": validation,
            "input_seconds": steps * pace.input_seconds,
            "checkpoint_seconds": checkpoint,
        }
        for name, earlier in zip(events.CLOCKS, self._sums_before, strict=True):
            seconds[name] = earlier + seconds.get(name, 0.0) * rate
        return messages.Advanced(
            epoch=self.epoch,
            batch_size=self.batch_size,
            training_images=steps * pace.images_per_step,
            validation_images=int(validated),
            **(self._who | seconds),
        )


def halves(accuracy: float, samples: int) -> events.Halves | None:
    """Return the correct samples of both halves of the validation set, in proportion. None for fewer than two samples.

    A simulated accuracy has no sampling error. With its sum fixed, halves drawn at random would differ from it in opposite
    directions, so that an evaluation chosen by one half would look too bad on the other.
    """
    if samples < 2:
        return None
    correct, odd = round(accuracy * samples), samples // 2
    even = samples - odd
    of_even = (2 * correct * even + samples) // (2 * samples)
    return events.Halves(even_correct=of_even, even_samples=even, odd_correct=correct - of_even, odd_samples=odd)
