"""Tests of nodes in the report: exclusions, measurements, corrected clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.journal.events import AnyEvent, NodeChecked, RunStarted
from aiperf.report.candidate import candidate_of
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.nodes import beside_kept, clock_offsets
from aiperf.report.sections.system import nodes, system
from aiperf.system import log as telemetry_log
from aiperf.system.log import Log, Session
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.summary import summarise
from tests.builders.report_journal import Shape, invented

SMALL = invented(Shape(workers=2))


def checked(host: str, *faults: str, excluded: bool = True, offset: float = 0.0) -> NodeChecked:
    rates = {"10.0.0.1, 1048576 B": [1e9, 2e9], "10.0.0.1, 33554432 B": [8e9, 9e9]}
    return NodeChecked(
        at=0.0,
        address=f"10.0.0.{host[1:]}",
        host=host,
        readings={
            "matrix product": {
                "probe": "matrix product",
                "unit": "FLOPS",
                "series": {"cuda:0": [5e14, 7e14], "cuda:1": [6e14]},
            },
            "pairs": {"probe": "pairs", "unit": "B/s", "series": rates},
            "memory": {"probe": "memory", "unit": "B/s", "failed": "it hung"},
        },
        faults=list(faults),
        notes=[],
        excluded=bool(faults) and excluded,
        clock_offset_seconds=offset,
        clock_error_seconds=0.001,
        kind="a node",
    )


def test_an_excluded_node_is_shown_beside_the_kept_ones() -> None:
    checks = [checked("n1", "pairs: slow"), checked("n2"), checked("n3")]

    (line,) = beside_kept(gather(with_checks(*checks)).nodes)

    product, pair = (f"{speed}, kept {speed} to {speed}" for speed in ("600 TFLOPS", "9.00 GB/s"))
    assert line == f"n1 (pairs: slow): matrix product {product}; pair {pair}"


def with_checks(*checks: NodeChecked) -> list[AnyEvent]:
    first, *rest = SMALL
    assert isinstance(first, RunStarted)
    config = first.config | {"preflight": {"most_excluded": 0.1, "probes": "full"}}
    return [msgspec.structs.replace(first, config=config), *checks, *rest]


def copy(host: str, hashed: int = 1000, **facts: Any) -> NodeChecked:
    is_excluded = facts.pop("excluded", False)
    found = {"contents": "c" * 64, "hashed": hashed, "files": 1_331_167, "seed": 7, **facts}
    readings = {"data": {"probe": "data", "unit": "text", "facts": found}}
    return msgspec.structs.replace(checked(host), readings=readings, excluded=is_excluded)


BROKEN = msgspec.structs.replace(checked("n9"), excluded=True)
COPIES: dict[str, tuple[list[NodeChecked], str | None]] = {
    "two own copies": ([copy("n1"), copy("n2")], "shown"),
    "one of three nodes excluded": ([*(copy(f"n{at}", 667, is_shared=True) for at in range(2)), BROKEN], "shown"),
    "too few of a copy of its own": ([copy("n1"), copy("n2", 500)], None),
    "too few of a shared copy": ([copy("n1", 400, is_shared=True)], None),
    "a node without a hash": ([copy("n1"), checked("n2")], None),
    "hostile facts": ([copy("n1", files="many")], None),
    "changed files": ([copy("n1"), copy("n2", changed=["a.jpg"])], "changed"),
    "changed files of an excluded node": ([copy("n1"), copy("n2", changed=["a.jpg"], excluded=True)], "shown"),
    "changed files of a shared copy": (
        [copy("n1", is_shared=True), copy("n2", is_shared=True, changed=["a.jpg"], excluded=True)],
        "changed",
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_contents_are_shown_if_every_copy_was_hashed(name: str) -> None:
    checks, expected = COPIES[name]
    first, *rest = with_checks(*checks)
    assert isinstance(first, RunStarted)

    hashed, former = (
        msgspec.structs.replace(first, dataset=first.dataset | {"contents": contents}) for contents in ("c" * 64, None)
    )

    assert candidate_of([hashed, *rest]).contents == expected
    assert candidate_of([former, *rest]).contents is None


def test_the_last_check_of_a_host_gives_its_clock_offset() -> None:
    checks = [
        checked("n1", offset=0.5),
        checked("n2", offset=0.0005),
        checked("n1", offset=0.0001),
        checked("n2", offset=-2.0),
    ]

    assert clock_offsets(checks) == {"n2": -2.0}


def test_an_excluded_node_is_named_in_warnings_rules_and_table() -> None:
    report = gather(with_checks(checked("n1"), checked("n2"), checked("n3", "data: <b>another</b> set")))

    assert [warning.text for warning in report.warnings if "preflight" in warning.text] == [
        "1 of 3 nodes excluded by preflight: n3: data: <b>another</b> set"
    ]
    assert any("1 of 3 were, by preflight" in breach.found for breach in report.breaches)
    table = nodes(report)
    assert table is not None
    assert [row[0].text for row in table.rows] == ["n3 (10.0.0.3)", "n1 (10.0.0.1)", "n2 (10.0.0.2)"]
    assert [row[1].text for row in table.rows] == ["excluded", "good", "good"]
    shown = {column.name: cell.text for column, cell in zip(table.columns, table.rows[1], strict=True)}
    assert shown["matrix product"].replace("\u202f", " ") == "600 TFLOPS", "of the weaker accelerator the best"
    assert shown["pair"].replace("\u202f", " ") == "9.00 GB/s"
    assert shown["memory"] == "—"
    text = page(report, [system(report)])
    assert "Nodes as checked by preflight: 3, 1 excluded" in text
    assert "<b>another</b>" not in text


def test_a_used_node_with_a_fault_is_a_warning_not_a_breach() -> None:
    report = gather(with_checks(checked("n1", "clock: off", excluded=False), checked("n2")))

    assert any("1 of 2 nodes used in spite of a fault" in warning.text for warning in report.warnings)
    assert not any("by preflight" in breach.found for breach in report.breaches)


def test_nine_good_nodes_of_ten_are_enough_and_eight_are_not() -> None:
    ten = [checked(f"n{number}") for number in range(10)]

    def broken(bad: int) -> bool:
        checks = [checked(f"n{number}", "data: other") for number in range(bad)] + ten[bad:]
        return any("by preflight" in breach.found for breach in gather(with_checks(*checks)).breaches)

    assert not broken(1)
    assert broken(2)


@pytest.mark.parametrize("ahead", [5.0, -7.5])
def test_what_a_clock_is_off_is_taken_out_of_its_hosts_telemetry(tmp_path: Path, ahead: float) -> None:
    """A host with a fast clock writes times that are too late, which would shift its work."""
    for worker, (host, off) in enumerate([("n1", 0.0), ("n2", ahead)]):
        log = Log(tmp_path / f"{worker}.jsonl")
        device = Device(id="host", kind="host")
        log.begin(
            Session(host=host, worker=worker, at=100.0 + off, wall_unix=0.0, interval_seconds=1.0, devices=(device,))
        )
        for second in range(20):
            log.append(100.0 + second + off, 0.0, [DeviceSample(device="host", utilisation=float(5 < second <= 10))])
        log.close()

    def busy(offsets: dict[str, float]) -> list[float | None]:
        records = telemetry_log.on_one_axis(telemetry_log.read(tmp_path), offsets)
        return [one.utilisation_mean for one in summarise(records, (105.0, 110.0)).devices]

    assert busy({"n2": ahead}) == [1.0, 1.0]
    assert busy({})[1] != 1.0, "or this test would show nothing"
