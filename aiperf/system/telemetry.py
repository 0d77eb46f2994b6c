"""Interface for readers of telemetry: records, sums and warnings.

telemetry = summarise(read(run / "telemetry"), window=(3600.0, 7200.0))
for warning in telemetry_warnings(telemetry, Limits()): ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from aiperf.system.load.host_load import HostLoad
from aiperf.system.log import Damage, Record, Sample, Session, files, path, read
from aiperf.system.summary import DamagedFile, DeviceTelemetry, Telemetry, WorkerTelemetry, summarise
from aiperf.system.utilization_series import UtilizationSeries
from aiperf.system.warnings import WarningThresholds, died, telemetry_warnings

__all__ = [
    "Damage",
    "DamagedFile",
    "DeviceTelemetry",
    "HostLoad",
    "Sample",
    "Session",
    "Telemetry",
    "UtilizationSeries",
    "WarningThresholds",
    "WorkerTelemetry",
    "died",
    "files",
    "on_one_axis",
    "path",
    "read",
    "summarise",
    "telemetry_warnings",
]


def on_one_axis(records: Iterable[Record], offsets: Mapping[str, float]) -> Iterator[Record]:
    """Yield the records of `log.read` in the time of the driver's clock.

    Args:
        offsets: seconds by which a host's clock is ahead (default: 0).
    """
    shifted: dict[int, Session] = {}
    for record in records:
        session = record if isinstance(record, Session) else record.session if isinstance(record, Sample) else None
        ahead = 0.0 if session is None else offsets.get(session.host, 0.0)
        if session is None or not ahead:
            yield record
        elif isinstance(record, Session):
            shifted[id(record)] = msgspec.structs.replace(record, at=record.at - ahead)
            yield shifted[id(record)]
        else:
            assert isinstance(record, Sample)
            look = msgspec.structs.replace(record.look, at=record.look.at - ahead)
            yield Sample(shifted.get(id(record.session), record.session), record.device, look)
