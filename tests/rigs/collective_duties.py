"""Duties of one rank of a collective. Each rank is a process and writes its answers to a file.

    python -m tests.rigs.collective_duties NAME RANK RANKS FOLDER [fp16]

With fp16 gradients are sent in 16 bits, and the last rank is killed at the end, while the others wait for it in a
backward pass. `test_collectives.py` checks the answers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from aiperf.train.collectives.collective import Collective, Exchange, Joining, is_of_exchange, join
from aiperf.train.device import HostTimeline
from aiperf.train.execution import Execution
from aiperf.train.execution_mode import REGIONAL, ExecutionMode
from aiperf.train.optimiser import EagerSgd
from aiperf.train.precision import Precision
from aiperf.train.torch_network import build, initialise
from morphism import BatchNormalisation, Convolution, Dense, GlobalAveragePooling, Graph, Input, Node, Relu, Softmax
from morphism.ops import Op
from tests.builders.order import plain_graph

IMAGES = 8
PATIENCE_SECONDS = 120.0
"""Far more than anything here takes."""
LATE_SECONDS = 0.3
TRACED_STEPS = 3


def batch() -> tuple[Tensor, Tensor]:
    """The whole batch that all ranks work on together."""
    drawn = torch.Generator().manual_seed(5)
    return torch.randn(IMAGES, 1, 8, 8, generator=drawn), torch.randint(0, 3, (IMAGES,), generator=drawn)


class Training:
    """One rank's share of a training. Ranks have uneven shares."""

    def __init__(self, collective: Collective) -> None:
        network = build(plain_graph())
        initialise(network, seed=collective.rank)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        collective.broadcast(list(network.state_dict().values()))
        optimiser = EagerSgd(network.parameters(), lr=0.1, momentum=0.9)
        self.network = network
        self.exchange: Exchange = collective.exchange(network, optimiser, None, HostTimeline())
        first, cut = 3, IMAGES if collective.ranks == 1 else 3
        self._mine = slice(0, cut) if collective.rank == 0 else slice(first, IMAGES)
        self._weight = len(range(IMAGES)[self._mine]) * collective.ranks / IMAGES

    def backward(self) -> float | None:
        """Run forward and backward pass, as the loop does for uneven shares. Return the seconds of communication."""
        images, labels = (each[self._mine] for each in batch())
        images = images.contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(self.exchange.module(images), labels) * self._weight
        marks = self.exchange.backward(loss)
        return None if marks is None else HostTimeline().second(marks[1]) - HostTimeline().second(marks[0])

    def step(self) -> None:
        """Run one whole step.

        In a trial's second step DDP also exchanges the layout of its buckets, in the forward pass (torch 2.13).
        """
        self.backward()
        self.exchange.update()

    def gradients(self) -> list[float]:
        return _flat([each.grad for each in self.network.parameters() if each.grad is not None])

    def weights(self) -> list[float]:
        return _flat([each.detach() for each in self.network.parameters()])


def _flat(tensors: list[Tensor]) -> list[float]:
    return [float(value) for each in tensors for value in each.reshape(-1)]


class Door:
    """Action of a rank at the moment it announces an exchange."""

    def __init__(self) -> None:
        self.count = 0
        self.act: Callable[[], None] | None = None

    def __call__(self) -> None:
        self.count += 1
        act, self.act = self.act, None
        if act is not None:
            act()


class Rank:
    """State of this process for its duties."""

    def __init__(self, name: str, rank: int, ranks: int, folder: Path, *, fp16: bool) -> None:
        self.door = Door()
        self._folder = folder
        joining = Joining(rank, ranks, folder / "meeting", torch.device("cpu"), fp16, self.door, is_traced=True)
        self.collective = join(name, joining)

    def say(self, what: str) -> None:
        (self._folder / what).touch()

    def hears(self, what: str) -> bool:
        """Return whether another rank reports it within a generous time limit."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self._folder / what).exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def others_get_through(self, act: Callable[[], object], duty: str) -> list[bool]:
        """Stop each rank in turn at an exchange. Return whether the others complete it."""
        through: list[bool] = []
        for sleeper in range(self.collective.ranks if self.collective.ranks > 1 else 0):
            said = f"through-{duty}-{sleeper}"
            if self.collective.rank == sleeper:
                self.door.act = lambda said=said: through.append(self.hears(said))
                act()
            else:
                act()
                self.say(said)
        return through


def carry_out(here: Rank) -> dict[str, Any]:
    """Run the contract of a collective whose ranks all live."""
    collective, door = here.collective, here.door
    rank, answers = collective.rank, {"name": collective.name, "rank": collective.rank, "ranks": collective.ranks}
    answers["total"] = collective.total([0.1 + rank, 2.0**53 * rank + 1, -1.5])

    floats = [torch.arange(6.0).reshape(2, 3) * (rank + 1), torch.full((2, 3, 2, 2), float(rank))]
    floats[1] = floats[1].contiguous(memory_format=torch.channels_last)
    collective.average(floats)
    answers["average"] = [each.tolist() for each in floats]

    kinds = [torch.tensor([7 + rank]), torch.tensor([rank == 0]), torch.tensor([2.0**-24 + rank]).to(torch.bfloat16)]
    given = (torch.arange(24.0).reshape(2, 3, 2, 2) + 100 * rank).contiguous(memory_format=torch.channels_last)
    collective.broadcast([*kinds, given])
    answers["broadcast"] = [each.to(torch.float64).tolist() for each in [*kinds, given]]

    answers["met"] = door.count
    training = Training(collective)
    before = door.count
    training.backward()
    answers["met in a backward pass"] = door.count - before
    answers["gradients"] = training.gradients()
    training.exchange.update()
    answers["left of them"] = [each.grad is not None for each in training.network.parameters()]
    training.step()
    answers["communication"] = _late(here, training)
    training.exchange.update()
    answers["weights"] = training.weights()
    answers["traced"] = _traced(here, training)
    answers["overlapping"] = [_overlapping(collective, mode) for mode in (ExecutionMode(compiled=True), REGIONAL)]

    one = torch.ones(1)
    answers["through"] = {
        "total": here.others_get_through(lambda: collective.total([1.0]), "total"),
        "average": here.others_get_through(lambda: collective.average([one]), "average"),
        "broadcast": here.others_get_through(lambda: collective.broadcast([one]), "broadcast"),
        "backward": here.others_get_through(training.backward, "backward"),
    }
    training.exchange.close()
    return answers


def _overlapping(collective: Collective, mode: ExecutionMode) -> list[str]:
    """Return the order of events in a backward pass: compiled parts of the network begin, gradients are handed over."""
    if collective.ranks == 1:
        return []
    layers: list[Op] = [Convolution(256, 3, padding=1), *([BatchNormalisation()] if mode.regions else []), Relu()] * 4
    layers += [GlobalAveragePooling(), Dense(3), Softmax()]
    nodes = [Node("input", Input(1, 8, 8), ())]
    nodes += [Node(f"layer{number}", layer, (number,)) for number, layer in enumerate(layers)]
    network, (images, labels) = build(Graph(tuple(nodes))), batch()
    initialise(network, seed=0)
    Execution(network, mode, images, Precision("fp32", "cpu"), "aot_eager", collective.ranks)
    events: list[str] = []

    def told(hand_over: Callable[..., Any]) -> Callable[..., Any]:
        def tell(*arguments: Any) -> Any:
            events.append("exchange")
            return hand_over(*arguments)

        return tell

    hook = default_hooks.allreduce_hook
    default_hooks.allreduce_hook = told(hook)
    exchange = collective.exchange(network, EagerSgd(network.parameters(), lr=0.1), None, HostTimeline())
    default_hooks.allreduce_hook = hook
    optimiser: Any = exchange.optimiser
    if hasattr(optimiser, "_allreduce_grad_async"):
        optimiser._allreduce_grad_async = told(optimiser._allreduce_grad_async)
    for _ in range(2):  # DDP orders its buckets after the first step
        events.clear()
        loss = F.cross_entropy(exchange.module(images), labels)
        open_nodes: list[Any] = [loss.grad_fn]
        while open_nodes:
            node = open_nodes.pop()
            if "CompiledFunction" in type(node).__name__ or "_Region" in type(node).__name__:
                node.register_prehook(lambda gradients: events.append("part"))
            open_nodes += [before for before, _ in node.next_functions if before is not None]
        exchange.backward(loss)
        network.zero_grad(set_to_none=True)
    exchange.close()
    return events


def _late(here: Rank, training: Training) -> float | None:
    """Return the communication time of a step in which the last rank begins its backward pass with a delay."""
    collective = here.collective
    if collective.rank == 0 or collective.ranks == 1:
        here.door.act = lambda: here.say("waits")
    else:
        here.hears("waits")
        time.sleep(LATE_SECONDS)
    return training.backward()


def _traced(here: Rank, training: Training) -> dict[str, Any]:
    """Return the seconds by phase of traced steps, and the timeline if there is one."""
    timeline, is_first = here._folder / "timeline", here.collective.rank == 0
    if is_first:
        training.exchange.begin_trace(timeline)
    for _ in range(TRACED_STEPS):
        training.step()
    seconds = training.exchange.end_trace() if is_first else {}
    training.step()  # it is not traced
    return {"seconds": seconds, "timeline": timeline.read_text() if is_first and timeline.exists() else None}


def compressed(here: Rank) -> dict[str, Any]:
    """Exchange gradients in 16 bits, and report the error that the others receive when a rank is lost."""
    training = Training(here.collective)
    training.backward()
    answers: dict[str, Any] = {"gradients": training.gradients()}
    training.exchange.update()
    training.step()
    if here.collective.rank == here.collective.ranks - 1:
        (here._folder / f"answers-{here.collective.rank}").write_text(json.dumps(answers))
        here.hears("waits")
        os.kill(os.getpid(), signal.SIGKILL)
    here.door.act = lambda: here.say("waits")
    try:
        training.backward()
        answers["error"] = "none"
    except Exception as error:  # noqa: BLE001  # the test examines any error of the library
        answers["error"] = "of the exchange" if is_of_exchange(error) else repr(error)
    return answers


def main() -> None:
    name, rank, ranks, place, *fp16 = sys.argv[1:]
    torch.set_num_threads(1)
    here = Rank(name, int(rank), int(ranks), Path(place), fp16=bool(fp16))
    answers = compressed(here) if fp16 else carry_out(here)
    file = Path(place) / f"answers-{rank}"
    file.with_suffix(".draft").write_text(json.dumps(answers))
    file.with_suffix(".draft").rename(file)
    if fp16:
        os._exit(0)  # a thread of the library may wait for the dead rank without end
    here.collective.close()


if __name__ == "__main__":
    main()
