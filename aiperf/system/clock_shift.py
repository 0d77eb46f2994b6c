"""Telemetry of several hosts on one axis of time: that of the driver's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from aiperf.system.log import Record, Sample, Session


def on_one_axis(records: Iterable[Record], offsets: Mapping[str, float]) -> Iterator[Record]:
    """The records of `log.read`, with what each host's clock is ahead of the driver's taken out of its times.

    `offsets`: seconds by host; one that is not named is taken to be right.
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
