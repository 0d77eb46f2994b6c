"""What a probe is told, what it promises, and what it says: raw values, every repetition of them.

A probe is a small class of its own in `probes/`. It runs in a process of its own on the node that it is about (`prober.py`),
so that it may hang, die or exhaust memory, and harms nobody. Judging what it says is `judge.py`'s matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from aiperf.data.dataset_config import DataSetConf
from aiperf.train.trainer_config import TrainerConf


@dataclass(frozen=True, slots=True)
class Setting:
    """What every probe of a node is told."""

    address: str
    """The node's, as the cluster reaches it."""
    folder: Path
    """One in the run's folder, or where runs are kept: all nodes are to see it."""
    mark: str
    """What the driver wrote to the file MARK in it."""
    temporary: Path
    accelerators: int
    """As Ray counts them."""
    processors: int
    dataset: DataSetConf
    trainer: TrainerConf


MARK = "mark"


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one probe said of one node."""

    probe: str
    unit: str
    series: dict[str, list[float]] = {}
    """By what was measured (a folder, a device, a partner): every repetition, in the order in which it was done."""
    facts: dict[str, Any] = {}
    """What is no number, and what the numbers are of: sizes, types, versions. JSON values."""
    failed: str | None = None
    """Why there is nothing to go by: it hung, it died, it raised."""
    seconds: float = 0.0
    """What it took, a first use of libraries included."""

    def best(self) -> float | None:
        """The weakest of what was measured, each by its best repetition: what disturbs a measurement only ever slows it."""
        tops = [max(values) for values in self.series.values() if values]
        return min(tops) if tops else None


class Probe(Protocol):
    """One thing that is measured on a node."""

    name: ClassVar[str]
    unit: ClassVar[str]

    def measure(self, setting: Setting) -> Reading:
        """Measures it, in a process of its own. Raises whatever is wrong: it is a failed reading."""
        ...


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured of one node."""

    node: str
    """Ray's identifier of it; '' without Ray."""
    address: str
    host: str
    kind: str
    """Nodes of one kind have equal hardware, as Ray and the kernel tell, and are compared with each other."""
    is_head: bool
    readings: dict[str, Reading]
    """By probe."""
    boot_id: str | None = None
    """Of its kernel since it booted: nodes of one boot are on one host. None: it tells none."""


def failed(probe: Probe, why: str, seconds: float = 0.0) -> Reading:
    """A reading that there is none."""
    return Reading(probe=probe.name, unit=probe.unit, failed=why, seconds=seconds)
