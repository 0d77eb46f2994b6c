"""Input, interface and result of a probe (a measurement on a node), which runs in its own process (`prober.py`)."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from aiperf.data.dataset_config import DataSetConf


@dataclass(frozen=True, slots=True)
class Setting:
    address: str
    folder: Path
    """A folder in the run's folder or in the folder of runs. All nodes must see it."""
    mark: str
    temporary: Path
    accelerators: int
    processors: int
    dataset: DataSetConf
    precision: str


MARK = "mark"


class ProbeReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one probe (measurement) on one node: values in the probe's unit, or the reason for a failure."""

    probe: str
    unit: str
    series: dict[str, list[float]] = {}
    """By measured object (folder, device, partner): every repetition, in order of measurement."""
    facts: dict[str, Any] = {}
    """Other results and properties of the measurement: sizes, types, versions. JSON values."""
    failed: str | None = None
    seconds: float = 0.0

    def best(self) -> float | None:
        """Rate of the slowest measured object. That of an object is its largest, because disturbances only reduce a speed."""
        tops = [max(values) for values in self.series.values() if values]
        return min(tops) if tops else None


class Probe(Protocol):
    """Interface of a probe (one measurement on a node). `name` identifies the probe. `unit` is the unit of its values."""

    name: ClassVar[str]
    unit: ClassVar[str]

    def measure(self, setting: Setting) -> ProbeReading:
        """Measure, and return the result. It is called in a separate process. An exception is reported as a failed result."""


class NodeReadings(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    """Ray's identifier, or '' without Ray."""
    address: str
    host: str
    kind: str
    """Nodes of one kind have equal hardware, as reported by Ray and the kernel, and are compared with each other."""
    is_head: bool
    readings: dict[str, ProbeReading]
    boot_id: str | None = None
    """Boot identifier of its kernel. Nodes with one identifier are on one host. None if unknown."""


def failed(probe: Probe, why: str, seconds: float = 0.0) -> ProbeReading:
    return ProbeReading(probe=probe.name, unit=probe.unit, failed=why, seconds=seconds)


@contextmanager
def meeting(parent: Path) -> Iterator[tuple[Path, str]]:
    """Yield a folder in `parent`, and the random content of a file MARK in it, by which other nodes recognise it."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".preflight-", dir=parent.resolve()))
    try:
        mark = secrets.token_hex(16)
        (folder / MARK).write_text(mark)
        yield folder, mark
    finally:
        shutil.rmtree(folder, ignore_errors=True)


CLOCK = "clock"
"""Name of the probe of clocks: NTP's formula (RFC 5905, section 8) over a few round trips."""
ROUND_TRIPS = 8


class RoundTrip(NamedTuple):
    """One request and its answer, in seconds since 1970: by the head's clock, the node's (twice), and the head's."""

    sent: float
    received: float
    answered: float
    returned: float

    @property
    def offset(self) -> float:
        """Seconds by which the node's clock is ahead of the head's."""
        return ((self.received - self.sent) + (self.answered - self.returned)) / 2

    @property
    def error(self) -> float:
        return ((self.returned - self.sent) - (self.answered - self.received)) / 2


class Offset(msgspec.Struct, frozen=True):
    """Seconds by which a node's clock is ahead of the head's, and their largest possible error."""

    seconds: float
    error: float


def clock_reading(trips: Sequence[RoundTrip]) -> ProbeReading:
    series = {"offset": [trip.offset for trip in trips], "error": [trip.error for trip in trips]}
    return ProbeReading(probe=CLOCK, unit="seconds", series=series)


def clock_offset(measured: ProbeReading) -> Offset:
    """Return the offset of the round trip with the smallest error.

    >>> clock_offset(clock_reading([RoundTrip(0.0, 5.5, 5.5, 1.0), RoundTrip(2.0, 7.05, 7.05, 2.1)]))
    Offset(seconds=5.0, error=0.05)
    """
    error, seconds = min(zip(measured.series["error"], measured.series["offset"], strict=True))
    return Offset(round(seconds, 6), round(error, 6))
