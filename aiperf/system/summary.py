"""Summary of a run's telemetry (utilization, power, temperature, errors) for each device over a time window, in one pass.

Nothing is interpolated: a period without samples is missing time and adds neither energy nor utilization.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiperf.accounting.accelerator_time import WorkerSpan
from aiperf.reader_processes import side_processes
from aiperf.system.load import HostLoad, LoadBuilder
from aiperf.system.log import (
    GAP_INTERVALS,
    MINUTE,
    Damage,
    Minute,
    Record,
    RecordedSample,
    Sample,
    Session,
    files,
    on_one_axis,
    read,
    read_file,
)
from aiperf.system.sampler import Device, Kind
from aiperf.system.utilization_series import SeriesBuilder, UtilizationSeries, added


@dataclass(frozen=True, slots=True)
class ActivityEnergy:
    """Energy of one device during one activity of its worker."""

    joules: float
    seconds: float
    """Measured seconds of the activity."""


MOST_DEVICE_COURSES = 64
LARGE_RUN = 64
"""Accelerators above which a report takes minutes: it reads telemetry by minute, and the run prints its score before it."""


@dataclass(frozen=True, slots=True)
class DeviceCourse:
    """Utilization of one device over equal parts of the run."""

    worker: int
    host: str
    device: str
    """Identifier of the device on its host."""
    utilisation: tuple[float | None, ...]
    """Mean of each part, 0..1. None if it was not measured."""


@dataclass(frozen=True, slots=True)
class DeviceTelemetry:
    """Telemetry of one device of one worker over the time window. A value is None if it was not measured."""

    worker: int
    host: str
    device: Device
    seconds_measured: float
    seconds_missing: float
    """Seconds of the window without samples, for any reason."""
    utilisation_mean: float | None
    memory_used_max_bytes: int | None
    power_mean_watts: float | None
    """Energy divided by the seconds with measured energy."""
    energy_joules: float | None
    """Differences of the device's own counter. Without a counter, power samples integrated by the trapezoidal rule. Samples
    do not see the time in between (the sensors of A100 and H100 measure a quarter of the time)."""
    energy_counted_share: float | None
    """Share of the seconds with measured energy that the counter covers. The rest is from power samples."""
    temperature_max_celsius: float | None
    throttled: dict[str, float] | None
    """Share of the measured time by reason."""
    ecc_corrected: int | None
    """Errors counted in the window."""
    ecc_uncorrected: int | None
    gone_at: float | None
    """Time of the last sample of a device that was lost while its worker was still recorded. Start of its session if it has
    no sample."""
    gone: str | None
    clock_mean_mhz: float | None = None
    """Mean clock of the processing units, weighted by utilization."""
    energy_seconds: float = 0.0
    """Seconds with measured energy, by counter or samples."""
    both_counted_joules: float | None = None
    """Energy by the counter in the seconds that power samples also cover."""
    both_sampled_joules: float | None = None
    """Energy by power samples in the same seconds."""
    counter_restarts: int = 0
    """Number of times that the energy counter decreased. It was reset. Samples cover that time or it is a gap."""
    interval_seconds: float = 1.0
    """Configured time between samples."""

    foreign: dict[str, float] | None = None
    """Foreign programs that computed on it in the window, with the time of the first sample. None if not sampled."""
    spent: dict[str, ActivityEnergy] = field(default_factory=dict)
    """Energy by activity of its worker, '' if the activity is unknown. The sum is `energy_joules`."""

    @property
    def energy_disagreement(self) -> float | None:
        """Integral of the power samples ÷ energy counter − 1, over the same seconds. None without one of them."""
        counted, sampled = self.both_counted_joules, self.both_sampled_joules
        return sampled / counted - 1 if counted and sampled is not None else None


@dataclass(frozen=True, slots=True)
class WorkerTelemetry:
    """Last start of the recorder of a worker's host."""

    worker: int
    host: str
    accelerators_expected: int | None
    accelerators_sampled: int
    not_sampled: dict[str, str]
    recorded_until: float | None = None
    """Time of its last sample. None if there is none."""


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A telemetry file with skipped lines."""

    file: str
    line: int
    """First skipped line, from 1. 0 for the file itself."""
    why: str
    """Reason for skipping the first."""
    lines: int
    """Number of skipped lines."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Telemetry of all devices of a run over a time window. Times are in seconds since the start of the run."""

    window: tuple[float, float]
    workers: tuple[WorkerTelemetry, ...]
    devices: tuple[DeviceTelemetry, ...]
    damaged: tuple[DamagedFile, ...] = ()
    """Unreadable data, which no value includes."""
    courses: tuple[UtilizationSeries, ...] = ()
    """Utilization time series by kind of device, from the start of the run to the end of the window."""
    device_courses: tuple[DeviceCourse, ...] = ()
    """Utilization over time of the first MOST_DEVICE_COURSES devices."""
    loads: tuple[HostLoad, ...] = ()
    """Processor load of each machine. Empty if no recorder measured it, as in releases up to 0.9."""
    is_by_minute: bool = False
    """True if it was summed from minutes: the energy of a minute is divided by the activities' share of its time."""

    @property
    def accelerators(self) -> tuple[DeviceTelemetry, ...]:
        return tuple(device for device in self.devices if device.device.kind == "accelerator")

    @property
    def energy_joules(self) -> float | None:
        """Energy of all accelerators in joules. None if there are none, or if one has no value: a partial sum is no total."""
        figures = [device.energy_joules for device in self.accelerators]
        known = [figure for figure in figures if figure is not None]
        return sum(known) if known and len(known) == len(figures) else None


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    seconds: float = 0.0

    def add(self, value: float, seconds: float) -> None:
        self.total += value * seconds
        self.seconds += seconds

    def value(self) -> float | None:
        return self.total / self.seconds if self.seconds else None


@dataclass(slots=True)
class _Spent:
    counted: _Mean = field(default_factory=_Mean)
    """By differences of the energy counter."""
    sampled: _Mean = field(default_factory=_Mean)
    """By power samples, in time without counter values."""
    sampled_beside: _Mean = field(default_factory=_Mean)
    """By power samples, in time with counter values."""
    counted_beside: _Mean = field(default_factory=_Mean)
    """By the counter, in time with power samples."""


@dataclass(slots=True)
class _Sum:
    session: Session
    device: Device
    course: SeriesBuilder
    own_course: SeriesBuilder | None
    """Time series of this device. None beyond the first MOST_DEVICE_COURSES devices."""
    measured: float = 0.0
    utilisation: _Mean = field(default_factory=_Mean)
    clock: _Mean = field(default_factory=_Mean)
    restarts: int = 0
    spans: Sequence[WorkerSpan] = ()
    span_ends: Sequence[float] = ()
    spent: dict[str, _Spent] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    throttle_seconds: float = 0.0
    ecc: dict[str, int] = field(default_factory=dict)
    last: RecordedSample | None = None
    foreign: dict[str, float] | None = None
    is_new_session: bool = True
    gone: str | None = None

    def begin(self, session: Session, device: Device) -> None:
        self.session, self.device, self.is_new_session = session, device, True

    def add(self, look: RecordedSample, window: tuple[float, float], gap_seconds: float) -> None:
        if look.gone is not None:
            self.gone = look.gone
            return
        before, self.last, self.gone = self.last, look, None
        is_new_session, self.is_new_session = self.is_new_session, False
        if window[0] <= look.at <= window[1]:
            self._raise_highest(look)
            if look.foreign is not None:
                self.foreign = dict.fromkeys(look.foreign, look.at) | (self.foreign or {})
        if before is None or not 0 < look.at - before.at <= gap_seconds:
            return
        self.course.add(self.device, look, before.at)
        if self.own_course is not None:
            self.own_course.add(self.device, look, before.at)
        start, end = max(before.at, window[0]), min(look.at, window[1])
        if start < end:
            self._span(look, start, end)
            self._add_energy(before, look, start, end, is_continuous=not is_new_session)
            self._count_errors(before, look)

    def _raise_highest(self, look: RecordedSample) -> None:
        for name in ("memory_used_bytes", "temperature_celsius"):
            value = getattr(look, name)
            if isinstance(look, Minute) and name in look.columns:
                value = look.columns[name][2]
            if value is not None and value > self.highest.get(name, float("-inf")):
                self.highest[name] = value

    def _span(self, look: RecordedSample, start: float, end: float) -> None:
        seconds = end - start
        self.measured += seconds
        if look.utilisation is not None:
            self.utilisation.add(look.utilisation, seconds)
            if look.clock_mhz is not None:
                self.clock.add(look.clock_mhz, seconds * look.utilisation)
        if look.throttle is not None:
            self.throttle_seconds += seconds
            shares = look.throttled if isinstance(look, Minute) else dict.fromkeys(look.throttle, 1.0)
            for reason, share in shares.items():
                self.throttled[reason] = self.throttled.get(reason, 0.0) + seconds * share

    def _add_energy(
        self, before: RecordedSample, look: RecordedSample, start: float, end: float, *, is_continuous: bool
    ) -> None:
        was, now = before.energy_joules, look.energy_joules
        # a counter that decreased was reset in between and does not cover this time
        counted = None
        if is_continuous and was is not None and now is not None and now >= was:
            counted = (now - was) / (look.at - before.at)
        self.restarts += was is not None and now is not None and counted is None
        for activity, since, until in self._parts(start, end):
            spent, seconds = self.spent.setdefault(activity, _Spent()), until - since
            sampled = _sampled(before, look, since, until)
            if counted is not None:
                spent.counted.add(counted, seconds)
                if sampled is not None:
                    spent.sampled_beside.add(sampled, seconds)
                    spent.counted_beside.add(counted, seconds)
            elif sampled is not None:
                spent.sampled.add(sampled, seconds)

    def _parts(self, start: float, end: float) -> Iterator[tuple[str, float, float]]:
        """Split the time between two samples by the worker's activity, '' if it is unknown."""
        index = bisect_right(self.span_ends, start)
        while start < end:
            span = self.spans[index] if index < len(self.spans) else None
            if span is None or span.start >= end:
                yield "", start, end
                return
            if span.start > start:
                yield "", start, span.start
                start = span.start
            until = min(end, span.end)
            yield span.activity, start, until
            start, index = until, index + 1

    def _total(self, name: str) -> _Mean:
        means: list[_Mean] = [getattr(one, name) for one in self.spent.values()]
        return _Mean(math.fsum(one.total for one in means), math.fsum(one.seconds for one in means))

    def _is_counter_stuck(self) -> bool:
        return self._total("counted").total == 0.0 and self._total("sampled_beside").total > 0.0

    def _spent(self) -> dict[str, ActivityEnergy]:
        by = "sampled_beside" if self._is_counter_stuck() else "counted"
        return {
            activity: ActivityEnergy(
                getattr(one, by).total + one.sampled.total, getattr(one, by).seconds + one.sampled.seconds
            )
            for activity, one in sorted(self.spent.items())
        }

    def _energy(self) -> tuple[float, float, float]:
        is_stuck = self._is_counter_stuck()
        first, rest = self._total("sampled_beside" if is_stuck else "counted"), self._total("sampled")
        seconds = first.seconds + rest.seconds
        return first.total + rest.total, seconds, first.seconds / seconds if seconds and not is_stuck else 0.0

    def _count_errors(self, before: RecordedSample, look: RecordedSample) -> None:
        for name in ("ecc_corrected", "ecc_uncorrected"):
            was, now = getattr(before, name), getattr(look, name)
            if was is not None and now is not None:
                # A counter that decreased was reset: its value counts errors since the reset.
                self.ecc[name] = self.ecc.get(name, 0) + (now - was if now >= was else now)

    def result(self, window: tuple[float, float], recorded_until: float, gap_seconds: float) -> DeviceTelemetry:
        last_seen = self.session.at if self.last is None else self.last.at
        is_gone = self.gone is not None or recorded_until - last_seen > gap_seconds
        memory = self.highest.get("memory_used_bytes")
        joules, joule_seconds, counted_share = self._energy()
        counted_beside, sampled_beside = self._total("counted_beside"), self._total("sampled_beside")
        return DeviceTelemetry(
            worker=self.session.worker,
            host=self.session.host,
            device=self.device,
            seconds_measured=self.measured,
            seconds_missing=max(0.0, window[1] - window[0] - self.measured),
            utilisation_mean=self.utilisation.value(),
            memory_used_max_bytes=None if memory is None else int(memory),
            power_mean_watts=joules / joule_seconds if joule_seconds else None,
            energy_joules=joules if joule_seconds else None,
            energy_counted_share=counted_share if joule_seconds else None,
            temperature_max_celsius=self.highest.get("temperature_celsius"),
            throttled=(
                {reason: seconds / self.throttle_seconds for reason, seconds in sorted(self.throttled.items())}
                if self.throttle_seconds
                else None
            ),
            ecc_corrected=self.ecc.get("ecc_corrected"),
            ecc_uncorrected=self.ecc.get("ecc_uncorrected"),
            gone_at=last_seen if is_gone else None,
            gone=(self.gone or "gives no more samples") if is_gone else None,
            clock_mean_mhz=self.clock.value(),
            energy_seconds=joule_seconds,
            both_counted_joules=counted_beside.total if counted_beside.seconds else None,
            both_sampled_joules=sampled_beside.total if sampled_beside.seconds else None,
            counter_restarts=self.restarts,
            interval_seconds=self.session.interval_seconds,
            foreign=self.foreign,
            spent=self._spent() if joule_seconds else {},
        )


def _sampled(before: RecordedSample, look: RecordedSample, start: float, end: float) -> float | None:
    if look.power_watts is None or before.power_watts is None:
        return None
    if isinstance(look, Minute):
        return look.power_watts  # the mean of the time since `before`
    slope = (look.power_watts - before.power_watts) / (look.at - before.at)
    return before.power_watts + slope * ((start + end) / 2 - before.at)


_Place = tuple[int, str]


Spans = Mapping[int, Sequence[WorkerSpan]]


def summarise(records: Iterable[Record], window: tuple[float, float], spans: Spans | None = None) -> Telemetry:
    """Return the telemetry of each device over a time window.

    `spans`: activities of each worker, by which the energy is divided. A sample counts for the time since the previous sample,
    cut at the window's edges: 300 W over a window of 100 s is 30,000 J, independent of the sampling times. A gap of more than 3
    intervals is missing time.
    """
    part = _part_of(records, window, spans)
    return replace(part.telemetry, loads=part.loads.loads())


FEW_FILES = 16
"""From this number of files on, they are read by all processors."""


def summarise_folder(
    folder: Path, window: tuple[float, float], spans: Spans, offsets: Mapping[str, float], *, by_minute: bool
) -> Telemetry:
    """Return the telemetry of all files of a run. `offsets`: as in `on_one_axis`."""
    try:
        logs = files(folder, by_minute=by_minute)
    except OSError:
        return summarise(read(folder), window)
    named = [{int(number) for number in re.findall(r"^\d+", file.name)} & spans.keys() for file in logs]
    jobs = [
        (
            file,
            window,
            {number: spans[number] for number in numbers},
            offsets,
            MOST_DEVICE_COURSES if index < MOST_DEVICE_COURSES else 0,
        )
        for index, (file, numbers) in enumerate(zip(logs, named, strict=True))
    ]
    if len(jobs) < FEW_FILES:
        return _together([_part_of_file(job) for job in jobs], window, by_minute=by_minute)
    with side_processes(len(os.sched_getaffinity(0))) as pool:
        return _together([*pool.map(_part_of_file, jobs, chunksize=4)], window, by_minute=by_minute)


@dataclass(frozen=True, slots=True)
class _Part:
    """Telemetry of some files. `telemetry` is without the loads, because recorders of one machine share them."""

    telemetry: Telemetry
    loads: LoadBuilder


def _part_of_file(job: tuple[Path, tuple[float, float], Spans, Mapping[str, float], int]) -> _Part:
    file, window, spans, offsets, most_courses = job
    return _part_of(on_one_axis(read_file(file), offsets), window, spans, most_courses)


def _together(parts: Sequence[_Part], window: tuple[float, float], *, by_minute: bool) -> Telemetry:
    loads, courses = LoadBuilder(window), dict[Kind, UtilizationSeries]()
    for part in parts:
        loads.include(part.loads)
        for course in part.telemetry.courses:
            courses[course.kind] = added(courses[course.kind], course) if course.kind in courses else course
    every = [part.telemetry for part in parts]
    return Telemetry(
        window=window,
        workers=tuple(sorted((one for each in every for one in each.workers), key=lambda one: (one.worker, one.host))),
        devices=tuple(one for each in every for one in each.devices),
        damaged=tuple(one for each in every for one in each.damaged),
        courses=tuple(course for _, course in sorted(courses.items())),
        device_courses=tuple(one for each in every for one in each.device_courses)[:MOST_DEVICE_COURSES],
        loads=loads.loads(),
        is_by_minute=by_minute,
    )


def _part_of(
    records: Iterable[Record], window: tuple[float, float], spans: Spans | None, most_courses: int = MOST_DEVICE_COURSES
) -> _Part:
    assert window[0] < window[1], f"the end of a window must be after its start, but found {window!r}"
    sums: dict[tuple[_Place, str], _Sum] = {}
    sessions: dict[_Place, Session] = {}
    recorded_until: dict[_Place, float] = {}
    damaged: dict[str, DamagedFile] = {}
    courses: dict[Kind, SeriesBuilder] = {}
    loads = LoadBuilder(window)
    at_work = {worker: (each, [span.end for span in each]) for worker, each in (spans or {}).items()}
    for record in records:
        match record:
            case Damage(file, line, why):
                before = damaged.get(file) or DamagedFile(file, line, why, 0)
                damaged[file] = replace(before, lines=before.lines + 1)
            case Session():
                place = (record.worker, record.host)
                sessions[place] = record
                for device in record.devices:
                    course = courses.setdefault(device.kind, SeriesBuilder(device.kind, window[1]))
                    of_worker, ends = at_work.get(record.worker, ((), []))
                    own = SeriesBuilder(device.kind, window[1]) if len(sums) < most_courses else None
                    one = sums.setdefault(
                        (place, device.id), _Sum(record, device, course, own, spans=of_worker, span_ends=ends)
                    )
                    one.begin(record, device)
            case Sample(session, device, look):
                gap_seconds = GAP_INTERVALS * session.interval_seconds
                gap_seconds += MINUTE if isinstance(look, Minute) and not look.begins else 0.0
                loads.add(session, look)
                if look.at <= window[1] + gap_seconds:
                    place = (session.worker, session.host)
                    sums[place, device.id].add(look, window, gap_seconds)
                    recorded_until[place] = look.at
    telemetry = Telemetry(
        window=window,
        workers=tuple(_worker(session, recorded_until.get(place)) for place, session in sorted(sessions.items())),
        devices=tuple(
            one.result(window, recorded_until.get(place, one.session.at), GAP_INTERVALS * one.session.interval_seconds)
            for (place, _), one in sums.items()
        ),
        damaged=tuple(damaged.values()),
        courses=tuple(course.course() for _, course in sorted(courses.items())),
        device_courses=tuple(
            DeviceCourse(one.session.worker, one.session.host, one.device.id, one.own_course.course().utilisation)
            for one in sums.values()
            if one.own_course is not None
        ),
    )
    return _Part(telemetry, loads)


def _worker(session: Session, recorded_until: float | None) -> WorkerTelemetry:
    sampled = sum(device.kind == "accelerator" for device in session.devices)
    return WorkerTelemetry(
        session.worker, session.host, session.accelerators, sampled, session.not_sampled, recorded_until
    )
