"""Input, interface and result of a probe (a measurement on a node). A result holds the raw values of every repetition.

A probe is a small class of this package. It runs in its own process on the node (`prober.py`). A hang, a crash or a lack of
memory therefore affects no other process. `aiperf.preflight.node_faults` judges the results.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from aiperf.data.dataset_config import DataSetConf


@dataclass(frozen=True, slots=True)
class Setting:
    """Input of every probe of a node: its folders, its devices, the data set and the precision."""

    address: str
    """Address of the node in the cluster."""
    folder: Path
    """A folder in the run's folder or in the folder of runs. All nodes must see it."""
    mark: str
    """Content of the file MARK in this folder, written by the driver."""
    temporary: Path
    accelerators: int
    """Number of accelerators that Ray counts."""
    processors: int
    dataset: DataSetConf
    precision: str
    """Precision of training: trainer.precision."""


MARK = "mark"


class ProbeReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one probe (measurement) on one node: values in the probe's unit, or the reason for a failure."""

    probe: str
    unit: str
    series: dict[str, list[float]] = {}
    """By measured object (folder, device, partner): every repetition, in order of measurement."""
    facts: dict[str, Any] = {}
    """Other results and properties of the measurement: sizes, types, versions. JSON values."""
    failed: str | None = None
    """Reason for a missing result: timeout, crash or exception."""
    seconds: float = 0.0
    """Duration, including the first use of libraries."""

    def best(self) -> float | None:
        """Return the rate of the slowest measured object (folder, device), in the probe's unit. None if there are no values.

        The rate of an object is its largest value, because disturbances only reduce a measured speed.
        """
        tops = [max(values) for values in self.series.values() if values]
        return min(tops) if tops else None


class Probe(Protocol):
    """Interface of a probe (one measurement on a node). `name` identifies the probe. `unit` is the unit of its values."""

    name: ClassVar[str]
    unit: ClassVar[str]

    def measure(self, setting: Setting) -> ProbeReading:
        """Measure, and return the result. It is called in a separate process. An exception is reported as a failed result."""


class NodeReadings(msgspec.Struct, frozen=True, kw_only=True):
    """Results of all probes of one node, with the node's names."""

    node: str
    """Ray's identifier, or '' without Ray."""
    address: str
    host: str
    kind: str
    """Nodes of one kind have equal hardware, as reported by Ray and the kernel, and are compared with each other."""
    is_head: bool
    readings: dict[str, ProbeReading]
    """Readings by probe."""
    boot_id: str | None = None
    """Boot identifier of its kernel. Nodes with one identifier are on one host. None if unknown."""


def failed(probe: Probe, why: str, seconds: float = 0.0) -> ProbeReading:
    """Return the reading (result) of a probe that failed. `why`: reason as text. `seconds`: time until the failure."""
    return ProbeReading(probe=probe.name, unit=probe.unit, failed=why, seconds=seconds)


@dataclass(frozen=True, slots=True)
class SharedFolderMark:
    """A folder that all nodes must see, and the content of its file MARK."""

    folder: Path
    mark: str


@contextmanager
def meeting(parent: Path) -> Iterator[SharedFolderMark]:
    """Return a context manager that creates a new folder in `parent` with a file MARK of random content.

    Other nodes check with this file that they see the same folder. The context gives the folder and the content. `parent` is
    created if it is missing. The new folder is removed at the end. Raise OSError if the folder or the file cannot be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".preflight-", dir=parent.resolve()))
    try:
        mark = secrets.token_hex(16)
        (folder / MARK).write_text(mark)
        yield SharedFolderMark(folder, mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
