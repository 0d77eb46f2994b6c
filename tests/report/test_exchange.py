"""Section on the exchange of gradients of workers with several ranks."""

from __future__ import annotations

import pytest

from aiperf.page.section import Table
from aiperf.report.gather import gather
from aiperf.report.sections.step import exchange
from tests.builders.report_journal import MACHINE, Shape, invented

BUS = 1e8


def with_bus(bus: float | None = BUS, **shape: int) -> Shape:
    measured = {} if bus is None else {"measured_bus_bytes_per_second": bus}
    return Shape(machine={**MACHINE, **measured}, **shape)  # type: ignore[arg-type]  # ranks alone


def test_visible_communication_is_exchange_and_waiting() -> None:
    report = gather(invented(with_bus()))
    facts, section = report.exchange, exchange(report)

    assert facts is not None and section is not None
    assert facts.ranks == (2,) and facts.bus_bytes_per_second == BUS
    assert facts.least_seconds == pytest.approx(facts.exchanged_bytes / BUS)
    assert 0 <= facts.waiting_seconds <= facts.visible_seconds < facts.busy_seconds
    table = section.parts[0]
    assert isinstance(table, Table)
    assert table.rows[1][1].key == pytest.approx(facts.visible_seconds - facts.waiting_seconds)


def test_a_faster_bus_means_more_waiting() -> None:
    slow, fast = (gather(invented(with_bus(bus))).exchange for bus in (1e5, 1e12))

    assert slow is not None and fast is not None
    assert slow.waiting_seconds == 0
    assert fast.waiting_seconds == pytest.approx(fast.visible_seconds, rel=1e-3)


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [({}, "Transport by NCCL: not shown."), ({"exchange_transport": "NVLink"}, "Transport by NCCL: NVLink.")],
)
def test_the_transport_is_shown_if_the_journal_has_it(recorded: dict[str, str], shown: str) -> None:
    machine = {**MACHINE, "measured_bus_bytes_per_second": BUS, **recorded}
    section = exchange(gather(invented(Shape(machine=machine))))

    assert section is not None and isinstance(section.parts[0], Table)
    assert shown in section.parts[0].footnote


@pytest.mark.parametrize("shape", [with_bus(ranks=1), with_bus(None)], ids=["one rank", "no bus bandwidth"])
def test_other_workers_have_no_section(shape: Shape) -> None:
    assert exchange(gather(invented(shape))) is None
