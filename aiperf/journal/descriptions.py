"""Shapes of the objects inside events that other programs fill in: configuration, data set, machine, readings of a node.

The events keep these objects unchanged, because they grow with every release. The validator checks only the members below, on
which readers rely. Additional members are accepted.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from aiperf.journal.legality import LARGEST, LARGEST_COUNT, IllegalLine

_Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
_Figure = Annotated[float, msgspec.Meta(ge=-1e24, le=1e24)]
"""Finite number. The bounds keep sums and products of a run's figures finite."""
_Part = dict[str, Any]


class _Description(msgspec.Struct, frozen=True, gc=False):
    """Base class of all shapes."""


class Configuration(_Description, frozen=True):
    """Parts of the configuration in the first line."""

    limits: _Part | None = None
    schedule: _Part | None = None
    budget: _Part | None = None
    batch: _Part | None = None
    checkpoints: _Part | None = None
    preflight: _Part | None = None
    storage: _Part | None = None
    system: _Part | None = None
    telemetry: _Part | None = None
    searcher: _Part | None = None
    hpo: _Part | None = None
    trainer: _Part | None = None
    dataset: _Part | None = None
    cluster: _Part | None = None
    space: _Part | None = None


class DataSetFacts(_Description, frozen=True):
    """Data set of a run."""

    name: str | None = None
    classes: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    image: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    channels: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    is_full_imagenet: bool | None = None
    noise: _Figure | None = None
    fingerprint: str | None = None


class _Accelerator(_Description, frozen=True):
    id: str | None = None
    kind: str | None = None
    vendor: str | None = None
    model: str | None = None
    variant: str | None = None
    compute_units: _Count | None = None
    memory_bytes: _Count | None = None
    driver: str | None = None
    power_cap_watts: _Figure | None = None


class MachineFacts(_Description, frozen=True):
    """Description of a host."""

    host: str | None = None
    cpu_model: str | None = None
    cores: _Count | None = None
    processors: _Count | None = None
    usable_processors: _Count | None = None
    memory_bytes: _Count | None = None
    usable_memory_bytes: _Count | None = None
    limits: dict[str, Any] = {}
    os: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    python: str | None = None
    accelerators: list[_Accelerator] = []
    not_sampled: dict[str, str] = {}
    versions: dict[str, str] = {}
    container: str | None = None
    scheduler: dict[str, str] = {}
    boot_id: str | None = None
    storage: list[dict[str, Any]] = []
    network: list[dict[str, Any]] = []
    measured_matmul_flops: dict[str, _Figure] = {}
    measured_memory_bytes_per_second: _Figure | None = None


class ReadingFacts(_Description, frozen=True):
    """Result of one probe of a node."""

    unit: str = ""
    series: dict[str, list[_Figure]] = {}
    facts: dict[str, Any] = {}
    failed: str | None = None
    seconds: _Figure = 0.0


class PredictedFigures(_Description, frozen=True):
    """Predicted score, as far as readers rely on its fields."""

    score: _Figure
    interval: tuple[_Figure, _Figure]
    scores: list[_Figure]
    shares: dict[str, _Figure]
    workers: int
    release: str
    source: str
    source_hash: str
    nodes: list[str]
    config: dict[str, Any]
    dataset: dict[str, Any]


def check_shape(name: str, value: object, shape: Any) -> None:
    """Raise IllegalLine if a value lacks the shape that readers rely on. `name`: the member, for the message."""
    try:
        msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise IllegalLine(f"{name} must have the members and types that readers require. {error}") from error
