"""Section Roofline: shortest time of the steps of a run's networks."""

from __future__ import annotations

import msgspec
import pytest

from aiperf.journal.events import AnyEvent, NodeChecked, WorkerJoined
from aiperf.report.gather import gather
from aiperf.report.sections.time_spent import roofline
from aiperf.report.tables import Table
from aiperf.report.training_floor import step
from morphism import start
from tests.builders.report_journal import Shape, invented
from tests.report.test_nodes import checked

GPU = Shape(device="NVIDIA A100-SXM4-80GB", precision="bf16")


def with_triad(events: list[AnyEvent], bytes_per_second: float) -> list[AnyEvent]:
    check = checked("n1")
    memory = {"probe": "memory", "unit": "B/s", "series": {"cpu": [bytes_per_second / 2, bytes_per_second]}}
    assert isinstance(check, NodeChecked)
    return [events[0], msgspec.structs.replace(check, readings={"memory": memory}), *events[1:]]


def test_step_of_resnet50_has_the_worked_floor() -> None:
    operations, floor = step(start("resnet50_v1_5"), 256, 2, 312e12, 2.039e12, passes=2)

    assert floor * 1e3 == pytest.approx(68.75, abs=0.005)
    assert operations / 312e12 / floor == pytest.approx(0.292, abs=0.0005)


def test_forward_pass_moves_less_than_a_training_step() -> None:
    graph = start("resnet20")

    assert step(graph, 32, 4, 1e12, 1e11, passes=1)[1] < step(graph, 32, 4, 1e12, 1e11, passes=2)[1] / 2


def test_parts_of_the_steps_add_up_to_the_busy_time() -> None:
    report = gather(invented(GPU))
    floor = report.training_floor
    section = roofline(report)

    assert floor is not None and section is not None
    assert (floor.memory_source, floor.memory_bytes_per_second) == ("data sheet", 2.039e12)
    assert floor.trials == floor.trials_in_window == sum(each.in_window.busy_seconds > 0 for each in report.trials)
    table = section.parts[0]
    assert isinstance(table, Table)
    assert sum(row[1].key or 0.0 for row in table.rows) == pytest.approx(floor.busy_seconds)
    assert sum(row[2].key or 0.0 for row in table.rows) == pytest.approx(1.0)


def test_run_without_peak_or_bandwidth_has_no_section() -> None:
    report = gather(invented(Shape()))

    assert report.training_floor is None
    assert roofline(report) is None


def test_triad_of_preflight_is_shared_by_the_ranks_of_a_processor() -> None:
    events = with_triad(invented(Shape(workers=1)), 4e10)
    machine = {"measured_matmul_flops": {"fp32": 1e11}}
    events = [
        msgspec.structs.replace(event, machine=event.machine | machine) if isinstance(event, WorkerJoined) else event
        for event in events
    ]
    floor = gather(events).training_floor

    assert floor is not None
    assert floor.memory_source == "preflight"
    assert floor.memory_bytes_per_second in (4e10, 2e10)
