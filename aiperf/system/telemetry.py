"""The way in for readers of telemetry: what was recorded, what it adds up to, what it warns of.

telemetry = summarise(read(run / "telemetry"), window=(3600.0, 7200.0))
for warning in telemetry_warnings(telemetry, Limits()): ...
"""

from __future__ import annotations

from aiperf.system.clock_shift import on_one_axis
from aiperf.system.course import Course
from aiperf.system.host_load import HostLoad
from aiperf.system.log import Damage, Sample, Session, files, path, read
from aiperf.system.summary import DamagedFile, DeviceTelemetry, Telemetry, WorkerTelemetry, summarise
from aiperf.system.warnings import Limits, died, telemetry_warnings

__all__ = [
    "Course",
    "Damage",
    "DamagedFile",
    "DeviceTelemetry",
    "HostLoad",
    "Limits",
    "Sample",
    "Session",
    "Telemetry",
    "WorkerTelemetry",
    "died",
    "files",
    "on_one_axis",
    "path",
    "read",
    "summarise",
    "telemetry_warnings",
]
