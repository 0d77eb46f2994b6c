"""The way in for readers of telemetry: what was recorded, what it adds up to, what there is to doubt.

telemetry = summarise(read(run / "telemetry"), window=(3600.0, 7200.0))
for doubt in doubts(telemetry, Limits()): ...
"""

from __future__ import annotations

from aiperf.system.clock_shift import on_one_axis
from aiperf.system.course import Course
from aiperf.system.doubts import Doubt, Limits, died, doubts
from aiperf.system.log import Damage, Sample, Session, files, path, read
from aiperf.system.summary import DamagedFile, DeviceTelemetry, Telemetry, WorkerTelemetry, summarise

__all__ = [
    "Course",
    "Damage",
    "DamagedFile",
    "DeviceTelemetry",
    "Doubt",
    "Limits",
    "Sample",
    "Session",
    "Telemetry",
    "WorkerTelemetry",
    "died",
    "doubts",
    "files",
    "on_one_axis",
    "path",
    "read",
    "summarise",
]
