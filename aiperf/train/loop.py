"""Training of one trial on one rank: epochs, validation after each, and the messages that report them.

No step synchronizes the device: losses are summed on the device and read once per epoch. Rank 0's messages are the trial's. The
other ranks execute the same steps and send none.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.data.batches import Batch
from aiperf.data.opened import OpenData
from aiperf.journal.events import BatchReduced
from aiperf.journal.messages import CheckpointGone, Crashed, EpochDone, Message, Train, TrialDone
from aiperf.rng import derive
from aiperf.rules.procedure import has_stopped_improving, judged_loss
from aiperf.train.attempt_messages import AttemptMessages, EpochClock, EpochMessage, Reports, StepTimes, in_order
from aiperf.train.checkpoints.checkpoint import Snapshot, Writer, copied
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.device import Mark, first_line, is_out_of_memory
from aiperf.train.execution import ModeUnavailable
from aiperf.train.heartbeat import Stage
from aiperf.train.memory_limits import DoesNotFit
from aiperf.train.optimiser import set_learning_rate, state_by_name
from aiperf.train.precision import unsearched
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import CheckpointMissing, PreparedNetwork, prepare, walk
from aiperf.train.task import ValidationSums
from aiperf.train.tracing.step_trace import StepTrace, traced_steps
from aiperf.train.trainer_config import TrainerConf, learning_rate
from morphism import Architecture
from searchers.batch_sizes import smaller


class RankOutOfMemory(Exception):
    """Error of one of several ranks that ran out of memory within a step. The others wait for it, and must be restarted."""

    def __init__(self, batch: int, said: str, message: BatchReduced | None) -> None:
        super().__init__(f"out of memory at batch {batch}{said}")
        self.message = message
        """Reports the smaller batch for the next attempt. None if there is none."""


def train(order: Train, context: RankContext, taken: float) -> Iterator[Message]:
    """Train a trial to its end and yield its messages. The last one is TrialDone, Crashed or CheckpointGone.

    `taken`: time.monotonic() at which the command was received. Raise RankFailed if another rank is lost, and RankOutOfMemory
    if this one of several ranks ran out of memory.
    """
    yield from in_order(_Attempt(order, context, taken).run(), order, context)


@dataclass(slots=True)
class _Pending:
    """A step that the device may not have finished."""

    begin: Mark
    end: Mark
    exchanged: tuple[Mark, Mark] | None
    images: int
    """Images of this rank."""
    is_training: bool


class _Attempt:
    def __init__(self, order: Train, context: RankContext, taken: float) -> None:
        self._order = order
        self._context = context
        self._taken = taken
        self._reports = Reports(order.trial, order.attempt, order.progress_seconds, order.edges)
        self._losses = list(order.losses)
        self._epoch = order.first_epoch
        self._batch = order.batch_size
        self._step = 0
        self._longest_step = 0.0
        self._snapshot: Snapshot | None = None
        self._is_prepared_reported = False
        self._rate = 0.0
        self._counted = (0, 0)
        self._who: dict[str, Any] = {"trial": order.trial, "attempt": order.attempt}
        """Training and validation images of all ranks that were accounted for."""

    def run(self) -> AttemptMessages:
        while True:
            try:
                yield from self._from_here()
                return
            except CheckpointMissing as error:
                yield CheckpointGone(**self._who, missing=error.trial, reason=str(error))
                return
            except ModeUnavailable as error:
                yield Crashed(**self._who, reason=str(error), retry=False, cause="network")
                return
            except Exception as error:
                if not isinstance(error, DoesNotFit) and not is_out_of_memory(error):
                    raise
                agreed = isinstance(error, DoesNotFit) or self._context.collective.ranks == 1
                said = first_line(error)
            # the traceback holds the step's tensors, so leave the handler before trying again
            reduced = smaller(self._batch)
            message = None
            if reduced is not None:
                message = BatchReduced(**self._who, from_batch_size=self._batch, to_batch_size=reduced)
            if not agreed:
                raise RankOutOfMemory(self._batch, said, message)
            if message is None:
                reason = f"out of memory even at batch {self._batch}{said}"
                yield Crashed(**self._who, reason=reason, retry=False, cause="memory")
                return
            if self._context.device.type == "cuda":
                torch.cuda.empty_cache()
            yield message
            self._batch = message.to_batch_size

    def _from_here(self) -> AttemptMessages:
        ready = prepare(self._order, self._context, self._epoch, self._batch, self._snapshot)
        if not self._is_prepared_reported:
            yield ready.prepared
            self._is_prepared_reported = True
        try:
            yield from self._epochs(ready)
        finally:
            ready.close()

    def _epochs(self, ready: PreparedNetwork) -> AttemptMessages:
        order = self._order
        while True:
            yield from self._one_epoch(ready)
            if not math.isfinite(self._losses[-1]):
                reason = f"diverged: the loss of epoch {self._epoch} is not finite"
                yield Crashed(**self._who, reason=reason, retry=False, cause="divergence")
                return
            if self._is_over():
                reason = "epochs" if self._epoch >= order.last_epoch else "early stop"
                yield TrialDone(**self._who, reason=reason)
                return
            self._epoch += 1

    def _is_over(self) -> bool:
        order = self._order
        return self._epoch >= order.last_epoch or has_stopped_improving(self._losses, order.patience, order.improvement)

    def _one_epoch(self, ready: PreparedNetwork) -> AttemptMessages:
        context, order = self._context, self._order
        # dropout is a function of numbers in the order, so that a resumed trial draws the same values
        torch.manual_seed(derive(order.seed, "dropout", self._epoch, context.collective.rank))
        # No rank has begun the epoch's first step. The counts are summed over ranks, because the heartbeats of other hosts
        # may be late, and their images would count for this epoch
        so_far = context.collective.total([float(images) for images in context.liveness.own_images()])
        self._counted = (round(so_far[0]), round(so_far[1]))
        context.timeline.anchor()
        steps = context.data.training_steps(ready.batch, context.collective.ranks)
        whole = steps[-1].stop + context.data.validation_images
        clock = EpochClock(self._reports, self._epoch, ready.batch, whole)

        training_images, training_sum = yield from self._training(ready, clock)
        # each rank normalised with its own images: averaging the statistics makes the networks equal again
        began = self._now()
        context.collective.average(running_statistics(ready.network))
        clock.exchanged(self._now() - began)
        clock.trained(self._newly_counted()[0])
        # validation changes nothing in the checkpoint, so the file is written meanwhile
        snapshot, file = self._checkpoint(ready, clock)
        validation_images, validation_sums = yield from self._validation(ready, clock)
        began = self._now()
        own_sums = [float(training_images), training_sum.item(), float(validation_images), *validation_sums.read()]
        trained, training_loss, validated, *sums = context.collective.total(own_sums)
        clock.exchanged(self._now() - began)
        quality = context.task.quality(sums, round(validated))
        judged = judged_loss(quality.loss, training_loss / trained)
        is_finite = math.isfinite(training_loss) and math.isfinite(judged)
        self._losses.append(judged if is_finite else math.inf)

        advanced = clock.finish(self._now(), round(trained), round(validated))
        if not is_finite or (self._is_over() and file is not None and not file.done()):
            # the last epoch's own message waits for the disk, and the interval ends when the driver receives a report
            yield advanced
        if not is_finite:  # an epoch without a finite loss is not reported as done. Its images count
            return
        self._snapshot = snapshot
        if self._is_over() and context.writer is not None:
            context.writer.finish(order.trial)
        done = EpochDone(
            **self._who,
            epoch=advanced.epoch,
            advanced=advanced,
            accuracy=quality.value,
            validation_loss=quality.loss,
            training_loss=training_loss / trained,
            halves=quality.halves,
            regions=quality.regions,
            missing_regions=quality.missing_regions,
            learning_rate=self._rate,
            checkpoint=False,
        )
        yield EpochMessage(done, file, self._is_over()) if file is not None else done

    def _training(
        self, ready: PreparedNetwork, clock: EpochClock
    ) -> Generator[Message | None, None, tuple[int, Tensor]]:
        """Return this rank's number of images and the sum of their losses, a float64 scalar on the device."""
        context, order, timeline = self._context, self._order, self._context.timeline
        images, loss_sum = 0, torch.zeros((), dtype=torch.float64, device=context.device)
        ready.exchange.module.train()
        clock.begin_pass(self._now())
        batches = context.data.training(
            ready.batch, **walk(context), epoch=self._epoch, seed=derive(order.seed, "order")
        )
        pending: deque[_Pending] = deque()
        trace = self._trace_of(ready, len(batches))
        try:
            if trace is not None:
                yield from self._turn(trace, 0, pending, clock)
            for number, batch in enumerate(self._fetched(batches)):
                self._rate = learning_rate(
                    context.conf, self._epoch, ready.batch * context.collective.ranks, number / len(batches)
                )
                loss, step = self._train_batch(ready, batch, number, trace)
                images += batch.count
                loss_sum.add_(loss, alpha=batch.count)
                pending.append(step)
                self._step += 1
                yield from self._finish_steps(pending, clock, timeline.behind)
                if trace is not None:
                    yield from self._turn(trace, number + 1, pending, clock)
            yield from self._finish_steps(pending, clock, 0)
        finally:
            batches.close()
            if trace is not None:
                trace.close()
        return images, loss_sum

    def _train_batch(
        self, ready: PreparedNetwork, batch: Batch, number: int, trace: StepTrace | None
    ) -> tuple[Tensor, _Pending]:
        context, exchange = self._context, ready.exchange
        traced = trace if trace is not None and trace.is_active(number) else None
        set_learning_rate(exchange.optimiser, self._rate)
        begin = context.timeline.mark()
        if traced is not None:
            traced.begin_step(number)
        with ready.execution.eager_if(batch.count != ready.batch), context.precision.computing():
            loss = context.task.loss(exchange.module, batch)
        mean = loss.detach()
        ranks = context.collective.ranks
        if batch.count * ranks != batch.global_count:
            # weight by images, so that the mean over ranks is the mean over images
            loss = loss * (batch.count * ranks / batch.global_count)
        exchanged = exchange.backward(loss)
        if traced is not None:
            traced.after_backward(exchanged)
        exchange.update()
        if traced is not None:
            traced.end_step()
        return mean, _Pending(begin, context.timeline.mark(), exchanged, batch.count, True)

    def _trace_of(self, ready: PreparedNetwork, steps: int) -> StepTrace | None:
        context = self._context
        traced = traced_steps(context.conf.profile_steps, steps)
        if not (traced and context.is_first and self._epoch == 1):
            return None
        return StepTrace(self._order, context, ready, traced)

    def _turn(
        self, trace: StepTrace, step: int, pending: deque[_Pending], clock: EpochClock
    ) -> Generator[Message | None, None, None]:
        """This time is neither training nor waiting for input."""
        if step not in trace.edges:
            return
        yield from self._finish_steps(pending, clock, 0)
        self._context.liveness.enter(Stage.LAUNCH, self._context.conf.start_seconds)
        yield trace.turn(step)
        clock.begin_pass(self._now())

    def _validation(
        self, ready: PreparedNetwork, clock: EpochClock
    ) -> Generator[Message | None, None, tuple[int, ValidationSums]]:
        context, network = self._context, ready.network
        timeline = context.timeline
        images, sums = 0, context.task.validation_sums(network, context.data.validation_images)
        network.eval()
        clock.begin_pass(self._now())
        batches = context.data.validation(ready.batch, **walk(context))
        pending: deque[_Pending] = deque()
        try:
            for batch in self._fetched(batches):
                begin = timeline.mark()
                once = nullcontext() if batch.count == ready.batch else unsearched()
                with torch.inference_mode(), context.precision.computing(), once:
                    sums.add(network, batch)
                images += batch.count
                pending.append(_Pending(begin, timeline.mark(), None, batch.count, False))
                yield from self._finish_steps(pending, clock, timeline.behind)
            yield from self._finish_steps(pending, clock, 0)
        finally:
            batches.close()
        return images, sums

    def _finish_steps(
        self, pending: deque[_Pending], clock: EpochClock, behind: int
    ) -> Generator[Message | None, None, None]:
        """Account for all but the last `behind` steps. Wait for the device if it has not finished one of them."""
        context, second = self._context, self._context.timeline.second
        while len(pending) > behind:
            step = pending.popleft()
            end = second(step.end)
            exchanged = 0.0 if step.exchanged is None else second(step.exchanged[1]) - second(step.exchanged[0])
            begin = second(step.begin)
            context.liveness.processed(*((step.images, 0) if step.is_training else (0, step.images)))
            trained, validated = self._newly_counted()
            images = trained if step.is_training else validated
            message = clock.step(
                StepTimes(begin - self._taken, end - self._taken, images, step.is_training, max(0.0, exchanged)),
                is_asked=context.liveness.is_asked_for_sums(),
            )
            self._longest_step = max(self._longest_step, end - begin)
            context.liveness.beat(self._step, *self._patience())
            yield message

    def _newly_counted(self) -> tuple[int, int]:
        before, now = self._counted, self._context.liveness.images()
        self._counted = (max(before[0], now[0]), max(before[1], now[1]))
        return self._counted[0] - before[0], self._counted[1] - before[1]

    def _fetched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """A rank that waits for a batch waits for storage: it is not hung while its process makes progress."""
        liveness = self._context.liveness
        while True:
            stage, seconds = self._patience()
            liveness.enter(Stage.INPUT, seconds)
            batch = next(batches, None)
            liveness.enter(stage, seconds)
            if batch is None:
                return
            yield batch

    def _patience(self) -> tuple[Stage, float]:
        """Return the stage of a step and the maximum silence in it, in seconds. A first step may choose and compile kernels."""
        conf = self._context.conf
        if self._step <= self._context.timeline.behind + 1:
            return Stage.LAUNCH, max(conf.start_seconds, 10 * self._longest_step)
        return Stage.STEPS, max(conf.hang_seconds, 10 * self._longest_step)

    def _checkpoint(
        self, ready: PreparedNetwork, clock: EpochClock
    ) -> tuple[Snapshot | None, Future[str | None] | None]:
        context, began = self._context, time.monotonic()
        if context.writer is None:
            return None, None
        snapshot = Snapshot(
            trial=self._order.trial,
            epoch=self._epoch,
            fingerprint=ready.architecture.fingerprint,
            weights=copied(ready.network.state_dict()),
            optimiser=copied(state_by_name(ready.exchange.optimiser, ready.network)),
            scaler=ready.scaler.state_dict() if ready.scaler is not None else {},
        )
        context.timeline.anchor()  # the copies are complete after this: the writer reads them from another stream
        file = context.writer.submit(snapshot)
        clock.stood_still(time.monotonic() - began)
        return snapshot, file

    def _now(self) -> float:
        return time.monotonic() - self._taken


def running_statistics(network: nn.Module) -> list[Tensor]:
    """Return the buffers that training changes. Constants, such as the angles of rotary positions, are in no checkpoint."""
    saved = network.state_dict(keep_vars=True).keys()
    return [each for name, each in network.named_buffers() if name in saved and each.is_floating_point()]


def train_here(
    order: Train,
    conf: TrainerConf,
    data: OpenData,
    start: Architecture,
    checkpoints: Path,
    device: torch.device | None = None,
) -> Iterator[Message]:
    """Train one trial in this process and yield its messages. The last one is TrialDone, Crashed or CheckpointGone.

    `taken`: time.monotonic() at which the command was received. Raise BadConfiguration for options that the device does not
    support, and DataError for an unusable data set.
    """
    writer = Writer(CheckpointFolder(checkpoints), conf.keep_checkpoints_seconds)
    try:
        context = RankContext.make(conf, data, start, device or torch.device("cpu"), SingleRank(), writer)
        yield from train(order, context, time.monotonic())
    finally:
        writer.settle()
        writer.close()
