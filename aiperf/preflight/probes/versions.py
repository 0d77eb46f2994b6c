"""Which software a node has: what must be equal on all, since else they do not compute the same, or not together."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aiperf.preflight.reading import Reading, Setting
from aiperf.system.attach import accelerator_samplers, attach
from aiperf.system.describe import versions

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("aiperf", "cluster", "conf", "morphism", "searchers")
"""Whose sources make the revision."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Python, installed packages, this program's own sources, the accelerators' driver."""

    name: ClassVar[str] = "versions"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        attached = attach(accelerator_samplers())
        devices = [device for sampler in attached.samplers.values() for device in sampler.devices()]
        attached.close()
        return Reading(
            probe=self.name,
            unit=self.unit,
            facts={
                "python": platform.python_version(),
                "packages": versions(),
                "source": source_revision(),
                "drivers": sorted({device.driver for device in devices if device.driver}),
            },
        )


def source_revision(root: Path = ROOT) -> str:
    """SHA-256 over the names and bytes of this program's own sources, wherever they were installed from. 64 hex digits."""
    told = hashlib.sha256()
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".py", ".yaml", ".json") and path.is_file():
                content = path.read_bytes()
                told.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
                told.update(content)
    return told.hexdigest()
