"""Telemetry of a run, added up per device over a window: one pass, memory by the number of devices.

Nothing is filled in: a stretch without samples is missing time, and adds neither energy nor utilisation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aiperf.accounting.spans import Span
from aiperf.system.course import Course, GrowingCourse
from aiperf.system.host_load import GrowingLoads, HostLoad
from aiperf.system.log import Damage, Look, Record, Sample, Session
from aiperf.system.sampler import Device, Kind

GAP_INTERVALS = 3.0
"""Two samples further apart than this many intervals leave a gap between them."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Energy of one device while its worker was at one thing."""

    joules: float
    seconds: float
    """That it was measured in."""


@dataclass(frozen=True, slots=True)
class DeviceTelemetry:
    """One device of one worker over the window. None = not measured."""

    worker: int
    host: str
    device: Device
    seconds_measured: float
    seconds_missing: float
    """Of the window, for whatever reason."""
    utilisation_mean: float | None
    memory_used_max_bytes: int | None
    power_mean_watts: float | None
    """Energy over the seconds that it was measured in."""
    energy_joules: float | None
    """Differences of the device's own counter, which misses nothing; where there is none, power samples integrated by the
    trapezoidal rule, which see the moments of the samples alone (an A100's or H100's sensor a quarter of the time)."""
    energy_counted_share: float | None
    """Of the seconds that energy was measured in, how much of it the counter told; the rest are power samples."""
    temperature_max_celsius: float | None
    throttled: dict[str, float] | None
    """Reason -> share of the measured time."""
    ecc_corrected: int | None
    """Errors counted inside the window."""
    ecc_uncorrected: int | None
    gone_at: float | None
    """Last seen then, while its worker was recorded on; 'at' of its session when it was never seen."""
    gone: str | None
    clock_mean_mhz: float | None = None
    """Of the processing units while they worked: each sample weighs as its utilisation does."""
    energy_seconds: float = 0.0
    """That energy was measured in, whichever way."""
    both_counted_joules: float | None = None
    """By the counter, in those seconds that power samples tell as well."""
    both_sampled_joules: float | None = None
    """By power samples, in the same seconds."""
    counter_restarts: int = 0
    """Times that the energy counter fell: it began anew, and that time is told by samples or not at all."""
    interval_seconds: float = 1.0
    """Between samples, as its recorder was told."""

    foreign: dict[str, float] | None = None
    """Programs of others that computed on it in the window, each with when it was seen first; None = not looked for."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """Its energy by what its worker was at; '' where it was at nothing that is known. Together they are `energy_joules`."""

    @property
    def energy_disagreement(self) -> float | None:
        """Integral of the samples ÷ the counter − 1, over the seconds that both tell; None without both, or of a counter that
        stood still."""
        counted, sampled = self.both_counted_joules, self.both_sampled_joules
        return sampled / counted - 1 if counted and sampled is not None else None


@dataclass(frozen=True, slots=True)
class WorkerTelemetry:
    """What the last session of a worker said of itself; of one that has several hosts, on one of them."""

    worker: int
    host: str
    accelerators_expected: int | None
    accelerators_sampled: int
    not_sampled: dict[str, str]
    recorded_until: float | None = None
    """Its last look; None: there is none."""


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A telemetry file with lines that were left out."""

    file: str
    line: int
    """The first of them, from 1; 0: the file itself."""
    why: str
    """What is wrong with the first."""
    lines: int
    """How many they are."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A run's telemetry over a window, in seconds since the run began."""

    window: tuple[float, float]
    workers: tuple[WorkerTelemetry, ...]
    devices: tuple[DeviceTelemetry, ...]
    damaged: tuple[DamagedFile, ...] = ()
    """What could not be read, and stands in no figure."""
    courses: tuple[Course, ...] = ()
    """Of each kind of device, from the run's beginning to the window's end."""
    loads: tuple[HostLoad, ...] = ()
    """Whose work each machine did. Empty: no recorder told, as in releases up to 0.9."""

    @property
    def accelerators(self) -> tuple[DeviceTelemetry, ...]:
        return tuple(device for device in self.devices if device.device.kind == "accelerator")

    @property
    def energy_joules(self) -> float | None:
        """Of all accelerators; None when any of them gives none, since a part would pass for the whole."""
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
    """Joules by counter, by samples beside it, by samples alone; and the seconds of the former two and of the last."""

    counted: float = 0.0
    beside: float = 0.0
    alone: float = 0.0
    counted_seconds: float = 0.0
    beside_seconds: float = 0.0
    alone_seconds: float = 0.0


@dataclass(slots=True)
class _Sum:
    """What has been seen of one device; mutable, and seen by nobody but `summarise`."""

    session: Session
    device: Device
    course: GrowingCourse
    """Of all devices of its kind."""
    measured: float = 0.0
    utilisation: _Mean = field(default_factory=_Mean)
    clock: _Mean = field(default_factory=_Mean)
    """MHz, over the seconds at work."""
    counted: _Mean = field(default_factory=_Mean)
    """Watts by the energy counter's differences."""
    sampled: _Mean = field(default_factory=_Mean)
    """Watts by power samples, where the counter told nothing."""
    sampled_beside: _Mean = field(default_factory=_Mean)
    """Watts by power samples, where the counter told something."""
    counted_beside: _Mean = field(default_factory=_Mean)
    """Watts by the counter, where power samples told something."""
    restarts: int = 0
    """Of the counter."""
    spans: Sequence[Span] = ()
    """Of its worker."""
    span_ends: Sequence[float] = ()
    spent: dict[str, _Spent] = field(default_factory=dict)
    highest: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    throttle_seconds: float = 0.0
    ecc: dict[str, int] = field(default_factory=dict)
    last: Look | None = None
    """The last good look."""
    foreign: dict[str, float] | None = None
    is_new_session: bool = True
    """No look since the session began: a counter may have begun anew with it."""
    gone: str | None = None

    def begin(self, session: Session, device: Device) -> None:
        self.session, self.device, self.is_new_session = session, device, True

    def add(self, look: Look, window: tuple[float, float], gap_seconds: float) -> None:
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
        start, end = max(before.at, window[0]), min(look.at, window[1])
        if start < end:
            self._span(look, start, end)
            self._add_energy(before, look, start, end, goes_on=not is_new_session)
            self._count_errors(before, look)

    def _raise_highest(self, look: Look) -> None:
        for name in ("memory_used_bytes", "temperature_celsius"):
            value = getattr(look, name)
            if value is not None and value > self.highest.get(name, float("-inf")):
                self.highest[name] = value

    def _span(self, look: Look, start: float, end: float) -> None:
        """What a look says holds for the time since the one before it."""
        seconds = end - start
        self.measured += seconds
        if look.utilisation is not None:
            self.utilisation.add(look.utilisation, seconds)
            if look.clock_mhz is not None:
                self.clock.add(look.clock_mhz, seconds * look.utilisation)
        if look.throttle is not None:
            self.throttle_seconds += seconds
            for reason in look.throttle:
                self.throttled[reason] = self.throttled.get(reason, 0.0) + seconds

    def _add_energy(self, before: Look, look: Look, start: float, end: float, *, goes_on: bool) -> None:
        """Of the time between two looks. A counter's difference is spread evenly over it, power runs straight."""
        for activity, since, until in self._parts(start, end):
            self._add_part(self.spent.setdefault(activity, _Spent()), before, look, since, until, goes_on=goes_on)
        sampled = _sampled(before, look, start, end)
        was, now = before.energy_joules, look.energy_joules
        # a counter that fell began anew somewhere in between: it does not tell this time
        if goes_on and was is not None and now is not None and now >= was:
            self.counted.add((now - was) / (look.at - before.at), end - start)
            if sampled is not None:
                self.sampled_beside.add(sampled, end - start)
                self.counted_beside.add((now - was) / (look.at - before.at), end - start)
            return
        self.restarts += was is not None and now is not None and (now < was or not goes_on)
        if sampled is not None:
            self.sampled.add(sampled, end - start)

    def _parts(self, start: float, end: float) -> Iterator[tuple[str, float, float]]:
        """A time between two looks, by what the worker was at; '' where that is not known."""
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

    def _add_part(self, spent: _Spent, before: Look, look: Look, start: float, end: float, *, goes_on: bool) -> None:
        """As `_add_energy`, of a part of that time."""
        sampled = _sampled(before, look, start, end)
        was, now, seconds = before.energy_joules, look.energy_joules, end - start
        if goes_on and was is not None and now is not None and now >= was:
            spent.counted += (now - was) / (look.at - before.at) * seconds
            spent.counted_seconds += seconds
            if sampled is not None:
                spent.beside += sampled * seconds
                spent.beside_seconds += seconds
        elif sampled is not None:
            spent.alone += sampled * seconds
            spent.alone_seconds += seconds

    def _spent(self) -> dict[str, Spent]:
        """By the same choice of counter or samples as `_energy`."""
        stands_still = self.counted.total == 0.0 and self.sampled_beside.total > 0.0
        return {
            activity: Spent(one.beside + one.alone, one.beside_seconds + one.alone_seconds)
            if stands_still
            else Spent(one.counted + one.alone, one.counted_seconds + one.alone_seconds)
            for activity, one in sorted(self.spent.items())
        }

    def _energy(self) -> tuple[float, float, float]:
        """Joules, the seconds that they were measured in, and the share of those that the counter told."""
        counted, beside, sampled = self.counted, self.sampled_beside, self.sampled
        if counted.total == 0.0 and beside.total > 0.0:  # a counter that stands still while power flows is none
            return beside.total + sampled.total, beside.seconds + sampled.seconds, 0.0
        seconds = counted.seconds + sampled.seconds
        return counted.total + sampled.total, seconds, counted.seconds / seconds if seconds else 0.0

    def _count_errors(self, before: Look, look: Look) -> None:
        for name in ("ecc_corrected", "ecc_uncorrected"):
            was, now = getattr(before, name), getattr(look, name)
            if was is not None and now is not None:
                # A counter that fell began anew: what it shows now came since.
                self.ecc[name] = self.ecc.get(name, 0) + (now - was if now >= was else now)

    def result(self, window: tuple[float, float], recorded_until: float, gap_seconds: float) -> DeviceTelemetry:
        last_seen = self.session.at if self.last is None else self.last.at
        is_gone = self.gone is not None or recorded_until - last_seen > gap_seconds
        memory = self.highest.get("memory_used_bytes")
        joules, joule_seconds, counted_share = self._energy()
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
            both_counted_joules=self.counted_beside.total if self.counted_beside.seconds else None,
            both_sampled_joules=self.sampled_beside.total if self.sampled_beside.seconds else None,
            counter_restarts=self.restarts,
            interval_seconds=self.session.interval_seconds,
            foreign=self.foreign,
            spent=self._spent() if joule_seconds else {},
        )


def _sampled(before: Look, look: Look, start: float, end: float) -> float | None:
    """Mean watts by power samples between two moments that lie between two looks: power runs straight."""
    if look.power_watts is None or before.power_watts is None:
        return None
    slope = (look.power_watts - before.power_watts) / (look.at - before.at)
    return before.power_watts + slope * ((start + end) / 2 - before.at)


_Place = tuple[int, str]
"""A worker and one of its hosts."""


def summarise(
    records: Iterable[Record], window: tuple[float, float], spans: Mapping[int, Sequence[Span]] | None = None
) -> Telemetry:
    """Add up the records of `log.read` between two moments, in seconds since the run began.

    A look counts for the time since the one before it, cut at the window's edges: 300 W for the whole of a window of
    100 s is 30,000 J, wherever the samples fall. `spans`: what each worker was at; energy is told apart by it.
    """
    if not window[0] < window[1]:
        raise ValueError(f"a window ends after it begins; this one is {window!r}")
    sums: dict[tuple[_Place, str], _Sum] = {}
    sessions: dict[_Place, Session] = {}
    recorded_until: dict[_Place, float] = {}
    damaged: dict[str, DamagedFile] = {}
    courses: dict[Kind, GrowingCourse] = {}
    loads = GrowingLoads(window)
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
                    course = courses.setdefault(device.kind, GrowingCourse(device.kind, window[1]))
                    of_worker, ends = at_work.get(record.worker, ((), []))
                    one = sums.setdefault(
                        (place, device.id), _Sum(record, device, course, spans=of_worker, span_ends=ends)
                    )
                    one.begin(record, device)
            case Sample(session, device, look):
                gap_seconds = GAP_INTERVALS * session.interval_seconds
                loads.add(session, look)
                if look.at <= window[1] + gap_seconds:
                    place = (session.worker, session.host)
                    sums[place, device.id].add(look, window, gap_seconds)
                    recorded_until[place] = look.at
    return Telemetry(
        window=window,
        workers=tuple(_worker(session, recorded_until.get(place)) for place, session in sorted(sessions.items())),
        devices=tuple(
            one.result(window, recorded_until.get(place, one.session.at), GAP_INTERVALS * one.session.interval_seconds)
            for (place, _), one in sums.items()
        ),
        damaged=tuple(damaged.values()),
        courses=tuple(course.course() for _, course in sorted(courses.items())),
        loads=loads.loads(),
    )


def _worker(session: Session, recorded_until: float | None) -> WorkerTelemetry:
    sampled = sum(device.kind == "accelerator" for device in session.devices)
    return WorkerTelemetry(
        session.worker, session.host, session.accelerators, sampled, session.not_sampled, recorded_until
    )
