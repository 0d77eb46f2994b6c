"""Whether a node can read the data set, and whether it is the same one."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import ClassVar

import msgspec

from aiperf.data.dataset_config import DataSetConf
from aiperf.data.survey import describe
from aiperf.preflight.reading import Reading, Setting


@dataclass(frozen=True, slots=True)
class Data:
    """The set as this node finds it."""

    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`. Raises MissingData, DataError."""
        return Reading(probe=self.name, unit=self.unit, facts={"fingerprint": fingerprint(setting.dataset)})


def fingerprint(conf: DataSetConf) -> str:
    """SHA-256 over what the set is, in numbers, as the files here say. 64 hex digits."""
    return hashlib.sha256(msgspec.json.encode(asdict(describe(conf)), order="sorted")).hexdigest()
