"""Probe that describes the node (`aiperf.system.description`). Its reading is not judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiperf.preflight.reading import ProbeReading, Setting
from aiperf.system.describe import folders_of
from aiperf.system.description.node import describe_node, hash_of


@dataclass(frozen=True, slots=True)
class System:
    """Hardware, firmware, kernel, libraries, links, storage, container, limits, variables, and the hash of all these."""

    name: ClassVar[str] = "system"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `reading.Probe`."""
        folders = folders_of(setting.folder, getattr(setting.dataset, "root", None)) | {"temporary": setting.temporary}
        described = describe_node(folders)
        return ProbeReading(
            probe=self.name, unit=self.unit, facts={"hash": hash_of(described), "description": described}
        )
