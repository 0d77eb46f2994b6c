"""Admission of nodes: a node may hold a worker only if preflight found no fault.

Nodes that join later are checked during training.

Late nodes are checked in a thread. The executor polls the gate and never waits for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from aiperf.config import RunConf
from aiperf.drive.preflight import PreflightResult, nobody_left, node_checks
from aiperf.drive.ray.inspection import NodeInspection
from aiperf.drive.ray.inspector import START
from aiperf.drive.ray.slots import Slots, slots
from aiperf.journal.events import NodeChecked
from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.preflight.preflight_config import PreflightConf

CLOSE_SECONDS = 30.0
Node = Mapping[str, Any]
Inspect = Callable[[Sequence[Node], Node | None], list[NodeReadings]]
"""Function that measures nodes. The second argument is a partner that was checked before, or None."""


def check_nodes(conf: RunConf, parent: Path, *, is_full: bool) -> PreflightResult:
    """Check the nodes of the Ray cluster that this process is connected to.

    Raises:
        NoWorkers: no node is left, or a node has a fault and preflight.broken=stop.
    """
    head = ray.get_runtime_context().get_node_id()
    inspection = NodeInspection(conf.preflight, conf.dataset, conf.trainer, parent, head, is_full)
    nodes: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return checked_by(inspection.of, nodes, conf.preflight, conf.accelerators_per_worker, inspection.stop)


def checked_by(
    inspect: Inspect,
    nodes: Sequence[Node],
    conf: PreflightConf,
    accelerators_per_worker: int | str | None,
    stop: Callable[[], None] = lambda: None,
) -> PreflightResult:
    """Check these nodes, and return the gate for later ones. `stop` ends a check in progress."""
    measured = inspect(nodes, None)
    events = node_checks(measured, measured, conf)
    excluded = frozenset(one.node for one, event in zip(measured, events, strict=True) if event.excluded)
    wanted = slots(nodes, accelerators_per_worker).wanted
    places = {share.node: share.address for slot in wanted for share in slot.shares}
    if (error := nobody_left(places, excluded, events)) is not None:
        raise error
    partner = next((node for node in nodes if node["NodeID"] not in excluded), None)
    # a node that joins later must not stop the run
    late = replace(conf, broken="exclude") if conf.broken == "stop" else conf
    return PreflightResult(events, excluded, RayNodeAdmission(inspect, late, measured, excluded, partner, stop))


def without(slots: Slots, kept_out: Collection[str]) -> Slots:
    """The places on all other nodes."""
    return replace(
        slots, wanted=tuple(slot for slot in slots.wanted if not any(share.node in kept_out for share in slot.shares))
    )


def _unmeasured(node: Node, why: str) -> NodeReadings:
    address = str(node["NodeManagerAddress"])
    reading = ProbeReading(probe=START, unit="", failed=why)
    return NodeReadings(
        node=str(node["NodeID"]), address=address, host=address, kind="", is_head=False, readings={START: reading}
    )


class RayNodeAdmission:
    """Used from one thread, the driver's."""

    def __init__(
        self,
        inspect: Inspect,
        conf: PreflightConf,
        measured: Sequence[NodeReadings],
        excluded: Collection[str],
        partner: Node | None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._inspect = inspect
        self._conf = conf
        self._measured = {one.node: one for one in measured}
        self._excluded = set(excluded)
        self._partner = partner
        self._stop = stop
        self._thread: threading.Thread | None = None
        self._under_way: set[str] = set()
        self._found: queue.SimpleQueue[list[NodeReadings]] = queue.SimpleQueue()

    @property
    def excluded(self) -> AbstractSet[str]:
        """Ray's identifiers of nodes that must hold no worker."""
        return self._excluded

    def look(self, nodes: Sequence[Node], slots: Slots) -> tuple[Slots, list[NodeChecked]]:
        """Return the places that may be used now, and the results of newly checked nodes.

        Start a check of unknown nodes.
        """
        inspected = self._results(slots)
        unknown = {share.node for slot in slots.wanted for share in slot.shares} - self._measured.keys()
        if unknown and not self._under_way:
            self._under_way = unknown
            asked = [node for node in nodes if node["NodeID"] in unknown]
            partner = self._partner if self._partner is None or self._partner["NodeID"] in slots.alive else None
            self._thread = threading.Thread(target=self._check, args=(asked, partner), name="preflight", daemon=True)
            self._thread.start()
        return without(slots, self._excluded | unknown), inspected

    def close(self) -> None:
        """End the check in progress.

        Call it before Ray is shut down: a later call from the thread would start another Ray.
        """
        if self._thread is not None and self._thread.is_alive():
            self._stop()
            self._thread.join(CLOSE_SECONDS)

    def _check(self, nodes: Sequence[Node], partner: Node | None) -> None:
        try:
            self._found.put(self._inspect(nodes, partner))
        except Exception as error:  # noqa: BLE001  # a node that could not be checked holds no worker, and the run goes on
            why = f"preflight itself failed: {' '.join(str(error).split()) or type(error).__name__}"
            self._found.put([_unmeasured(node, why) for node in nodes])

    def _results(self, slots: Slots) -> list[NodeChecked]:
        try:
            found = self._found.get_nowait()
        except queue.Empty:
            return []
        self._under_way = set()
        found = [one for one in found if one.node in slots.alive]  # nodes that were lost meanwhile are ignored
        self._measured |= {one.node: one for one in found}
        events = node_checks(found, list(self._measured.values()), self._conf)
        self._excluded |= {one.node for one, event in zip(found, events, strict=True) if event.excluded}
        return list(events)
