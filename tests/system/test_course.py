"""The course of devices over a run holds all that was sampled, in its place, and invents nothing in between."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system.log import Log, RecordedSample, Session, read
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.summary import summarise
from aiperf.system.utilization_series import PARTS, SeriesBuilder, mean

DEVICE = Device(id="GPU-0", kind="accelerator", memory_bytes=100)


def look(at: float, utilisation: float | None = None, memory: int | None = None) -> RecordedSample:
    return RecordedSample(device="GPU-0", at=at, wall_unix=at, utilisation=utilisation, memory_used_bytes=memory)


@given(st.lists(st.tuples(st.floats(0.001, 400.0), st.floats(0.0, 1.0)), max_size=40), st.floats(1.0, 1000.0))
def test_the_series_has_all_samples_before_the_end(drawn: list[tuple[float, float]], end: float) -> None:
    course, at, busy, seconds = SeriesBuilder("accelerator", end), 0.0, 0.0, 0.0
    for length, utilisation in drawn:
        course.add(DEVICE, look(at + length, utilisation), at)
        part = max(0.0, min(end, at + length) - at)
        busy, seconds, at = busy + part * utilisation, seconds + part, at + length

    found = course.course()

    assert math.fsum(found.utilisation_seconds) == pytest.approx(seconds, abs=1e-6)
    average = mean(found.utilisation, found.utilisation_seconds)
    assert (average or 0.0) * seconds == pytest.approx(busy, abs=1e-6)


def test_values_keep_their_time_and_gaps_stay_empty() -> None:
    course = SeriesBuilder("accelerator", float(PARTS))
    course.add(DEVICE, look(11.0, 1.0, 50), 10.0)
    course.add(DEVICE, look(21.5, 0.5), 20.5)

    found = course.course()

    assert {at: value for at, value in enumerate(found.utilisation) if value is not None} == {10: 1.0, 20: 0.5, 21: 0.5}
    assert {at: value for at, value in enumerate(found.memory) if value is not None} == {10: 0.5}


def test_a_device_whose_memory_is_not_known_has_no_share_of_it() -> None:
    course = SeriesBuilder("accelerator", 10.0)
    course.add(Device(id="GPU-0", kind="accelerator"), look(1.0, 1.0, 50), 0.0)

    assert not any(course.course().memory_seconds)


def recorded(folder: Path, worker: int, busy: float, seconds: int = 100) -> None:
    log = Log(folder / f"{worker}.jsonl")
    host = Device(id="host", kind="host", memory_bytes=1000)
    log.begin(Session(host="n", worker=worker, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(host, DEVICE)))
    for at in range(seconds + 1):
        samples = [DeviceSample(device="host", utilisation=0.25, memory_used_bytes=500)]
        log.append(at, at, [*samples, DeviceSample(device="GPU-0", utilisation=busy, memory_used_bytes=75)])
    log.close()


def test_telemetry_has_a_series_per_kind_over_all_workers(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 1.0)
    recorded(tmp_path, 1, 0.5)

    accelerators, hosts = summarise(read(tmp_path), (40.0, 100.0)).courses

    assert (accelerators.kind, hosts.kind) == ("accelerator", "host")
    assert accelerators.utilisation == pytest.approx([0.75] * PARTS)
    assert accelerators.memory == pytest.approx([0.75] * PARTS)
    assert math.fsum(accelerators.utilisation_seconds) == pytest.approx(200.0)
    assert mean(hosts.utilisation, hosts.utilisation_seconds) == pytest.approx(0.25)


def test_a_gap_in_the_recording_is_a_gap_in_the_course(tmp_path: Path) -> None:
    log = Log(tmp_path / "0.jsonl")
    log.begin(Session(host="n", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(DEVICE,)))
    for at in (0.0, 1.0, 2.0, 98.0, 99.0, 100.0):
        log.append(at, at, [DeviceSample(device="GPU-0", utilisation=1.0)])
    log.close()

    (course,) = summarise(read(tmp_path), (0.0, 100.0)).courses

    assert math.fsum(course.utilisation_seconds) == pytest.approx(4.0)
    assert course.utilisation[PARTS // 2] is None


def test_each_of_the_first_devices_has_its_own_series(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 1.0)
    recorded(tmp_path, 1, 0.5)

    found = summarise(read(tmp_path), (40.0, 100.0)).device_courses

    shares = {(each.worker, each.device): each.utilisation for each in found}
    assert shares[0, "GPU-0"] == pytest.approx([1.0] * PARTS) and shares[1, "GPU-0"] == pytest.approx([0.5] * PARTS)
    assert set(shares) == {(0, "host"), (0, "GPU-0"), (1, "host"), (1, "GPU-0")}
