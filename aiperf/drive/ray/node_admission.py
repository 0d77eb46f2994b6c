"""Nodes of a Ray cluster for the plan of a run, and their admission: a worker needs a node without a fault in preflight."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.config import ALL, RunConf
from aiperf.drive.preflight import PreflightResult, changed_files, nobody_left, node_checks
from aiperf.drive.ray.cluster.daemons import Runtime, in_background
from aiperf.drive.ray.inspection import START, NodeInspection, Show, silent
from aiperf.drive.ray.ray_worker import last_line
from aiperf.drive.ray.slots import Slot, Slots, slots
from aiperf.errors import NoWorkers
from aiperf.journal.events import NodeChecked, WorkerShape
from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.planning.worker_shape import common, shape_of, together
from aiperf.preflight import PreflightConf
from aiperf.system.describe import HostDescription, describe, describe_usable
from aiperf.train.trainer_config import ranks_of_hosts

CLOSE_SECONDS = 30.0
Node = Mapping[str, Any]
Inspect = Callable[[Sequence[Node], Show], list[NodeReadings]]
"""Function that measures nodes, and shows the probe in progress."""
PROBE_SECONDS = 120.0
"""Maximum time for a node's description. Workers on nodes without one use the plan of the others."""


def check_nodes(conf: RunConf, parent: Path, show: Show, *, is_full: bool) -> PreflightResult:
    """Measure all nodes of the connected Ray cluster and judge them (preflight)."""
    head = ray.get_runtime_context().get_node_id()
    inspection = NodeInspection(conf.preflight, conf.dataset, conf.trainer, parent, head, is_full)
    nodes: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return checked_by(inspection.of, nodes, conf.preflight, conf.accelerators_per_worker, inspection.stop, show)


def checked_by(
    inspect: Inspect,
    nodes: Sequence[Node],
    conf: PreflightConf,
    accelerators_per_worker: int | str | None,
    stop: Callable[[], None] = lambda: None,
    show: Show = silent,
) -> PreflightResult:
    """Measure `nodes` by the function `inspect` and judge them."""
    measured = inspect(nodes, show)
    events = node_checks(measured, measured, conf)
    excluded = frozenset(one.node for one, event in zip(measured, events, strict=True) if event.excluded)
    wanted = slots(nodes, accelerators_per_worker).wanted
    places = {share.node: share.address for slot in wanted for share in slot.shares}
    if (error := changed_files(events) or nobody_left(places, excluded, events)) is not None:
        raise error
    # a node that joins later must not stop the run
    late = replace(conf, broken="exclude") if conf.broken == "stop" else conf
    by_node = {one.node: one for one in measured}
    return PreflightResult(events, excluded, NodeAdmission(inspect, late, by_node, excluded, stop))


def _unmeasured(node: Node, why: str) -> NodeReadings:
    address = str(node["NodeManagerAddress"])
    reading = ProbeReading(probe=START, unit="", failed=why)
    return NodeReadings(
        node=str(node["NodeID"]), address=address, host=address, kind="", is_head=False, readings={START: reading}
    )


@dataclass(slots=True)
class NodeAdmission:
    """Check of nodes that join the Ray cluster during a run, before workers are placed on them."""

    inspect: Inspect
    conf: PreflightConf
    measured: dict[str, NodeReadings]
    """By Ray's identifier."""
    excluded: frozenset[str]
    """Ray's identifiers of nodes that must hold no worker."""
    stop: Callable[[], None] = lambda: None
    _checked: Sequence[Node] = ()
    """Nodes of the check in progress, and its future result."""
    _readings: Future[list[NodeReadings]] | None = None

    def look(self, nodes: Sequence[Node], slots: Slots) -> tuple[Slots, list[NodeChecked]]:
        """Return admitted places and new events. Unchecked nodes are measured in a background thread, one check at a time."""
        inspected = self._results(slots)
        unknown = {share.node for slot in slots.wanted for share in slot.shares} - self.measured.keys()
        if unknown and self._readings is None:
            self._checked = [node for node in nodes if node["NodeID"] in unknown]
            self._readings = in_background(partial(self.inspect, self._checked, silent), "preflight")
        kept_out = self.excluded | unknown
        allowed = (slot for slot in slots.wanted if not any(share.node in kept_out for share in slot.shares))
        return replace(slots, wanted=tuple(allowed)), inspected

    def close(self) -> None:
        """End the check in progress, if any, and wait up to 30 s for it."""
        if self._readings is not None:
            self.stop()
            wait([self._readings], CLOSE_SECONDS)

    def _results(self, slots: Slots) -> list[NodeChecked]:
        if self._readings is None or not self._readings.done():
            return []
        checked, self._readings = self._readings, None
        if (error := checked.exception()) is None:
            measured = checked.result()
        else:  # a node that could not be checked holds no worker, and the run goes on
            why = f"preflight itself failed: {' '.join(str(error).split()) or type(error).__name__}"
            measured = [_unmeasured(node, why) for node in self._checked]
        measured = [one for one in measured if one.node in slots.alive]  # nodes that were lost meanwhile are ignored
        self.measured |= {one.node: one for one in measured}
        events = node_checks(measured, list(self.measured.values()), self.conf)
        self.excluded |= {one.node for one, event in zip(measured, events, strict=True) if event.excluded}
        return list(events)


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
