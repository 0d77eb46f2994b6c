"""Accelerators, memory and cores of the workers of a Ray cluster, for the plan of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.config import ALL, RunConf
from aiperf.drive.ray.cluster.daemons import Runtime
from aiperf.drive.ray.ray_worker import last_line
from aiperf.drive.ray.slots import Slot, slots
from aiperf.errors import NoWorkers
from aiperf.journal.events import WorkerShape
from aiperf.planning.worker_shape import common, shape_of, together
from aiperf.system.describe import HostDescription, describe, describe_usable
from aiperf.train.trainer_config import ranks_of_hosts

PROBE_SECONDS = 120.0
"""Maximum time for a node's description. Workers on nodes without one use the plan of the others."""


@ray.remote(num_cpus=0)
def _described() -> HostDescription:
    return describe()


def learn(conf: RunConf, excluded: Collection[str] = ()) -> WorkerShape:
    """Return the common properties of the workers on all nodes: least memory and cores, ranks and accelerators of the widest.

    The widest worker has the most ranks. `excluded`: Ray's identifiers of nodes that must hold no worker. `ray.init` must
    have been called. Each node is asked for its description, for at most 120 s. Up to 8 nodes without an answer are named in
    the result's `source`.

    Raises:
        NoWorkers: no node can hold a worker, or none answers.
        BadConfiguration: the nodes cannot hold a worker of this configuration.
    """
    of_node: dict[str, Slot] = {}
    for slot in _wanted(conf, excluded):
        of_node.setdefault(slot.node, slot)
    own = ray.get_runtime_context().get_node_id() if Runtime.of_this_process().is_own else ""
    shares = [share for slot in of_node.values() for share in slot.shares]
    # This process knows the node of its own Ray, so no task is needed, which would delay the worker's actor.
    # An existing Ray cluster may give its processes other limits than those of this process.
    systems: dict[str, HostDescription] = {own: describe_usable()} if any(share.node == own for share in shares) else {}
    asked = {_ask(share.node): share for share in shares if share.node != own}
    done = ray.wait([*asked], num_returns=len(asked), timeout=PROBE_SECONDS)[0] if asked else []
    silent = [share.address for call, share in asked.items() if call not in done]
    for call in done:
        try:
            systems[asked[call].node] = ray.get(call)
        except RayError as error:
            silent.append(f"{asked[call].address} ({last_line(error)})")
    complete = [slot for slot in of_node.values() if all(share.node in systems for share in slot.shares)]
    shapes = [_shape(conf, slot, systems) for slot in complete]
    if not shapes:
        raise NoWorkers(
            f"the plan needs a description of the workers' nodes, but none answered: {', '.join(silent)}. "
            "Check that these hosts are up and can be reached from the head"
        )
    if len(shapes) == 1 and not silent:
        return shapes[0]
    source = f"{len(shapes)} nodes" + (f"; {len(silent)} did not answer: {', '.join(silent[:8])}" if silent else "")
    return common(shapes, source)


def _shape(conf: RunConf, slot: Slot, systems: Mapping[str, HostDescription]) -> WorkerShape:
    shares = slot.shares
    own = conf.trainer
    if len(shares) > 1:
        # raises BadConfiguration if the ranks do not divide
        ranks_of_hosts(own, [(share.accelerators, share.cores) for share in shares])
        own = own if own.ranks is None else replace(own, ranks=own.ranks // len(shares))
    shapes = [
        shape_of(
            systems[share.node],
            share.accelerators,
            share.cores,
            own,
            conf.budget.memory_bytes,
            f"{systems[share.node].host}, {share.address}",
        )
        for share in shares
    ]
    return shapes[0] if len(shapes) == 1 else together(shapes, "; ".join(shape.source for shape in shapes))


def _wanted(conf: RunConf, excluded: Collection[str]) -> Sequence[Slot]:
    each = conf.accelerators_per_worker
    available = slots(ray.nodes(), each, excluded=excluded)  # type: ignore[no-untyped-call]
    if not available.wanted:
        wanted = "processors" if each is None or each == ALL else f"{each} accelerators (accelerators_per_worker)"
        small = "".join(f"; {address}: {why}" for address, why in available.too_small.items())
        raise NoWorkers(
            f"a run needs at least one worker, but none of {len(available.alive)} nodes has {wanted} for one{small}. "
            "Add nodes, or lower accelerators_per_worker"
        )
    return available.wanted


def _ask(node: str) -> ray.ObjectRef[HostDescription]:
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    call: ray.ObjectRef[HostDescription] = _described.options(scheduling_strategy=here).remote()
    return call
