"""From an order to a network on its device, with its weights, ready for the first step.

The graph is rebuilt from its lineage; weights come from the trial's own checkpoint, from its parent's through the weight plans
of its morphs, or from a seed. Rank 0 reads and makes them; the others are given them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aiperf.journal.messages import Prepared, Train
from aiperf.rng import derive
from aiperf.train.ceiling import DoesNotFit, blank, check, rehearse, rehearse_eager_passes
from aiperf.train.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, load
from aiperf.train.collectives.collective import Exchange, Scaler
from aiperf.train.execution import Execution, choose
from aiperf.train.footprint import CudaMemory, beside_a_step, fits
from aiperf.train.initialise import initialise
from aiperf.train.module import Network, build
from aiperf.train.optimiser import give_momentum, momentum_of, sgd
from aiperf.train.rank_context import RankContext
from aiperf.train.stages import Stage
from aiperf.train.symmetry_noise import break_symmetry
from aiperf.train.weights import carry_out
from morphism import Graph, Lineage, WeightPlan, apply, decode_morph, rebuild


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
    execution: Execution
    scaler: Scaler | None
    batch: int
    """Per rank."""
    prepared: Prepared

    def close(self) -> None:
        """The trial is over: what it took dies with this object."""
        self.exchange.close()
        self.execution.close()


def descend(
    start: Graph, lineage: Sequence[Mapping[str, Any]], morphs: Sequence[Mapping[str, Any]]
) -> tuple[Graph, Graph, list[WeightPlan]]:
    """The parent's graph, the trial's, and the plans from one to the other.

    Raises IllegalMorph or DamagedMorph where the lineage does not belong to this starting graph.
    """
    at = Lineage(start, tuple(decode_morph(morph) for morph in lineage))
    parent = graph = rebuild(at)
    plans = []
    for morph in map(decode_morph, morphs):
        _, plan = apply(graph, morph)
        plans.append(plan)
        at = at.then(morph)
        graph = rebuild(at)  # which its children's orders find remembered
    return parent, graph, plans


def prepare(order: Train, context: RankContext, epoch: int, batch: int, snapshot: Snapshot | None = None) -> Ready:
    """Makes the trial ready to begin `epoch` at `batch` images a rank.

    `snapshot`: where to go on from instead of the checkpoint of the epoch before (rank 0's, in memory).

    Raises DoesNotFit and CheckpointMissing, each on all ranks alike.
    """
    began = time.monotonic()
    context.liveness.beat(0, Stage.BUILD, context.conf.start_seconds)
    context.data.prime_training(batch, **walk(context), epoch=epoch, seed=derive(order.seed, "order"))
    parent, graph, plans = descend(context.start, order.lineage, order.morphs)
    check(graph, batch, context.precision, context.memory_bytes)
    network = build(graph).to(context.device)
    if context.conf.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    built = time.monotonic()

    context.liveness.enter(Stage.LAUNCH, context.conf.start_seconds)
    execution = _rehearse(order, context, graph, network, epoch, batch)
    rehearsed = time.monotonic()

    context.liveness.enter(Stage.WEIGHTS, context.conf.start_seconds)
    optimiser = sgd(network, context.conf)
    scaler = context.precision.scaler()
    if epoch > 1 or snapshot is not None:
        _take_up(order, context, graph, network, optimiser, scaler, epoch, snapshot)
    else:
        _inherit(order, context, parent, plans, network)
    exchange = context.collective.exchange(network, optimiser, scaler, context.timeline)
    return Ready(
        graph=graph,
        network=network,
        exchange=exchange,
        execution=execution,
        scaler=scaler,
        batch=batch,
        prepared=Prepared(
            trial=order.trial,
            attempt=order.attempt,
            precision=context.precision.name,
            ranks=context.collective.ranks,
            compiled=execution.mode.compiled,
            cuda_graphs=execution.mode.cuda_graphs,
            fused=execution.mode.fused,
            build_seconds=built - began,
            weights_seconds=time.monotonic() - rehearsed,
            compile_seconds=rehearsed - built,
        ),
    )


def walk(context: RankContext) -> dict[str, Any]:
    """The arguments that all passes of a rank have in common."""
    return {
        "rank": context.collective.rank,
        "ranks": context.collective.ranks,
        "device": context.device,
        "channels_last": context.conf.channels_last,
        "dtype": context.precision.dtype,
    }


def _rehearse(order: Train, context: RankContext, graph: Graph, network: Network, epoch: int, batch: int) -> Execution:
    """Finds out whether the batch fits, and how its steps are best launched.

    Before weights are given, so that running statistics need not be restored. On a CPU that does not compile, nothing runs.
    """
    images = blank(graph, batch, context.device, context.precision, channels_last=context.conf.channels_last)

    def run() -> None:
        rehearse(network, images, context.precision)

    if context.device.type == "cuda":
        held = beside_a_step(graph, batch, context.precision.bytes_per_element, context.collective.ranks)
        if not context.all_agree(fits(run, held, CudaMemory(context.device))):
            network.zero_grad(set_to_none=True)
            raise DoesNotFit(f"batch {batch} of trial {order.trial} does not fit")

    def beside() -> None:
        rehearse_eager_passes(network, images, _last_share(context, batch), context.precision)

    ahead = (order.last_epoch - epoch + 1) * len(context.data.training_steps(batch, context.collective.ranks))
    return choose(network, images, context, run, ahead, beside)


def _last_share(context: RankContext, batch: int) -> int:
    """Images of a training step of this rank that is no whole batch, as there is one in a set of fewer images; else 0."""
    rank, ranks = context.collective.rank, context.collective.ranks
    shares = [step.share(rank, ranks) for step in context.data.training_steps(batch, ranks)[-1:]]
    return max((count for share in shares if (count := share.stop - share.start) < batch), default=0)


def _inherit(order: Train, context: RankContext, parent: Graph, plans: Sequence[WeightPlan], network: Network) -> None:
    """The parent's weights through the plans, or fresh ones through them, on every rank."""

    def read() -> None:
        state: Mapping[str, Tensor]
        if order.parent is None:
            ancestor = build(parent)
            initialise(ancestor, derive(order.seed, "weights"))
            state = ancestor.state_dict()
        else:
            assert context.writer is not None
            state = context.writer.final_weights(order.parent, parent.fingerprint)
        for number, plan in enumerate(plans):
            state = carry_out(plan, state, derive(order.seed, "plan", number))
            state = break_symmetry(state, plan, derive(order.seed, "noise", number))
        network.load_state_dict(state)

    _from_first_rank(context, order.parent, read, lambda: network.state_dict().values())


def _take_up(
    order: Train,
    context: RankContext,
    graph: Graph,
    network: Network,
    optimiser: torch.optim.SGD,
    scaler: Scaler | None,
    epoch: int,
    snapshot: Snapshot | None,
) -> None:
    """Weights, momentum and the loss scale after the epoch before, on every rank."""

    def read() -> None:
        taken = snapshot
        if taken is None:
            assert context.writer is not None
            context.writer.settle()
            taken = load(context.writer.folder, order.trial, graph.fingerprint, epoch - 1)
        network.load_state_dict(taken.weights)
        give_momentum(optimiser, network, taken.momentum)
        if scaler is not None:
            scaler.load_state_dict(dict(taken.scaler))

    zeros = {name: torch.zeros_like(parameter) for name, parameter in network.named_parameters()}
    give_momentum(optimiser, network, zeros)
    _from_first_rank(
        context,
        order.trial,
        read,
        lambda: [*network.state_dict().values(), *momentum_of(optimiser, network).values()],
    )
    if scaler is not None:
        own = scaler.state_dict()
        told = context.collective.total([float(value) if context.is_first else 0.0 for value in own.values()])
        scaler.load_state_dict({name: type(own[name])(value) for name, value in zip(own, told, strict=True)})


def _from_first_rank(
    context: RankContext, trial: int | None, read: Callable[[], None], tensors: Callable[[], Iterable[Tensor]]
) -> None:
    """Rank 0 reads, into `tensors`; the others are given what it has. Raises CheckpointMissing, of `trial`, on all alike."""
    problem = ""
    if context.is_first:
        try:
            read()
        except (NoCheckpoint, DamagedCheckpoint) as error:
            problem = str(error)
    # told along with the values, since each word between the ranks costs milliseconds
    is_missing = torch.full((), float(problem != ""), device=context.device)
    context.collective.broadcast([is_missing, *tensors()])
    if is_missing.item():
        assert trial is not None, problem
        raise CheckpointMissing(trial, problem or "said by rank 0")
