"""Exclusions of nodes by preflight follow from the readings in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from aiperf.drive.preflight import node_checks
from aiperf.journal.events import NodeChecked, RunResumed
from aiperf.measure.probe import NodeReadings
from aiperf.preflight import PreflightConf
from aiperf.verify.check import handlers
from aiperf.verify.machines import NodeFaults
from tests.builders.journal import started
from tests.builders.node_readings import node, off_by, reading, space, versions

HEALTHY = [node("n0", is_head=True), node("n1"), node("n2", boot_id="n2"), node("n3")]
FAULTY = {
    "matrix product": node("bad", matrix_product=reading("matrix product", {"cuda:0": [1e14]})),
    "clock": node("bad", clock=off_by(5.0)),
    "versions": node("bad", versions=versions(python="3.9")),
    "space": node("bad", space=space(1.0)),
    "memory": node("bad", memory=reading("memory", failed="it hung")),
}


def events_of(nodes: Sequence[NodeReadings], conf: PreflightConf) -> list[NodeChecked]:
    """Return the lines of these nodes as a journal holds them."""
    lines = node_checks(nodes, nodes, conf)
    return msgspec.json.decode(msgspec.json.encode(lines), type=list[NodeChecked])


def findings(lines: Sequence[Any], broken: str = "exclude") -> list[str]:
    check = NodeFaults()
    takes = dict(handlers(check))
    for number, event in enumerate([started(config={"preflight": {"broken": broken}}), *lines], 1):
        takes[type(event)](number, event)
    result = check.checked()
    assert result.examined == sum(isinstance(line, NodeChecked) and line.kind is not None for line in lines)
    return [finding.found for finding in result.findings]


@pytest.mark.parametrize("broken", ["exclude", "keep"])
def test_honest_checks_follow_from_their_readings(broken: str) -> None:
    conf = PreflightConf(broken=broken)
    first, late = (
        events_of([*HEALTHY, FAULTY["clock"]], conf),
        node_checks([FAULTY["memory"]], [*HEALTHY, FAULTY["memory"]], conf),
    )
    resumed = RunResumed(schema=1, at=9.0, down_seconds=8.0, clock_stepped_back_seconds=0.0, versions={}, machine={})

    again = [msgspec.structs.replace(line, at=9.0) for line in events_of(HEALTHY, conf)]
    later = [msgspec.structs.replace(line, at=5.0) for line in late]

    assert findings([*first, *later, resumed, *again], broken) == []


@pytest.mark.parametrize("probe", FAULTY)
def test_a_faulty_node_that_is_hidden_is_found(probe: str) -> None:
    *others, bad = events_of([*HEALTHY, FAULTY[probe]], PreflightConf())
    assert bad.excluded

    hidden = msgspec.structs.replace(bad, faults=[], excluded=False)

    assert findings([*others, hidden]) == [f"bad has no fault {probe!r}, but its readings break the limits"]
    assert "bad is kept with 1 faults" in findings([*others, msgspec.structs.replace(bad, excluded=False)])[0]


@pytest.mark.parametrize("probe", FAULTY)
def test_an_exclusion_by_an_invented_fault_is_found(probe: str) -> None:
    """A vendor leaves out healthy nodes, such as those with the slowest accelerators."""
    *others, last = events_of(HEALTHY, PreflightConf())

    excluded = msgspec.structs.replace(last, faults=[f"{probe}: broken"], excluded=True)

    assert findings([*others, excluded]) == [f"n3 has the fault {probe!r}, but its readings keep the limits"]


def test_readings_of_no_probe_are_found_and_old_journals_are_not_judged() -> None:
    (line,) = events_of(HEALTHY[:1], PreflightConf())

    assert "readings that no probe gives" in findings_of_odd(line, readings={"clock": {"probe": "clock", "unit": "s"}})
    assert findings([msgspec.structs.replace(line, kind=None, faults=["clock: off"], excluded=True)]) == []


def findings_of_odd(line: NodeChecked, **changed: Any) -> str:
    check = NodeFaults()
    dict(handlers(check))[NodeChecked](2, msgspec.structs.replace(line, **changed))
    (finding,) = check.checked().findings
    return finding.found
