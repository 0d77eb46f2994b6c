"""Who may hold a worker: nodes that preflight found nothing wrong with. Those that join later are checked while others train.

The checking of late nodes goes on in a thread; the executor asks the gate at each look, and is never kept waiting.
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
from aiperf.drive.preflight import Checked, as_word, judged, nobody_left
from aiperf.drive.ray.inspection import Inspection
from aiperf.drive.ray.slots import Slots, slots
from aiperf.journal.messages import Inspected
from aiperf.preflight.preflight_config import PreflightConf
from aiperf.preflight.reading import Measured

Node = Mapping[str, Any]
Inspect = Callable[[Sequence[Node], Node | None], list[Measured]]
"""What is measured of nodes; with a partner that was checked before."""


def check_nodes(conf: RunConf, parent: Path, *, is_full: bool) -> Checked:
    """Checks the nodes of the Ray that this process is connected to.

    Raises:
        NoWorkers: no node is left, or one has a fault and preflight.broken=stop.
    """
    head = ray.get_runtime_context().get_node_id()
    inspection = Inspection(conf.preflight, conf.dataset, conf.trainer, parent, head, is_full)
    nodes: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return checked_by(inspection.of, nodes, conf.preflight, conf.accelerators_per_worker)


def checked_by(
    inspect: Inspect, nodes: Sequence[Node], conf: PreflightConf, accelerators_per_worker: int | str | None
) -> Checked:
    """What comes of these nodes, and the gate for all others."""
    measured = inspect(nodes, None)
    events = judged(measured, measured, conf)
    excluded = frozenset(one.node for one, event in zip(measured, events, strict=True) if event.excluded)
    wanted = slots(nodes, accelerators_per_worker).wanted
    places = {share.node: share.address for slot in wanted for share in slot.shares}
    if (error := nobody_left(places, excluded, events)) is not None:
        raise error
    partner = next((node for node in nodes if node["NodeID"] not in excluded), None)
    # one that joins later cannot stop a run that goes on
    late = replace(conf, broken="exclude") if conf.broken == "stop" else conf
    return Checked(events, excluded, Gate(inspect, late, measured, excluded, partner))


def without(there: Slots, kept_out: Collection[str]) -> Slots:
    """The places on all other nodes."""
    return replace(
        there, wanted=tuple(slot for slot in there.wanted if not any(share.node in kept_out for share in slot.shares))
    )


class Gate:
    """Used from one thread, the driver's."""

    def __init__(
        self,
        inspect: Inspect,
        conf: PreflightConf,
        measured: Sequence[Measured],
        excluded: Collection[str],
        partner: Node | None,
    ) -> None:
        self._inspect = inspect
        self._conf = conf
        self._measured = {one.node: one for one in measured}
        self._excluded = set(excluded)
        self._partner = partner
        self._under_way: set[str] = set()
        self._found: queue.SimpleQueue[list[Measured] | BaseException] = queue.SimpleQueue()

    @property
    def excluded(self) -> AbstractSet[str]:
        """Nodes that are to hold no worker, by Ray's identifiers."""
        return self._excluded

    def look(self, nodes: Sequence[Node], there: Slots) -> tuple[Slots, list[Inspected]]:
        """The places that may be used now, and what is new of nodes that were checked. Those that nobody has checked are."""
        said = self._taken(there)
        unknown = {share.node for slot in there.wanted for share in slot.shares} - self._measured.keys()
        if unknown and not self._under_way:
            self._under_way = unknown
            asked = [node for node in nodes if node["NodeID"] in unknown]
            partner = self._partner if self._partner is None or self._partner["NodeID"] in there.alive else None
            threading.Thread(target=self._check, args=(asked, partner), name="preflight", daemon=True).start()
        return without(there, self._excluded | unknown), said

    def _check(self, nodes: Sequence[Node], partner: Node | None) -> None:
        try:
            self._found.put(self._inspect(nodes, partner))
        except BaseException as error:  # noqa: BLE001  # raised where it is looked for
            self._found.put(error)

    def _taken(self, there: Slots) -> list[Inspected]:
        try:
            found = self._found.get_nowait()
        except queue.Empty:
            return []
        under_way, self._under_way = self._under_way, set()
        if isinstance(found, BaseException):
            if under_way <= there.alive:
                raise found
            return []  # a node was lost meanwhile; the others are checked anew
        self._measured |= {one.node: one for one in found}
        events = judged(found, list(self._measured.values()), self._conf)
        self._excluded |= {one.node for one, event in zip(found, events, strict=True) if event.excluded}
        return [as_word(event) for event in events]
