"""Probe of the data set: readable on this node, and equal to that of other nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiperf.data.survey import data_fingerprint
from aiperf.preflight.reading import ProbeReading, Setting


@dataclass(frozen=True, slots=True)
class Data:
    """Fingerprint of the data set on this node."""

    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `reading.Probe`. Raises MissingData, DataError."""
        return ProbeReading(probe=self.name, unit=self.unit, facts={"fingerprint": data_fingerprint(setting.dataset)})
