"""Rules for the first line of a journal, which holds the configuration, data set and machine of a run."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.journal.events import LARGEST, LARGEST_COUNT, LARGEST_SECONDS, Count, RunStarted
from aiperf.journal.legality import YEAR_10000, IllegalLine, must, must_be_integer

_Figure = Annotated[float, msgspec.Meta(ge=-1e24, le=1e24)]
"""Finite number. The bounds keep sums and products of a run's figures finite."""


class DataSetFacts(msgspec.Struct, frozen=True, gc=False):
    """Members of the description of a run's data set that readers rely on, with their types."""

    name: str | None = None
    classes: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    image: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    channels: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)] | None = None
    is_full_imagenet: bool | None = None
    noise: _Figure | None = None
    fingerprint: str | None = None
    contents: str | None = None
    archives: dict[str, dict[str, str]] = {}


class _Accelerator(msgspec.Struct, frozen=True, gc=False):
    id: str | None = None
    kind: str | None = None
    vendor: str | None = None
    model: str | None = None
    variant: str | None = None
    compute_units: Count | None = None
    memory_bytes: Count | None = None
    driver: str | None = None
    power_cap_watts: _Figure | None = None


class MachineFacts(msgspec.Struct, frozen=True, gc=False):
    """Members of the description of a host that readers rely on, with their types."""

    host: str | None = None
    cpu_model: str | None = None
    cores: Count | None = None
    processors: Count | None = None
    usable_processors: Count | None = None
    memory_bytes: Count | None = None
    usable_memory_bytes: Count | None = None
    limits: dict[str, Any] = {}
    os: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    python: str | None = None
    accelerators: list[_Accelerator] = []
    not_sampled: dict[str, str] = {}
    driver_faults: list[str] = []
    versions: dict[str, str] = {}
    container: str | None = None
    scheduler: dict[str, str] = {}
    boot_id: str | None = None
    storage: list[dict[str, Any]] = []
    measured_matmul_flops: dict[str, _Figure] = {}
    measured_memory_bytes_per_second: _Figure | None = None
    measured_bus_bytes_per_second: _Figure | None = None
    exchange_transport: str | None = None


class ReadingFacts(msgspec.Struct, frozen=True, gc=False):
    """Result of one measurement of a node before the run."""

    unit: str = ""
    series: dict[str, list[_Figure]] = {}
    facts: dict[str, Any] = {}
    failed: str | None = None
    seconds: _Figure = 0.0


class PredictedFigures(msgspec.Struct, frozen=True, gc=False):
    score: _Figure
    interval: tuple[_Figure, _Figure]
    scores: list[_Figure]
    shares: dict[str, _Figure]
    workers: int
    release: str
    source: str
    source_hash: str
    nodes: list[str | dict[str, str]]
    config: dict[str, Any]
    dataset: dict[str, Any]
    is_extrapolated: bool
    format: int


def check_numbers(name: str, value: object) -> None:
    """Raise IllegalLine if a whole number in a JSON value does not fit into 64 bits."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,):
        if isinstance(each, dict | list):
            check_numbers(name, each)
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise IllegalLine(f"a number in {name} must fit into 64 bits. This line has one of {len(str(each))} digits")


def check_shape(name: str, value: object, shape: Any) -> None:
    """Raise IllegalLine if `value` does not fit the msgspec type `shape`. `name`: its name in messages."""
    try:
        check_numbers(name, value)
        msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise IllegalLine(f"{name} must have the members and types that readers require. {error}") from error


_OF_THE_SCHEDULE = ("duration_seconds", "warmup_seconds")


def config_hash(plain: dict[str, Any]) -> str:
    """Return the SHA-256 of a configuration as canonical JSON: sorted keys, no spaces."""
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


def check_first_line(event: RunStarted) -> None:
    """Raise IllegalLine if the first line contradicts its configuration, or if a value is out of range."""
    must(event.at == 0, "the first line must have at=0", repr(event.at))
    must(
        0 <= event.started_unix < YEAR_10000,
        "started_unix must be a date before the year 10000",
        repr(event.started_unix),
    )
    must(event.seed >= 0, "seed must be at least 0", repr(event.seed))
    warmup, duration = event.warmup_seconds, event.duration_seconds
    must(
        0 <= warmup < duration <= LARGEST_SECONDS,
        "warmup_seconds must be at least 0 and below duration_seconds",
        f"warmup_seconds={warmup!r} and duration_seconds={duration!r}",
    )
    check_numbers("config", event.config)
    check_numbers("start_graph", event.start_graph)
    hashed = config_hash(event.config)
    must(
        event.config_hash == hashed,
        f"config_hash must be the hash of the configuration, {hashed[:12]}…",
        f"{event.config_hash[:12]!r}",
    )
    schedule = event.config.get("schedule")
    copies: list[tuple[str, Any, Any]] = [("seed", event.config.get("seed"), event.seed)]
    if isinstance(schedule, dict):
        copies += [(f"schedule.{name}", schedule.get(name), getattr(event, name)) for name in _OF_THE_SCHEDULE]
    for name, configured, recorded in copies:
        if configured is not None and configured != recorded:
            raise IllegalLine(
                f"the first line must agree with its configuration. {name} is {recorded!r}, configured is {configured!r}"
            )
    must(
        (event.config.get("follow") is None) == (event.follows is None),
        "the first line must name a followed run if and only if its configuration has follow",
        f"follow={event.config.get('follow')!r} and {'no' if event.follows is None else 'a'} followed run",
    )
    share = _memory_share(event.config)
    if (benchmark := event.config.get("benchmark")) is not None:
        recorded = [benchmark.get("target_quality"), benchmark.get("exponent")]
        must(None not in recorded, "a benchmark must have its target_quality and exponent", repr(recorded))
    check_shape("config.space", event.config.get("space", {}), dict[str, Any])
    check_shape("dataset", event.dataset, DataSetFacts)
    check_shape("machine", event.machine, MachineFacts)
    for name in ("training_images", "validation_images"):
        must_be_integer(f"dataset.{name}", event.dataset.get(name), 1, LARGEST_COUNT)
    _shape(event, share)


def _memory_share(config: dict[str, Any]) -> float:
    """The classes of the options are in a package above."""
    from aiperf.config import from_plain

    try:
        return from_plain(config).budget.memory_share
    except BadConfiguration as error:
        raise IllegalLine(f"the configuration must be one of a run. {error}") from error


def _shape(event: RunStarted, share: float) -> None:
    shape = event.shape
    if shape is None:
        return
    for name, least in (("accelerators", 0), ("ranks", 1), ("cores", 0)):
        must_be_integer(f"shape.{name}", getattr(shape, name), least, LARGEST)
    must_be_integer("shape.memory_bytes", shape.memory_bytes, 1, LARGEST_COUNT)
    space, budget = event.config.get("space"), event.config.get("budget")
    if isinstance(space, dict) and budget is not None:
        must("memory_share" in budget, "a plan must record budget.memory_share", "none")
        spaced, expected = space.get("budget"), int(share * shape.memory_bytes)
        recorded = spaced.get("memory_bytes") if isinstance(spaced, dict) else None
        must(recorded == expected, f"the memory budget of this worker shape is {expected!r} bytes", repr(recorded))
