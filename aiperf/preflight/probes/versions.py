"""Probe of software versions, which must be equal on all nodes for equal results."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import ClassVar

from aiperf.preflight.reading import ProbeReading, Setting
from aiperf.system.describe import versions
from aiperf.system.samplers.attach import accelerator_samplers, attach
from aiperf.system.source import digest, installed


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of Python, installed packages, this program's sources and the accelerators' driver."""

    name: ClassVar[str] = "versions"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `reading.Probe`."""
        attached = attach(accelerator_samplers())
        devices = [device for sampler in attached.samplers.values() for device in sampler.devices()]
        attached.close()
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
