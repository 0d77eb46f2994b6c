"""Probes of properties without a speed: software versions, the data set, and the description of the node."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import ClassVar

from aiperf.data.survey import data_fingerprint
from aiperf.measure.probe import ProbeReading, Setting
from aiperf.system.describe import describe_node, folders_of, hash_of, versions
from aiperf.system.samplers.attach import sampled_accelerators
from aiperf.system.source import digest, installed


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of Python, installed packages, this program's sources and the accelerators' driver."""

    name: ClassVar[str] = "versions"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `probe.Probe`."""
        devices, _ = sampled_accelerators()
        return ProbeReading(
            probe=self.name,
            unit=self.unit,
            facts={
                "python": platform.python_version(),
                "packages": versions(),
                "source": digest(installed()),
                "drivers": sorted({device.driver for device in devices if device.driver}),
            },
        )


@dataclass(frozen=True, slots=True)
class Data:
    """Fingerprint of the data set on this node."""

    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `probe.Probe`. Raises MissingData, DataError."""
        return ProbeReading(probe=self.name, unit=self.unit, facts={"fingerprint": data_fingerprint(setting.dataset)})


@dataclass(frozen=True, slots=True)
class System:
    """Hardware, firmware, kernel, libraries, links, storage, container, limits, variables, and the hash of all these."""

    name: ClassVar[str] = "system"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `probe.Probe`."""
        folders = folders_of(setting.folder, getattr(setting.dataset, "root", None)) | {"temporary": setting.temporary}
        described = describe_node(folders)
        return ProbeReading(
            probe=self.name, unit=self.unit, facts={"hash": hash_of(described), "description": described}
        )
