"""Ranks that follow a file instead of training, for tests of real actors and nodes, and orders for them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import ray

from aiperf.drive.ray.worker_host import WorkerPlan
from aiperf.errors import AiperfError
from aiperf.journal.messages import Advanced, Drop, EpochDone, Message, Sum, Train, TrialDone
from aiperf.train.ranks.protocol import Ready
from morphism import Morph
from searchers.history import History, Request
from searchers.searcher_config import RandomConf

LACKS_DATA = "lacks its data"
BREAKS = "breaks at its start"
NEVER_READY = "is never ready"
LOSES_DEVICES = "loses its devices"
"""Says the end of its epoch, and can no more."""


def mind(folder: Path, node: str, told: str) -> None:
    """Set the behaviour of the ranks on a node. Default: normal."""
    file = folder / f"mind-{node}"
    draft = file.with_suffix(".draft")
    draft.write_text(told)
    draft.rename(file)


def open_stand_in(plan: WorkerPlan) -> StandIn:
    """Function for `RayExecutor(open_group=…)`."""
    return StandIn(plan)


class StandIn:
    """Group that answers an order with one epoch and its end, at once unless its file says otherwise."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._node = ray.get_runtime_context().get_node_id()
        self._orders: list[Train] = []
        self._is_closed = False
        self._is_over = False

    def start(self) -> Ready:
        """Ready, as a real group would be."""
        while self._received() == NEVER_READY and not self._is_closed:
            time.sleep(0.05)
        if self._received() == LACKS_DATA:
            raise AiperfError(f"the data set must be on each node; it is not on {self._node}")
        if self._received() == BREAKS:
            raise RuntimeError("an unexpected error")
        return Ready(
            ranks=self._plan.slot.accelerators or 1,
            device="stand-in",
            device_memory_bytes=2**30,
            collective="none",
            family="",
            largest_batch=64,
            precision="fp32",
            matmul_flops=None,
            memory_bytes_per_second=None,
            bus_bytes_per_second=None,
        )

    def order(self, order: Train | Drop | Sum) -> None:
        """Accept an order, but reject trial 666."""
        if isinstance(order, Train):
            assert order.trial != 666, "trial 666 ordered while another is trained"
            self._orders.append(order)

    def messages(self, timeout: float) -> list[Message]:
        """Return the messages of an epoch for each order, or the behaviour of the file."""
        if self._is_over:
            raise AiperfError(f"no rank can be started on {self._node}")
        if not self._orders:
            time.sleep(min(timeout, 0.05))
            return []
        order = self._orders.pop()
        # the order of RankGroup: messages first, and only the next poll raises the error
        self._is_over = self._received() == LOSES_DEVICES
        done = TrialDone(trial=order.trial, attempt=order.attempt, reason="epochs")
        return [_epoch(order)] if self._is_over else [_epoch(order), done]

    def close(self) -> None:
        """Nothing is left."""
        self._is_closed = True

    def _received(self) -> str:
        file = self._plan.folder / f"mind-{self._node}"
        return file.read_text() if file.exists() else ""


def _epoch(order: Train) -> EpochDone:
    return EpochDone(
        trial=order.trial,
        attempt=order.attempt,
        epoch=order.first_epoch,
        advanced=Advanced(
            trial=order.trial,
            attempt=order.attempt,
            epoch=order.first_epoch,
            batch_size=order.batch_size,
            training_images=512,
            validation_images=128,
            busy_seconds=0.0,
            communication_seconds=0.0,
            validation_seconds=0.0,
            input_seconds=0.0,
            checkpoint_seconds=0.0,
        ),
        accuracy=0.5,
        validation_loss=1.0,
        training_loss=1.0,
        learning_rate=0.1,
        checkpoint=True,
    )


@dataclass(frozen=True)
class DyingSearcher:
    """Propose at random. A request for a number kills its process."""

    dies_at: int

    @property
    def name(self) -> str:
        """As its proposals are signed."""
        return "dying"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """A random child, or the process's end."""
        if request.number == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return RandomConf().build().propose(history, request)


def order(worker: int, trial: int) -> Train:
    """Two epochs of the starting network."""
    return Train(
        trial=trial,
        attempt=1,
        worker=worker,
        lineage=(),
        morphs=(),
        parent=None,
        first_epoch=1,
        last_epoch=2,
        patience=6,
        improvement=0.001,
        losses=(),
        batch_size=32,
        seed=0,
        progress_seconds=5.0,
        edges=(),
    )
