"""A sampler that gives what another one once saw: to look at a run again, or to rehearse a machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from aiperf.system.log import Record, Sample, Session
from aiperf.system.sampler import Device, DeviceSample, Unavailable


class ReplaySampler:
    """The looks of one worker's first session, a moment for each call, and none when they are over.

    `records` are those of one file: `parse(file.open("rb"), file.name)`. Raises Unavailable when they hold no session.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        rest = iter(records)
        first = next(rest, None)
        if not isinstance(first, Session):
            raise Unavailable("the recording holds no session")
        self._devices = first.devices
        looks = [record.look for record in rest if isinstance(record, Sample) and record.session == first]
        self._moments = iter([tuple(moment) for _, moment in groupby(looks, key=lambda look: look.at)])

    def devices(self) -> Sequence[Device]:
        return self._devices

    def sample(self, wanted: Collection[str] | None = None) -> Sequence[DeviceSample]:
        return [look for look in next(self._moments, ()) if wanted is None or look.device in wanted]

    def close(self) -> None:
        self._moments = iter(())
