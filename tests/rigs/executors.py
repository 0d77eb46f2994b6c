"""All executors, on machines that the product starts for them, with a network that trains in a moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from aiperf.config import configure
from aiperf.drive.driver import Executor
from aiperf.drive.machines import machines, worker_shape
from aiperf.drive.session import SessionState
from aiperf.journal.events import TrialPrepared, WorkerJoined
from aiperf.journal.messages import (
    Advanced,
    CheckpointGone,
    Crashed,
    EpochDone,
    Message,
    ProposalFailed,
    ProposalReturned,
    Train,
    TrialDone,
)
from aiperf.planning.plan import first_event, make_plan
from aiperf.simulate.model.simulated_executor import SimulatedExecutor
from aiperf.simulate.session import open_run, world_of
from morphism import decode_morph, encode
from searchers import history
from tests.builders.journal import requested
from tests.builders.order import plain_graph
from tests.rigs.processes import command_line, descendants
from tests.rigs.ray_cluster import patiently

EXECUTORS = {
    "inline": ("executor=inline",),
    "ray": ("executor=ray",),
    "simulated": ("+cluster=simulated", "cluster.workers=1", "cluster.accelerators=1"),
}
"""Options for each executor."""
TINY = (
    "dataset=synthetic",
    "dataset.training_images=160",
    "dataset.validation_images=50",
    "dataset.classes=3",
    "dataset.image=8",
    "dataset.channels=1",
    "trainer.ranks=1",
    "trainer.threads=1",
    "trainer.precision=fp32",
    "trainer.compile=off",
    "searcher=random",
    "hpo=off",
)
PATIENCE_SECONDS = 600.0
"""Far more than anything here takes."""


@dataclass
class Bench:
    """Executor with all its messages."""

    executor: Executor
    worker: int = 0
    """The one that is up."""
    said: list[Message] = field(default_factory=list)

    def until(self, happened: Callable[[list[Message]], bool]) -> list[Message]:
        """Read messages until the condition holds. Return all messages so far."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened(self.said):
            assert time.monotonic() < deadline, f"it did not happen; said: {self.said}"
            self.said += self.executor.messages(0.1)
        return self.said

    def next_up(self) -> WorkerJoined:
        """The next worker that comes up, which is given the orders from now on."""
        before = len(self.ups())
        self.until(lambda _: len(self.ups()) > before)
        self.worker = self.ups()[-1].worker
        return self.ups()[-1]

    def ups(self) -> list[WorkerJoined]:
        return [word for word in self.said if isinstance(word, WorkerJoined)]

    def answers(self, number: int) -> list[ProposalReturned | ProposalFailed]:
        """To a request."""
        return [
            word for word in self.said if isinstance(word, ProposalReturned | ProposalFailed) and word.number == number
        ]

    def proposed(self, number: int, *, starting_network: bool = False) -> ProposalReturned:
        """Has a proposal made."""
        self.executor.send(requested(number, self.worker, starting_network=starting_network))
        self.until(lambda _: bool(self.answers(number)))
        (answer,) = self.answers(number)
        assert isinstance(answer, ProposalReturned), answer
        return answer

    def observe(self, proposal: ProposalReturned, accuracy: float) -> None:
        """Return the observations of a finished trial."""
        number = proposal.number
        morphs = tuple(decode_morph(morph) for morph in proposal.morphs)
        of_it = history.TrialInFlight(
            number, 1, proposal.parent, morphs, proposal.batch_size, None, f"print of {number}"
        )
        self.executor.observe([history.Requested(number), of_it, history.Finished(number, accuracy)])

    def trained(self, proposal: ProposalReturned, **changes: object) -> list[Message]:
        """Train a proposal to the end. Return its messages."""
        order = order_for(proposal, self.worker, **changes)
        self.executor.send(order)
        self.until(lambda _: any(is_last(word, order) for word in self.said))
        return self.words_of(order)

    def words_of(self, order: Train) -> list[Message]:
        """Return all messages of an attempt."""
        return [word for word in self.said if attempt_of(word) == (order.trial, order.attempt)]


def order_for(proposal: ProposalReturned, worker: int, **changes: object) -> Train:
    """To train a proposal, two epochs of it."""
    order = Train(
        trial=proposal.number,
        attempt=1,
        worker=worker,
        lineage=(),
        morphs=proposal.morphs,
        parent=proposal.parent,
        first_epoch=1,
        last_epoch=2,
        patience=60,
        improvement=0.001,
        losses=(),
        batch_size=16,
        seed=7,
        progress_seconds=1e-4,
        edges=(),
    )
    return msgspec.structs.replace(order, **changes)


def attempt_of(word: Message) -> tuple[int, int] | None:
    """Trial and attempt that a word is of."""
    if isinstance(word, TrialPrepared | Advanced | EpochDone | TrialDone | Crashed | CheckpointGone):
        return word.trial, word.attempt
    return None


def is_last(word: Message, order: Train) -> bool:
    """Return whether it ends the attempt."""
    return isinstance(word, TrialDone | Crashed | CheckpointGone) and attempt_of(word) == (order.trial, order.attempt)


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Bench]:
    """Executor whose first worker was requested but is not up."""
    (folder / "start.json").write_text(encode(plain_graph()))
    conf = configure([f"runs={folder}", f"start={folder / 'start.json'}", *TINY, *EXECUTORS[name]])
    with ExitStack() as stack:
        executor: Executor
        if conf.cluster is not None:
            executor = SimulatedExecutor(world_of(open_run(conf)), first_worker=0)
        else:
            executor_of = patiently(lambda: stack.enter_context(machines(conf)))
            first = first_event(make_plan(conf, worker_shape(conf)), name, time.time())
            executor = executor_of(conf, folder, SessionState.at(first))
        stack.callback(executor.close)
        executor.start()
        yield Bench(executor)


def at_work() -> list[str]:
    """Processes that serve a worker of this process's: its host, its ranks, its generator, its recorder."""
    marks = (b"aiperf.train.ranks.rank", b"aiperf.system.recorder", b"ray::WorkerHost", b"ray::Generator")
    lines = [command_line(pid) for pid in descendants(os.getpid())]
    return [line.decode(errors="replace") for line in lines if any(mark in line for mark in marks)]
