"""Utilization and memory time series of a run: means over equal parts of its time, over all devices of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aiperf.system.log import RecordedSample
from aiperf.system.sampler import Device, Kind

PARTS = 240


@dataclass(frozen=True, slots=True)
class UtilizationSeries:
    """Time series of all devices of one kind, with one value per part of the time. None if not measured."""

    kind: Kind
    part_seconds: float
    utilisation: tuple[float | None, ...]
    """0 to 1, as the device's vendor counts it."""
    utilisation_seconds: tuple[float, ...]
    """Device-seconds with measured utilization."""
    memory: tuple[float | None, ...]
    """Used memory as a share of the total."""
    memory_seconds: tuple[float, ...]


def overlaps(since: float, until: float, window: tuple[float, float], parts: int) -> Iterator[tuple[int, float]]:
    """Yield (index of a part, seconds of overlap) for each of `parts` equal parts of a window."""
    start, end, width = max(since, window[0]), min(until, window[1]), (window[1] - window[0]) / parts
    while start < end:
        index = min(parts - 1, int((start - window[0]) / width))
        edge = end if index == parts - 1 else min(end, window[0] + (index + 1) * width)
        if edge <= start:  # rounding put the part's edge at the start: the rest belongs to the next part
            index, edge = index + 1, min(end, window[0] + (index + 2) * width)
        yield index, edge - start
        start = edge


@dataclass(slots=True)
class _Sums:
    total: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    seconds: list[float] = field(default_factory=lambda: [0.0] * PARTS)

    def add(self, value: float, index: int, seconds: float) -> None:
        self.total[index] += value * seconds
        self.seconds[index] += seconds

    def means(self) -> tuple[float | None, ...]:
        return tuple(t / s if s > 0 else None for t, s in zip(self.total, self.seconds, strict=True))


@dataclass(slots=True)
class SeriesBuilder:
    kind: Kind
    end: float
    utilisation: _Sums = field(default_factory=_Sums)
    memory: _Sums = field(default_factory=_Sums)

    def add(self, device: Device, look: RecordedSample, since: float) -> None:
        memory = None
        if look.memory_used_bytes is not None and device.memory_bytes:
            memory = look.memory_used_bytes / device.memory_bytes
        for index, seconds in overlaps(since, look.at, (0.0, self.end), PARTS):
            if look.utilisation is not None:
                self.utilisation.add(look.utilisation, index, seconds)
            if memory is not None:
                self.memory.add(memory, index, seconds)

    def course(self) -> UtilizationSeries:
        """Return the series: 240 equal parts from the start of the run to `end`."""
        return UtilizationSeries(
            self.kind,
            self.end / PARTS,
            self.utilisation.means(),
            tuple(self.utilisation.seconds),
            self.memory.means(),
            tuple(self.memory.seconds),
        )


def added(one: UtilizationSeries, other: UtilizationSeries) -> UtilizationSeries:
    """Return the series of the devices of both. Both cover the same time."""
    utilisation, memory = _Sums(), _Sums()
    for series in (one, other):
        for sums, values, seconds in (
            (utilisation, series.utilisation, series.utilisation_seconds),
            (memory, series.memory, series.memory_seconds),
        ):
            for index, (value, each) in enumerate(zip(values, seconds, strict=True)):
                sums.add(value or 0.0, index, each)
    means = utilisation.means(), tuple(utilisation.seconds), memory.means(), tuple(memory.seconds)
    return UtilizationSeries(one.kind, one.part_seconds, *means)


def mean(values: tuple[float | None, ...], seconds: tuple[float, ...]) -> float | None:
    """Return the mean of a series, weighted by the measured seconds. None if nothing was measured."""
    whole = sum(seconds)
    return sum((v or 0.0) * s for v, s in zip(values, seconds, strict=True)) / whole if whole > 0 else None
