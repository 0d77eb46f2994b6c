"""From an order to a network on its device, with its weights, ready for the first step.

The graph is rebuilt from its lineage; weights come from the trial's own checkpoint, from its parent's through the weight plans
of its morphs, or from a seed. Rank 0 reads and makes them; the others are given them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aiperf.messages import Prepared, Train
from aiperf.seeds import derive
from aiperf.train.ceiling import DoesNotFit, check, rehearse
from aiperf.train.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, load
from aiperf.train.collective import Exchange, Scaler
from aiperf.train.initialise import initialise
from aiperf.train.module import Network, build
from aiperf.train.noise import break_symmetry
from aiperf.train.optimiser import give_momentum, momentum_of, sgd
from aiperf.train.place import Place
from aiperf.train.weights import carry_out
from morphism import Graph, WeightPlan, apply, decode_morph

_TIMED_STEPS = 3


class CheckpointMissing(Exception):
    """A checkpoint that the attempt needs is not there, or cannot be read."""

    def __init__(self, trial: int, reason: str) -> None:
        super().__init__(reason)
        self.trial = trial
        """Whose: the parent's number, or the trial's own."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A network that can be trained."""

    graph: Graph
    network: Network
    """As built: what evaluation calls."""
    exchange: Exchange
    scaler: Scaler | None
    batch: int
    """Per rank."""
    prepared: Prepared


def descend(
    start: Graph, lineage: Sequence[Mapping[str, Any]], morphs: Sequence[Mapping[str, Any]]
) -> tuple[Graph, Graph, list[WeightPlan]]:
    """The parent's graph, the trial's, and the plans from one to the other.

    Raises IllegalMorph or DamagedMorph where the lineage does not belong to this starting graph.
    """
    parent = start
    for morph in lineage:
        parent, _ = apply(parent, decode_morph(morph))
    graph, plans = parent, []
    for morph in morphs:
        graph, plan = apply(graph, decode_morph(morph))
        plans.append(plan)
    return parent, graph, plans


def prepare(order: Train, place: Place, epoch: int, batch: int, snapshot: Snapshot | None = None) -> Ready:
    """Makes the trial ready to begin `epoch` at `batch` images a rank.

    `snapshot`: where to go on from instead of the checkpoint of the epoch before (rank 0's, in memory).

    Raises DoesNotFit and CheckpointMissing, each on all ranks alike.
    """
    began = time.monotonic()
    place.life.beat(0, place.conf.start_seconds)
    place.data.prime_training(batch, **walk(place), epoch=epoch, seed=derive(order.seed, "order"))
    parent, graph, plans = descend(place.start, order.lineage, order.morphs)
    network = build(graph).to(place.device)
    if place.conf.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    built = time.monotonic()

    compiled = _rehearse(order, place, graph, network, epoch, batch)
    rehearsed = time.monotonic()

    optimiser = sgd(network, place.conf)
    scaler = place.precision.scaler()
    if epoch > 1 or snapshot is not None:
        _take_up(order, place, graph, network, optimiser, scaler, epoch, snapshot)
    else:
        _inherit(order, place, parent, plans, network)
    place.collective.broadcast([*network.state_dict().values()])
    exchange = place.collective.exchange(network, optimiser, scaler, place.timeline)
    return Ready(
        graph=graph,
        network=network,
        exchange=exchange,
        scaler=scaler,
        batch=batch,
        prepared=Prepared(
            trial=order.trial,
            attempt=order.attempt,
            precision=place.precision.name,
            ranks=place.collective.ranks,
            compiled=compiled,
            build_seconds=built - began,
            weights_seconds=time.monotonic() - rehearsed,
            compile_seconds=rehearsed - built,
        ),
    )


def walk(place: Place) -> dict[str, Any]:
    """The arguments that all passes of a rank have in common."""
    return {
        "rank": place.collective.rank,
        "ranks": place.collective.ranks,
        "device": place.device,
        "channels_last": place.conf.channels_last,
        "dtype": place.precision.dtype,
    }


def _rehearse(order: Train, place: Place, graph: Graph, network: Network, epoch: int, batch: int) -> bool:
    """Finds out whether the batch fits, and compiles where it was chosen or pays; whether it is compiled.

    Before weights are given, so that running statistics need not be mended. On a CPU that does not compile, nothing runs.
    """

    def run() -> None:
        rehearse(network, graph, batch, place.device, place.precision, channels_last=place.conf.channels_last)

    on_cuda = place.device.type == "cuda"
    fits = True
    try:
        check(graph, batch, place.precision, place.memory_bytes)
        if on_cuda:
            run()
    except (DoesNotFit, torch.cuda.OutOfMemoryError):
        fits = False
    if not place.all_agree(fits):
        network.zero_grad(set_to_none=True)
        raise DoesNotFit(f"batch {batch} of trial {order.trial} does not fit")
    match place.conf.compile:
        case "on":
            network.compile(dynamic=False)
            run()
            return True
        case "auto" if on_cuda:
            steps = (order.last_epoch - epoch + 1) * -(-place.data.training_images // (batch * place.collective.ranks))
            eager = _timed(place, run)
            # rank 0 decides for all: their clocks differ
            if place.collective.total([float(place.is_first and place.compiling.pays(eager, steps))])[0] == 0.0:
                return False
            began = time.monotonic()
            network.compile(dynamic=False)
            run()
            place.timeline.anchor()
            seconds = time.monotonic() - began
            place.compiling = place.compiling.learn(seconds, eager, _timed(place, run))
            if place.collective.total([float(place.is_first and place.compiling.gain > 1.0)])[0] == 0.0:
                network._compiled_call_impl = None  # what nn.Module.compile sets, torch 2.13: eager again
                return False
            return True
        case _:
            return False


def _timed(place: Place, run: Callable[[], None]) -> float:
    """Seconds of one run, of three."""
    begin = place.timeline.mark()
    for _ in range(_TIMED_STEPS):
        run()
    end = place.timeline.mark()
    return (place.timeline.second(end) - place.timeline.second(begin)) / _TIMED_STEPS


def _inherit(order: Train, place: Place, parent: Graph, plans: Sequence[WeightPlan], network: Network) -> None:
    """The parent's weights through the plans, or fresh ones through them; rank 0 only, the others are given them later."""
    problem: str | None = None
    if place.is_first:
        try:
            state: Mapping[str, Tensor]
            if order.parent is None:
                ancestor = build(parent)
                initialise(ancestor, derive(order.seed, "weights"))
                state = ancestor.state_dict()
            else:
                assert place.writer is not None
                place.writer.settle()  # it may be the trial that this worker trained before
                state = load(place.writer.folder, order.parent, parent.fingerprint).weights
            for number, plan in enumerate(plans):
                state = carry_out(plan, state, derive(order.seed, "plan", number))
                state = break_symmetry(state, plan, derive(order.seed, "noise", number))
            network.load_state_dict(state)
        except (NoCheckpoint, DamagedCheckpoint) as error:
            problem = str(error)
    if not place.all_agree(problem is None):
        assert order.parent is not None, problem
        raise CheckpointMissing(order.parent, problem or "said by rank 0")


def _take_up(
    order: Train,
    place: Place,
    graph: Graph,
    network: Network,
    optimiser: torch.optim.SGD,
    scaler: Scaler | None,
    epoch: int,
    snapshot: Snapshot | None,
) -> None:
    """Weights, momentum and the loss scale after the epoch before."""
    problem: str | None = None
    if place.is_first:
        try:
            if snapshot is None:
                assert place.writer is not None
                place.writer.settle()
                snapshot = load(place.writer.folder, order.trial, graph.fingerprint, epoch - 1)
            network.load_state_dict(snapshot.weights)
            give_momentum(optimiser, network, snapshot.momentum)
            if scaler is not None:
                scaler.load_state_dict(dict(snapshot.scaler))
        except (NoCheckpoint, DamagedCheckpoint) as error:
            problem = str(error)
    if not place.all_agree(problem is None):
        raise CheckpointMissing(order.trial, problem or "said by rank 0")
    if place.collective.ranks > 1:
        if not place.is_first:
            zeros = {name: torch.zeros_like(parameter) for name, parameter in network.named_parameters()}
            give_momentum(optimiser, network, zeros)
        place.collective.broadcast([*momentum_of(optimiser, network).values()])
        if scaler is not None:
            scale = place.collective.total([scaler.get_scale() if place.is_first else 0.0])[0]
            scaler.update(scale)
