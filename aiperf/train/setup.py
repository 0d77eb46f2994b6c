"""Preparation of a trial: from the order to a network on its device, with the weights of rank 0, ready for the first step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.data.batches import RankBatches
from aiperf.journal.events import TrialPrepared
from aiperf.journal.messages import Train
from aiperf.rng import derive
from aiperf.train import memory_limits
from aiperf.train.checkpoints.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, load
from aiperf.train.collectives.collective import Exchange, Scaler
from aiperf.train.execution import Execution, fastest, of_first_rank, timed
from aiperf.train.heartbeat import Stage
from aiperf.train.optimiser import initial_state, load_state, optimiser_of, state_by_name
from aiperf.train.rank_context import RankContext
from aiperf.train.torch_network import Network, break_symmetry, carry_out, placed
from morphism import Architecture, Graph, Lineage, WeightPlan, apply, decode_morph, rebuild

SEARCH_FROM_SECONDS = 300.0
"""Shortest trial, in seconds of training steps, before which cuDNN searches for algorithms. A search takes seconds per size."""


class CheckpointMissing(Exception):
    """Error for a checkpoint that the trial needs and that does not exist or cannot be read."""

    def __init__(self, trial: int, reason: str) -> None:
        super().__init__(reason)
        self.trial = trial
        """Trial of the checkpoint: the parent's number, or the trial's own."""


@dataclass(frozen=True, slots=True)
class PreparedNetwork:
    """Network that is ready for its first training step, with its optimiser, exchange and execution mode."""

    architecture: Architecture
    network: nn.Module
    """Network as built. Evaluation calls it."""
    exchange: Exchange
    execution: Execution
    scaler: Scaler | None
    batch: int
    """Images per rank."""
    prepared: TrialPrepared

    def close(self) -> None:
        self.exchange.close()
        self.execution.close()


def descend(
    start: Architecture, lineage: Sequence[Mapping[str, Any]], morphs: Sequence[Mapping[str, Any]]
) -> tuple[Architecture, Architecture, list[WeightPlan]]:
    """Return (parent's architecture, trial's architecture, weight plans from parent to trial, one per morph).

    `lineage`: encoded morphs from `start` to the parent. A detector has no plans. Raise IllegalMorph or DamagedMorph if the
    lineage does not belong to this starting network.
    """
    if not isinstance(start, Graph):
        return start, start, []
    at = Lineage(start, tuple(decode_morph(morph) for morph in lineage))
    parent = graph = rebuild(at)
    plans = []
    for morph in map(decode_morph, morphs):
        _, plan = apply(graph, morph)
        plans.append(plan)
        at = at.then(morph)
        graph = rebuild(at)  # cached for the orders of its children
    return parent, graph, plans


def prepare(
    order: Train, context: RankContext, epoch: int, batch: int, snapshot: Snapshot | None = None
) -> PreparedNetwork:
    """Return the network of a trial with weights, ready to begin `epoch`. All ranks must call it.

    `snapshot`: state in memory to continue from, on rank 0. Default: the checkpoint of the previous epoch, for epoch 1 the
    parent's weights or initial ones. Raise DoesNotFit, ModeUnavailable or CheckpointMissing on all ranks.
    """
    began = time.monotonic()
    context.liveness.beat(0, Stage.BUILD, context.conf.start_seconds)
    context.data.prime_training(batch, **walk(context), epoch=epoch, seed=derive(order.seed, "order"))
    parent, architecture, plans = descend(context.start, order.lineage, order.morphs)
    memory_limits.check(architecture, batch, context.precision, context.memory_bytes)
    network = context.task.build(architecture)
    with context.liveness.device_wait():
        placed(network, context.device, channels_last=context.conf.channels_last)
    built = time.monotonic()

    context.liveness.enter(Stage.LAUNCH, context.conf.start_seconds)
    execution = _rehearse(order, context, architecture, network, epoch, batch)
    rehearsed = time.monotonic()

    context.liveness.enter(Stage.WEIGHTS, context.conf.start_seconds)
    optimiser = optimiser_of(network, context.conf)
    load_state(optimiser, network, initial_state(network, context.conf))
    scaler = context.scaler()
    if epoch > 1 or snapshot is not None:
        _resume(order, context, architecture, network, optimiser, scaler, epoch, snapshot)
    else:
        _inherit(order, context, parent, plans, network)
    exchange = context.collective.exchange(network, optimiser, scaler, context.timeline)
    return PreparedNetwork(
        architecture=architecture,
        network=network,
        exchange=exchange,
        execution=execution,
        scaler=scaler,
        batch=batch,
        prepared=TrialPrepared(
            trial=order.trial,
            attempt=order.attempt,
            precision=context.precision.name,
            ranks=context.collective.ranks,
            compiled=execution.mode.compiled,
            cuda_graphs=execution.mode.cuda_graphs,
            regions=execution.mode.regions,
            build_seconds=built - began,
            weights_seconds=time.monotonic() - rehearsed,
            compile_seconds=rehearsed - built,
        ),
    )


def walk(context: RankContext) -> RankBatches:
    """Keyword arguments for `OpenData.training` and `validation`."""
    return {
        "rank": context.collective.rank,
        "ranks": context.collective.ranks,
        "device": context.device,
        "channels_last": context.conf.channels_last,
        "dtype": context.precision.dtype,
        "waiting": context.liveness.device_wait,
    }


def _rehearse(
    order: Train, context: RankContext, graph: Architecture, network: nn.Module, epoch: int, batch: int
) -> Execution:
    """It runs before the weights are loaded, so that running statistics need not be restored."""
    images = context.task.blank(
        graph, batch, context.device, context.precision, channels_last=context.conf.channels_last
    )
    if images is None:
        return Execution.eager(network, context.precision)
    assert isinstance(graph, Graph) and isinstance(network, Network)

    def run() -> None:
        memory_limits.rehearse(network, images, context.precision)

    ahead = (order.last_epoch - epoch + 1) * len(context.data.training_steps(batch, context.collective.ranks))
    if context.device.type == "cuda":
        other_bytes = memory_limits.bytes_outside_a_step(
            graph, batch, context.precision.bytes_per_element, context.collective.ranks
        )

        def fit() -> None:
            with context.liveness.device_wait():
                full = memory_limits.shortage(run, other_bytes, memory_limits.CudaMemory(context.device))
            if not context.all_agree(full is None):
                network.zero_grad(set_to_none=True)
                raise memory_limits.DoesNotFit(
                    "another rank of the worker reported it" if full is None else full.removeprefix(": ")
                )

        torch.backends.cudnn.benchmark = False
        fit()
        if of_first_rank(context, timed(context, run, 1)) * ahead >= SEARCH_FROM_SECONDS:
            torch.backends.cudnn.benchmark = True
            fit()  # other algorithms need other memory

    def eager_passes() -> None:
        memory_limits.rehearse_eager_passes(network, images, _last_share(context, batch), context.precision)

    return fastest(context.modes, network, images, context, run, ahead, eager_passes)


def _last_share(context: RankContext, batch: int) -> int:
    """Images of this rank in a training step that is smaller than a whole batch. 0 if there is none."""
    rank, ranks = context.collective.rank, context.collective.ranks
    shares = [step.share(rank, ranks) for step in context.data.training_steps(batch, ranks)[-1:]]
    return max((count for share in shares if (count := share.stop - share.start) < batch), default=0)


def _inherit(
    order: Train, context: RankContext, parent: Architecture, plans: Sequence[WeightPlan], network: nn.Module
) -> None:
    def read() -> None:
        state: Mapping[str, Tensor]
        if order.parent is None:
            state = context.task.initial_network(parent, derive(order.seed, "weights")).state_dict()
        else:
            assert context.writer is not None
            state = context.writer.final_weights(order.parent, parent.fingerprint)
        for number, plan in enumerate(plans):
            state = carry_out(plan, state, derive(order.seed, "plan", number))
            state = break_symmetry(state, plan, derive(order.seed, "noise", number))
        with context.liveness.device_wait():
            network.load_state_dict(state)

    _from_first_rank(context, order.parent, read, lambda: network.state_dict().values())


def _resume(
    order: Train,
    context: RankContext,
    architecture: Architecture,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    scaler: Scaler | None,
    epoch: int,
    snapshot: Snapshot | None,
) -> None:
    def read() -> None:
        taken = snapshot
        if taken is None:
            assert context.writer is not None
            context.writer.settle()
            taken = load(context.writer.folder, order.trial, architecture.fingerprint, epoch - 1)
        with context.liveness.device_wait():
            network.load_state_dict(taken.weights)
            load_state(optimiser, network, taken.optimiser)
        if scaler is not None:
            scaler.load_state_dict(dict(taken.scaler))

    _from_first_rank(
        context,
        order.trial,
        read,
        lambda: [*network.state_dict().values(), *state_by_name(optimiser, network).values()],
    )
    if scaler is not None:
        own = scaler.state_dict()
        received = context.collective.total([float(value) if context.is_first else 0.0 for value in own.values()])
        scaler.load_state_dict({name: type(own[name])(value) for name, value in zip(own, received, strict=True)})


def _from_first_rank(
    context: RankContext, trial: int | None, read: Callable[[], None], tensors: Callable[[], Iterable[Tensor]]
) -> None:
    """Run `read` on rank 0, which fills `tensors`, and broadcast them. Raise CheckpointMissing on all ranks."""
    problem = ""
    if context.is_first:
        try:
            read()
        except (NoCheckpoint, DamagedCheckpoint) as error:
            problem = str(error)
    # sent with the values, because each exchange between ranks costs milliseconds
    is_missing = torch.full((), float(problem != ""), device=context.device)
    context.collective.broadcast([is_missing, *tensors()])
    context.timeline.anchor()
    if is_missing.item():
        assert trial is not None, problem
        raise CheckpointMissing(trial, problem or "reported by rank 0")
