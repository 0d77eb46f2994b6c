"""Telemetry by minute: its sums agree with those of the seconds, and many files give what one reading of all gives."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aiperf.accounting.accelerator_time import Activity, WorkerSpan
from aiperf.accounting.work_log import work_log
from aiperf.cli.run import _print_score
from aiperf.journal.journal import read as read_journal
from aiperf.page.section import DrawnFigure
from aiperf.report.phrases import by_minute
from aiperf.report.sections.devices import energy_table, telemetry
from aiperf.report.sections.time_spent import loss_table, waterfall
from aiperf.report.write import report_of
from aiperf.system.log import (
    LARGEST_MEMBER,
    Damage,
    Log,
    Minute,
    Sample,
    Session,
    files,
    minutes_path,
    path,
    read,
    read_file,
)
from aiperf.system.sampler import Device, DeviceSample, ProcessorTime
from aiperf.system.summary import DeviceTelemetry, Telemetry, summarise, summarise_folder
from benchmarks.report_speed import ACCELERATORS, simulated
from tests.rigs.limits import small_file_system

WINDOW = (100.0, 1000.0)
Power = Callable[[float], float]


def record(
    run: Path, worker: int, *, power: Power | None = None, pauses: tuple[tuple[int, int], ...] = (), restarts_at: int = 0
) -> None:  # fmt: skip
    """Record 1,100 seconds of a host, an accelerator with an energy counter and one without."""
    random, joules = Random(worker), 0.0
    log = Log(path(run, worker))
    log.begin(session(worker, 0.0))
    for second in range(1100):
        if second and second == restarts_at:
            log.close()
            log = Log(path(run, worker))
            log.begin(session(worker, second))
        watts = power(second) if power is not None else 300 + 100 * random.random()
        joules += watts
        if any(since <= second < until for since, until in pauses):
            continue
        processors = ProcessorTime(passed=2.0 * second, programs=second, own=0.9 * second, kernel=0.0, stolen=0.0)
        shown: dict[str, Any] = {
            "power_watts": watts,
            "utilisation": random.random(),
            "temperature_celsius": 50 + 30 * random.random(),
        }
        log.append(
            float(second),
            float(second),
            [
                DeviceSample(device="host", utilisation=0.5, processors=processors if second % 5 == 0 else None),
                DeviceSample(
                    device="counted", energy_joules=joules, memory_used_bytes=second, **shown,
                    throttle=("x",) * (second % 4 == 0),
                ),
                DeviceSample(device="sampled", ecc_corrected=second // 100, **shown),
            ],
        )  # fmt: skip
    log.close()


def session(worker: int, at: float) -> Session:
    kinds = {"host": "host", "counted": "accelerator", "sampled": "accelerator"}
    devices = tuple(Device(id=name, kind=kind) for name, kind in kinds.items())  # type: ignore[arg-type]
    return Session(host=f"n{worker}", worker=worker, at=at, wall_unix=at, interval_seconds=1.0, devices=devices)


def summed(run: Path, spans: dict[int, tuple[WorkerSpan, ...]] | None = None, *, by_minute: bool) -> Telemetry:
    return summarise_folder(run / "telemetry", WINDOW, spans or {}, {}, by_minute=by_minute)


def near(one: float | None, other: float | None, relative: float) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= relative * abs(other)


CASES = {
    "whole": {},
    "a pause": {"pauses": ((300, 320),)},
    "a short and a long pause": {"pauses": ((205, 215), (400, 590))},
    "another start": {"restarts_at": 500},
    "another start after a pause": {"pauses": ((480, 530),), "restarts_at": 530},
}


@pytest.mark.parametrize("case", CASES)
def test_minutes_agree_with_their_seconds(tmp_path: Path, case: str) -> None:
    record(tmp_path, 0, **CASES[case])  # type: ignore[arg-type]

    seconds, minutes = summed(tmp_path, by_minute=False), summed(tmp_path, by_minute=True)

    assert (seconds.is_by_minute, minutes.is_by_minute) == (False, True)
    assert [one.device.id for one in minutes.devices] == [one.device.id for one in seconds.devices]
    for fine, coarse in zip(seconds.devices, minutes.devices, strict=True):
        assert (coarse.seconds_measured, coarse.gone_at) == (fine.seconds_measured, fine.gone_at)
        assert coarse.counter_restarts == fine.counter_restarts
        assert coarse.utilisation_mean == pytest.approx(fine.utilisation_mean, rel=0.02)
        assert near(coarse.energy_joules, fine.energy_joules, 0.005)
        assert near(coarse.temperature_max_celsius, fine.temperature_max_celsius, 0.02)
        assert coarse.energy_counted_share == fine.energy_counted_share
        assert coarse.ecc_corrected in (fine.ecc_corrected, (fine.ecc_corrected or 0) + 1)  # a minute at the edge
        assert coarse.throttled == pytest.approx(fine.throttled, abs=0.01) if fine.throttled else not coarse.throttled
    assert minutes.loads[0].own == pytest.approx(seconds.loads[0].own)


def test_the_energy_of_a_minute_is_divided_by_the_activities_share(tmp_path: Path) -> None:
    """The power changes with the activity within each minute: seconds see it, minutes give each its share of the time."""
    record(tmp_path, 0, power=lambda at: 400.0 if at % 60 < 45 else 100.0)
    edges: tuple[tuple[float, float, Activity], ...] = ((0.0, 45.0, "epochs"), (45.0, 60.0, "start-up"))
    spans = {
        0: tuple(
            WorkerSpan(60.0 * minute + since, 60.0 * minute + until, activity)
            for minute in range(19)
            for since, until, activity in edges
        )
    }

    def shares(device: DeviceTelemetry) -> dict[str, float]:
        whole = sum(spent.joules for spent in device.spent.values())
        return {activity: spent.joules / whole for activity, spent in device.spent.items()}

    for fine, coarse in zip(
        summed(tmp_path, spans, by_minute=False).accelerators, summed(tmp_path, spans, by_minute=True).accelerators, strict=True
    ):  # fmt: skip
        assert shares(fine)["start-up"] == pytest.approx(15 / 60 * 100 / 325, abs=0.02)
        assert shares(coarse)["start-up"] == pytest.approx(15 / 60, abs=0.01)
        assert coarse.energy_joules == pytest.approx(fine.energy_joules, rel=0.005)


@pytest.mark.parametrize("workers", [3, 20])
def test_files_read_apart_give_what_one_reading_gives(tmp_path: Path, workers: int) -> None:
    record(tmp_path, 0)
    for worker in range(1, workers):
        before, name = b'"worker":0,', f'"worker":{worker},'.encode()
        seconds, first = path(tmp_path, worker), path(tmp_path, 0)
        seconds.write_bytes(gzip.compress(gzip.decompress(first.read_bytes()).replace(before, name)))
        minutes_path(seconds).write_bytes(minutes_path(first).read_bytes().replace(before, name))
    (tmp_path / "telemetry" / "2.jsonl").write_bytes(b"no telemetry\n")

    apart, at_once = summed(tmp_path, by_minute=False), summarise(read(tmp_path / "telemetry"), WINDOW)

    assert apart.devices == at_once.devices and apart.workers == at_once.workers and apart.damaged == at_once.damaged
    assert apart.device_courses == at_once.device_courses
    assert [vars_of.host for vars_of in apart.loads] == [vars_of.host for vars_of in at_once.loads]
    assert [one.own for one in apart.loads] == pytest.approx([one.own for one in at_once.loads])
    for one, other in zip(apart.courses, at_once.courses, strict=True):
        assert one.kind == other.kind and one.utilisation_seconds == pytest.approx(other.utilisation_seconds)
        known = [value for value in other.utilisation if value is not None]
        assert [value for value in one.utilisation if value is not None] == pytest.approx(known)


def test_a_run_without_minutes_is_read_by_seconds(tmp_path: Path) -> None:
    record(tmp_path, 0)
    before = summed(tmp_path, by_minute=False)
    minutes_path(path(tmp_path, 0)).unlink()

    assert files(tmp_path / "telemetry", by_minute=True) == [path(tmp_path, 0)]
    assert summed(tmp_path, by_minute=True).devices == before.devices


def test_a_torn_minute_is_left_out_and_then_removed(tmp_path: Path) -> None:
    record(tmp_path, 0)
    file = minutes_path(path(tmp_path, 0))
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])

    kept = list(read_file(file))
    assert all(
        isinstance(each, Session) or (isinstance(each, Sample) and isinstance(each.look, Minute)) for each in kept
    )
    assert len(kept) == whole.count(b"\n") - 1

    Log(path(tmp_path, 0)).close()
    assert file.read_bytes() == whole[: whole[:-1].rindex(b"\n") + 1]


# --- seconds, packed by minute


def packed(run: Path) -> tuple[Path, list[int]]:
    """Return a recorded packed file and the ends of its members."""
    record(run, 0)
    file = path(run, 0)
    whole, begin = file.read_bytes(), gzip.compress(b"", mtime=0)[:8]
    ends = [at for at in range(1, len(whole)) if whole.startswith(begin, at)] + [len(whole)]
    return file, ends


def test_seconds_are_packed_by_minute_and_read_as_plain_ones(tmp_path: Path) -> None:
    file, ends = packed(tmp_path)
    content = gzip.decompress(file.read_bytes())

    assert len(ends) == 1 + math.ceil(1100 / 60) + 1  # session, its minutes, the rest at the end
    assert file.stat().st_size < 0.3 * len(content)
    whole = list(read_file(file))
    assert len(whole) == content.count(b"\n") == 1 + 3 * 1100
    before = summed(tmp_path, by_minute=False)
    file.unlink()
    file.with_suffix("").write_bytes(content)  # as earlier releases wrote it
    assert list(read_file(file.with_suffix(""))) == whole
    assert summed(tmp_path, by_minute=False) == before


@pytest.mark.parametrize("left", [0.0, 0.01, 0.5, 0.999])
def test_a_torn_last_member_is_ignored_and_then_removed(tmp_path: Path, left: float) -> None:
    file, ends = packed(tmp_path)
    whole = file.read_bytes()
    lines = gzip.decompress(whole[: ends[-2]]).count(b"\n")
    torn = ends[-2] + round(left * (ends[-1] - ends[-2]))
    file.write_bytes(whole[:torn])

    assert len(kept := list(read_file(file))) == lines
    assert all(isinstance(each, Session | Sample) for each in kept)

    log = Log(file)
    assert file.read_bytes() == whole[: ends[-2]]
    log.begin(session(0, 2000.0))
    log.append(2000.0, 2000.0, [DeviceSample(device="host", utilisation=0.5)])
    log.close()
    assert list(read_file(file))[lines:] != [] and len(list(read_file(file))) == lines + 2


def test_zeros_that_a_power_cut_leaves_are_removed(tmp_path: Path) -> None:
    file, ends = packed(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[: ends[-2]] + bytes(5000))

    Log(file).close()

    assert file.read_bytes() == whole[: ends[-2]]


def test_damage_between_members_is_reported_and_nothing_removed(tmp_path: Path) -> None:
    file, ends = packed(tmp_path)
    whole = bytearray(file.read_bytes())
    whole[ends[3] + 200] ^= 0xFF
    file.write_bytes(whole)

    *kept, damage = read_file(file)

    lines = gzip.decompress(whole[: ends[3]]).count(b"\n")
    assert len(kept) == lines and isinstance(damage, Damage) and damage.line == lines + 1
    assert "the rest of the file is left out" in damage.why
    Log(file).close()
    assert file.read_bytes() == whole


def test_a_member_that_unpacks_to_too_much_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "0.jsonl.gz"
    file.write_bytes(gzip.compress(bytes(3 * LARGEST_MEMBER)))

    (damage,) = read_file(file)

    assert isinstance(damage, Damage) and "at most" in damage.why


def test_a_full_disk_loses_no_earlier_second_and_tears_no_later_one(tmp_path: Path) -> None:
    with small_file_system(tmp_path / "disk", "size=128k") as disk:
        ballast, file = disk / "ballast", path(disk, 0)
        ballast.write_bytes(bytes(64 << 10))
        log, at, random = Log(file), 0, Random(1)
        log.begin(session(0, 0.0))
        with pytest.raises(OSError, match="No space"):
            for at in range(100_000):
                log.append(at, at, [DeviceSample(device="counted", power_watts=random.random())])
        assert all(isinstance(each, Session | Sample) for each in read_file(file))
        ballast.unlink()
        log.close()  # there is room again: what it held is not lost either

        looks = [each.look.at for each in read_file(file) if isinstance(each, Sample)]

    assert looks == [float(each) for each in range(at + 1)]


def test_a_run_that_an_earlier_release_began_continues_in_its_file(tmp_path: Path) -> None:
    plain = path(tmp_path, 0).with_suffix("")
    Log(plain).close()

    assert path(tmp_path, 0) == plain and path(tmp_path, 0, 1).name == "0.1.jsonl.gz"
    record(tmp_path, 0)
    assert files(tmp_path / "telemetry") == [plain] and plain.read_bytes().count(b"\n") == 1 + 3 * 1100


def test_report_of_many_accelerators_is_by_minute_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulated(tmp_path, 9, 0.3)

    report = report_of(run)

    assert report.telemetry is not None and report.telemetry.is_by_minute
    assert len(report.telemetry.accelerators) == 9 * ACCELERATORS
    mark = by_minute(report)
    assert mark.startswith(" By minute") and by_minute(replace(report, telemetry=None)) == ""
    for table in (telemetry(report), energy_table(report)):
        assert table is not None and table.footnote.endswith(mark)
    losses, drawn = loss_table(report), waterfall(report)
    assert losses is not None and mark in losses.footnote
    assert isinstance(drawn, DrawnFigure) and mark in drawn.caption
    _print_score(work_log(read_journal(run / "journal.jsonl")))
    assert capsys.readouterr().out.startswith("score ")
