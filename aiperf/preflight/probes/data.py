"""Whether a node can read the data set, and whether it is the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiperf.data.survey import data_fingerprint
from aiperf.preflight.reading import Reading, Setting


@dataclass(frozen=True, slots=True)
class Data:
    """The set as this node finds it."""

    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`. Raises MissingData, DataError."""
        return Reading(probe=self.name, unit=self.unit, facts={"fingerprint": data_fingerprint(setting.dataset)})
