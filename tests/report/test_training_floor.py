"""Section Roofline: shortest time of the steps of a run's networks."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from aiperf.accounting.network_roofline import floor, layers
from aiperf.errors import BadConfiguration
from aiperf.given_file import read_json
from aiperf.journal.events import AnyEvent, NodeChecked, WorkerJoined
from aiperf.page.section import Table
from aiperf.report.gather import gather
from aiperf.report.sections.time_spent import roofline
from aiperf.report.training_floor import HostRoofs
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
    operations, shortest = floor(layers(start("resnet50_v1_5"), 256, 2, 312e12, 2.039e12))

    assert shortest * 1e3 == pytest.approx(68.75, abs=0.005)
    assert operations / 312e12 / shortest == pytest.approx(0.292, abs=0.0005)


def test_forward_pass_moves_less_than_a_training_step() -> None:
    graph = start("resnet20")

    whole, validation = (layers(graph, 32, 4, 1e12, 1e11, is_training=kind) for kind in (True, False))

    assert floor(validation)[1] < floor(whole)[1] / 2


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


def test_triad_is_shared_by_the_ranks_of_a_processor() -> None:
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


PEAK = {
    "model": "EPYC",
    "per_core": {"add_64": 1e10, "fma_fp32": 1e11, "fma_bf16": 2e11},
    "cores": 4,
    "memory_bytes_per_second": 6e10,
}


def test_roofs_of_a_host_are_shared_by_its_ranks() -> None:
    events = invented(Shape(workers=1, precision="bf16"))
    (ranks,) = {event.ranks for event in events if isinstance(event, WorkerJoined)}
    floor = gather(events, roofs=msgspec.convert(PEAK, HostRoofs)).training_floor

    assert floor is not None
    assert (floor.peak_flops, floor.memory_bytes_per_second) == (8e11 / ranks, 6e10 / ranks)
    assert floor.memory_source == "--roofs"


def test_roofs_of_processors_fit_no_accelerators() -> None:
    events = [
        msgspec.structs.replace(event, machine={**event.machine, "accelerators": [{"model": GPU.device}]})
        if isinstance(event, WorkerJoined)
        else event
        for event in invented(GPU)
    ]
    with pytest.raises(BadConfiguration, match="accelerators"):
        gather(events, roofs=msgspec.convert(PEAK, HostRoofs))


def test_roofs_without_a_rate_for_the_precision_are_refused() -> None:
    with pytest.raises(BadConfiguration, match="fp16"):
        gather(invented(Shape(precision="fp16")), roofs=msgspec.convert(PEAK, HostRoofs))


@pytest.mark.parametrize(
    "content", [{}, [], {**PEAK, "memory_bytes_per_second": None}, {**PEAK, "per_core": 3}, {**PEAK, "cores": 0}]
)
def test_another_file_is_no_measured_roof(content: object, tmp_path: Path) -> None:
    (tmp_path / "peak.json").write_text(json.dumps(content))

    with pytest.raises(BadConfiguration, match=r"peak\.json', which has other content"):
        read_json(tmp_path / "peak.json", "--roofs", HostRoofs)
