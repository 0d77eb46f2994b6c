"""One rank's training of one trial: epochs, validation after each, and the words that report them.

Nothing in a step waits for the device to say a number: losses are summed on it and read once an epoch. Rank 0's words are the
trial's; the other ranks do the same steps in silence.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aiperf.data.batches import Batch
from aiperf.journal.messages import (
    CheckpointGone,
    Crashed,
    Done,
    EpochDone,
    OutOfMemory,
    Train,
    Word,
)
from aiperf.rng import derive
from aiperf.rules.procedure import has_stopped_improving
from aiperf.train.attempt_sums import EpochClock, Reports, Span
from aiperf.train.attempt_words import AttemptWords, WhenWritten, in_order
from aiperf.train.batch_sizes import smaller
from aiperf.train.ceiling import DoesNotFit
from aiperf.train.checkpoint import Snapshot, copied
from aiperf.train.device_timer import Mark
from aiperf.train.execution import NotHad
from aiperf.train.learning_rate import learning_rate
from aiperf.train.optimiser import momentum_of, set_learning_rate
from aiperf.train.precision import unsearched
from aiperf.train.rank_context import RankContext
from aiperf.train.setup import CheckpointMissing, Ready, prepare, walk
from aiperf.train.stages import Stage


class RankOutOfMemory(Exception):
    """One rank of several ran out of memory within a step: the others wait for it, and only a new group gets them out."""

    def __init__(self, batch: int, word: OutOfMemory | None) -> None:
        super().__init__(f"out of memory at batch {batch}")
        self.word = word
        """Reports the smaller batch with which the next attempt should be made; None: there is none."""


def train(order: Train, context: RankContext, taken: float) -> Iterator[Word]:
    """Trains a trial to its end and says how it goes; the last word is Done, Crashed or CheckpointGone.

    `taken`: time.monotonic() when the order was taken. Words come in order, and those of an epoch whose checkpoint is not on
    disk yet as `attempt_words.py` says. Raises RankFailed when another rank is gone, RankOutOfMemory where several ranks cannot
    agree on a smaller batch any more, and whatever the data set or torch raise.
    """
    yield from in_order(_Attempt(order, context, taken).run(), order, context)


@dataclass(slots=True)
class _Pending:
    """A step that the device may not have finished."""

    begin: Mark
    end: Mark
    exchanged: tuple[Mark, Mark] | None
    images: int
    """Of this rank."""
    is_training: bool


class _Attempt:
    """The state of one attempt over its epochs."""

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
        self._said_prepared = False
        self._rate = 0.0
        """Of the last step."""
        self._counted = (0, 0)
        """Images of all ranks that have been accounted for."""

    def run(self) -> AttemptWords:
        order = self._order
        who: dict[str, Any] = {"trial": order.trial, "attempt": order.attempt}
        while True:
            try:
                yield from self._from_here()
                return
            except CheckpointMissing as error:
                yield CheckpointGone(**who, missing=error.trial, reason=str(error))
                return
            except NotHad as error:
                yield Crashed(**who, reason=str(error), retry=False, cause="network")
                return
            except (DoesNotFit, torch.cuda.OutOfMemoryError) as error:
                agreed = isinstance(error, DoesNotFit) or self._context.collective.ranks == 1
                # the traceback holds the step's tensors: it must be gone before anything is tried again
            reduced = smaller(self._batch)
            word = None
            if reduced is not None:
                word = OutOfMemory(**who, from_batch_size=self._batch, to_batch_size=reduced)
            if not agreed:
                raise RankOutOfMemory(self._batch, word)
            if word is None:
                reason = f"out of memory even at batch {self._batch}"
                yield Crashed(**who, reason=reason, retry=False, cause="memory")
                return
            if self._context.device.type == "cuda":
                torch.cuda.empty_cache()
            yield word
            self._batch = word.to_batch_size

    def _from_here(self) -> AttemptWords:
        """Epoch after epoch, from the current one at the current batch."""
        ready = prepare(self._order, self._context, self._epoch, self._batch, self._snapshot)
        if not self._said_prepared:
            yield ready.prepared
            self._said_prepared = True
        try:
            yield from self._epochs(ready)
        finally:
            ready.close()

    def _epochs(self, ready: Ready) -> AttemptWords:
        order = self._order
        while True:
            yield from self._one_epoch(ready)
            if not math.isfinite(self._losses[-1]):
                reason = f"diverged: the loss of epoch {self._epoch} is not finite"
                yield Crashed(trial=order.trial, attempt=order.attempt, reason=reason, retry=False, cause="divergence")
                return
            if self._is_over():
                reason = "epochs" if self._epoch >= order.last_epoch else "early stop"
                yield Done(trial=order.trial, attempt=order.attempt, reason=reason)
                return
            self._epoch += 1

    def _is_over(self) -> bool:
        order = self._order
        return self._epoch >= order.last_epoch or has_stopped_improving(self._losses, order.patience, order.improvement)

    def _one_epoch(self, ready: Ready) -> AttemptWords:
        """Training, validation, checkpoint; appends the epoch's validation loss."""
        context, order = self._context, self._order
        # dropout's draws: a function of numbers in the order, so that a resumed trial draws what an unbroken one would
        torch.manual_seed(derive(order.seed, "dropout", self._epoch, context.collective.rank))
        # all ranks are at the same point here: none has begun the epoch's first step. They are asked, since what those of other
        # hosts did in the epoch before may not have been heard of yet, and would count for this one
        so_far = context.collective.total([float(images) for images in context.liveness.own_images()])
        self._counted = (round(so_far[0]), round(so_far[1]))
        context.timeline.anchor()
        steps = context.data.training_steps(ready.batch, context.collective.ranks)
        whole = steps[-1].stop + context.data.validation_images
        clock = EpochClock(self._reports, self._epoch, ready.batch, whole)

        training = yield from self._training(ready, clock)
        # each rank normalised with its own images: their statistics are averaged, so that all hold one network again
        began = self._now()
        context.collective.average([buffer for buffer in ready.network.buffers() if buffer.is_floating_point()])
        clock.exchanged(self._now() - began)
        clock.trained(self._newly_counted()[0])
        # validation changes nothing that a checkpoint holds: the file is written meanwhile
        snapshot, file = self._checkpoint(ready, clock)
        validation = yield from self._validation(ready, clock)
        began = self._now()
        sums = context.collective.total([*training.read(), *validation.read()])
        clock.exchanged(self._now() - began)
        training_images, training_loss, _, validation_images, validation_loss, correct = sums
        self._losses.append(validation_loss / validation_images)
        is_finite = math.isfinite(training_loss) and math.isfinite(validation_loss)
        if not is_finite:
            self._losses[-1] = math.inf

        advanced = clock.finish(self._now(), round(training_images), round(validation_images))
        if not is_finite or (self._is_over() and file is not None and not file.done()):
            # said at once: the last epoch's own word waits for the disk, and the interval ends when the driver hears of it
            yield advanced
        if not is_finite:  # an epoch without a loss is not reported as done; its images were processed all the same
            return
        self._snapshot = snapshot
        if self._is_over() and context.writer is not None:
            context.writer.finish(order.trial)
        done = EpochDone(
            advanced=advanced,
            accuracy=correct / validation_images,
            validation_loss=validation_loss / validation_images,
            training_loss=training_loss / training_images,
            learning_rate=self._rate,
            checkpoint=False,
        )
        yield WhenWritten(done, file, self._is_over()) if file is not None else done

    def _training(self, ready: Ready, clock: EpochClock) -> Generator[Word | None, None, _Account]:
        context, order, exchange = self._context, self._order, ready.exchange
        timeline, ranks = context.timeline, context.collective.ranks
        account = _Account(context.device)
        exchange.module.train()
        clock.begin_pass(self._now())
        batches = context.data.training(
            ready.batch, **walk(context), epoch=self._epoch, seed=derive(order.seed, "order")
        )
        pending: deque[_Pending] = deque()
        try:
            for number, batch in enumerate(self._fetched(batches)):
                self._rate = learning_rate(context.conf, self._epoch, ready.batch * ranks, number / len(batches))
                set_learning_rate(exchange.optimiser, self._rate)
                begin = timeline.mark()
                with ready.execution.eager_if(batch.count != ready.batch), context.precision.computing():
                    logits = exchange.module(batch.images)
                    loss = F.cross_entropy(logits.float(), batch.labels, label_smoothing=context.conf.label_smoothing)
                account.add(batch, loss)
                if batch.count * ranks != batch.global_count:
                    # ranks with fewer images count for less: the mean over ranks is then the mean over images
                    loss = loss * (batch.count * ranks / batch.global_count)
                exchanged = exchange.backward(loss)
                exchange.update()
                pending.append(_Pending(begin, timeline.mark(), exchanged, batch.count, True))
                self._step += 1
                yield from self._finish_steps(pending, clock, timeline.behind)
            yield from self._finish_steps(pending, clock, 0)
        finally:
            batches.close()
        return account

    def _validation(self, ready: Ready, clock: EpochClock) -> Generator[Word | None, None, _Account]:
        context, network = self._context, ready.network
        timeline = context.timeline
        account = _Account(context.device)
        network.eval()
        clock.begin_pass(self._now())
        batches = context.data.validation(ready.batch, **walk(context))
        pending: deque[_Pending] = deque()
        try:
            for batch in self._fetched(batches):
                begin = timeline.mark()
                once = nullcontext() if batch.count == ready.batch else unsearched()
                with torch.inference_mode(), context.precision.computing(), once:
                    logits = network.forward(batch.images).float()  # not a call: what is compiled is the training step
                    loss = F.cross_entropy(logits, batch.labels)
                    account.add(batch, loss)
                    account.add_correct((logits.argmax(1) == batch.labels).sum())
                pending.append(_Pending(begin, timeline.mark(), None, batch.count, False))
                yield from self._finish_steps(pending, clock, timeline.behind)
            yield from self._finish_steps(pending, clock, 0)
        finally:
            batches.close()
        return account

    def _finish_steps(
        self, pending: deque[_Pending], clock: EpochClock, behind: int
    ) -> Generator[Word | None, None, None]:
        """Accounts for all but the last `behind` steps; waits for the device where it has not finished one of them yet."""
        context, second = self._context, self._context.timeline.second
        while len(pending) > behind:
            step = pending.popleft()
            end = second(step.end)
            exchanged = 0.0 if step.exchanged is None else second(step.exchanged[1]) - second(step.exchanged[0])
            begin = second(step.begin)
            context.liveness.processed(*((step.images, 0) if step.is_training else (0, step.images)))
            trained, validated = self._newly_counted()
            images = trained if step.is_training else validated
            word = clock.step(
                Span(begin - self._taken, end - self._taken, images, step.is_training, max(0.0, exchanged)),
                is_asked=context.liveness.is_asked_for_sums(),
            )
            self._longest_step = max(self._longest_step, end - begin)
            context.liveness.beat(self._step, *self._patience())
            yield word

    def _newly_counted(self) -> tuple[int, int]:
        """Training and validation images that all ranks have processed since this was last asked."""
        before, now = self._counted, self._context.liveness.images()
        self._counted = (max(before[0], now[0]), max(before[1], now[1]))
        return self._counted[0] - before[0], self._counted[1] - before[1]

    def _fetched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches. A rank that waits for one waits for storage: it is not hung while its process makes progress."""
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
        """The stage of a step, and how long this rank may be silent in it. A first step may choose and compile kernels."""
        conf = self._context.conf
        if self._step <= self._context.timeline.behind + 1:
            return Stage.LAUNCH, max(conf.start_seconds, 10 * self._longest_step)
        return Stage.STEPS, max(conf.hang_seconds, 10 * self._longest_step)

    def _checkpoint(self, ready: Ready, clock: EpochClock) -> tuple[Snapshot | None, Future[bool] | None]:
        """Rank 0 copies the epoch's state. Gives the copy, and a future that says whether its file was written."""
        context, began = self._context, time.monotonic()
        if context.writer is None:
            return None, None
        snapshot = Snapshot(
            trial=self._order.trial,
            epoch=self._epoch,
            fingerprint=ready.graph.fingerprint,
            weights=copied(ready.network.state_dict()),
            momentum=copied(momentum_of(ready.exchange.optimiser, ready.network)),
            scaler=ready.scaler.state_dict() if ready.scaler is not None else {},
        )
        context.timeline.anchor()  # the copies are made when this returns: the writer reads them from another stream
        file = context.writer.submit(snapshot)
        clock.stood_still(time.monotonic() - began)
        return snapshot, file

    def _now(self) -> float:
        return time.monotonic() - self._taken


class _Account:
    """Sums over a pass, kept on the device."""

    def __init__(self, device: torch.device) -> None:
        self._images = 0
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._correct = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, batch: Batch, mean_loss: Tensor) -> None:
        self._images += batch.count
        self._loss.add_(mean_loss.detach(), alpha=batch.count)

    def add_correct(self, correct: Tensor) -> None:
        self._correct.add_(correct)

    def read(self) -> tuple[float, float, float]:
        """Images, summed loss, correct answers; waits for the device."""
        return float(self._images), self._loss.item(), float(self._correct.item())
