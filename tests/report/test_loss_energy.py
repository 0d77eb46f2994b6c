"""Tests of the waterfall's joules with telemetry of a constant power."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from aiperf.journal.events import AnyEvent, RunEnded, WorkerJoined, WorkerLost
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from aiperf.system.log import Record, RecordedSample, Sample, Session
from aiperf.system.sampler import Device
from tests.builders.report_journal import Shape, invented

WATTS = 300.0
LOSSY = invented(Shape(workers=4, lose_worker_at=70.0, end=120.0, ends="interrupted"))


def planted(events: Sequence[AnyEvent], blind: int | None = None) -> Iterator[Record]:
    """Return one sample per second and at each edge of presence of every accelerator. A blind worker gives no values."""
    end = next(event.at for event in events if isinstance(event, RunEnded))
    for joined in (event for event in events if isinstance(event, WorkerJoined)):
        left = next((e.at for e in events if isinstance(e, WorkerLost) and e.worker == joined.worker), end)
        devices = tuple(
            Device(id=f"GPU-{joined.worker}-{index}", kind="accelerator", index=index) for index in range(joined.ranks)
        )
        session = Session(
            host=joined.host,
            worker=joined.worker,
            at=joined.at,
            wall_unix=joined.at,
            interval_seconds=1.0,
            devices=devices,
            accelerators=joined.ranks,
        )
        yield session
        for at in (joined.at, *range(math.ceil(joined.at) + 1, math.ceil(left)), left):
            for device in devices:
                watts = None if joined.worker == blind else WATTS
                yield Sample(session, device, RecordedSample(device=device.id, at=at, wall_unix=at, power_watts=watts))


def report_with(records: Iterator[Record], folder: Path) -> Report:
    (folder / "telemetry").mkdir()
    for record in records:
        line, session = (record.look, record.session) if isinstance(record, Sample) else (record, record)
        assert isinstance(session, Session)
        with (folder / "telemetry" / f"{session.worker}.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
    return gather(LOSSY, folder)


def test_joules_of_all_activities_sum_to_the_measured_energy(tmp_path: Path) -> None:
    report = report_with(planted(LOSSY), tmp_path)
    fallen, energy = report.losses, report.energy

    assert fallen is not None and energy is not None
    assert fallen.energy_of == "accelerators"
    assert fallen.joules == pytest.approx(energy.best.joules)
    assert math.fsum(part.joules for part in fallen.energy) == pytest.approx(fallen.joules)
    for part in fallen.energy:
        assert part.joules == pytest.approx(WATTS * part.device_seconds), part.activity


def test_only_a_separable_part_has_joules(tmp_path: Path) -> None:
    fallen = report_with(planted(LOSSY), tmp_path).losses

    assert fallen is not None
    measured = {loss.name: loss for loss in fallen.losses if loss.joules is not None}
    assert {"search", "lost attempts"} <= set(measured) <= {"search", "lost attempts", "done again", "end of the run"}
    for loss in measured.values():
        assert loss.joules == pytest.approx(WATTS * loss.accelerator_seconds, rel=1e-6), loss.name


def test_an_accelerator_without_power_leaves_no_joules(tmp_path: Path) -> None:
    fallen = report_with(planted(LOSSY, blind=2), tmp_path).losses

    assert fallen is not None
    assert (fallen.joules, fallen.energy) == (None, ())
