"""Admission of Ray nodes to a run: a node may hold a worker only if preflight found no fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import ray

from aiperf.config import RunConf
from aiperf.drive.preflight import PreflightResult, nobody_left, node_checks
from aiperf.drive.ray.cluster.daemons import in_background
from aiperf.drive.ray.inspection import START, NodeInspection, Show, silent
from aiperf.drive.ray.slots import Slots, slots
from aiperf.journal.events import NodeChecked
from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.preflight.preflight_config import PreflightConf

CLOSE_SECONDS = 30.0
Node = Mapping[str, Any]
Inspect = Callable[[Sequence[Node], Show], list[NodeReadings]]
"""Function that measures nodes, and shows the probe in progress."""


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
    if (error := nobody_left(places, excluded, events)) is not None:
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
        """Return (places on checked nodes that are not excluded, events of nodes checked since the last call).

        Nodes with a place that were never checked are measured in a background thread, unless a check is in progress.
        """
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
            found = checked.result()
        else:  # a node that could not be checked holds no worker, and the run goes on
            why = f"preflight itself failed: {' '.join(str(error).split()) or type(error).__name__}"
            found = [_unmeasured(node, why) for node in self._checked]
        found = [one for one in found if one.node in slots.alive]  # nodes that were lost meanwhile are ignored
        self.measured |= {one.node: one for one in found}
        events = node_checks(found, list(self.measured.values()), self.conf)
        self.excluded |= {one.node for one, event in zip(found, events, strict=True) if event.excluded}
        return list(events)
