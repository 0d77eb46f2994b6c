"""External power meters of a run (folder power/ next to its journal), and the EE HPC conditions of a power measurement."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import msgspec

from aiperf.errors import BadPower
from aiperf.files import bounded_lines, require_file, shown
from aiperf.given_file import read_yaml
from aiperf.system.log import Damage, Record, RecordedSample, Sample, Session
from aiperf.system.sampler import LARGEST_READING, Device
from aiperf.system.summary import DamagedFile, DeviceTelemetry, summarise

Point = Literal["unknown", "inside nodes", "downstream", "upstream"]
"""Point of measurement: on a board behind the power supplies, between the supplies and the node, or before the supplies."""
Loss = Literal["not adjusted", "modelled", "measured"]
"""Method of adding the losses of the power supplies, if the point is behind them."""

WHOLE = 0.999
"""Share of a phase that counts as complete. A sample at each edge may be missing."""
LEAST_NODES, LEAST_WATTS = 15, 2e3


@dataclass(frozen=True, slots=True)
class Measurement:
    """Properties of a power measurement. None if unknown. An unknown property does not meet its condition."""

    interval_seconds: float | None
    is_integrated: bool
    """True if the meter integrates energy itself without a break and its counter was read."""
    core_share: float
    nodes: int
    all_nodes: int
    """Number of nodes that took part in the run."""
    watts: float | None
    measured: frozenset[str]
    """Measured subsystems: 'accelerators', 'processors', 'nodes', 'interconnect', 'storage', 'cooling', …"""
    estimated: frozenset[str]
    point: Point
    loss: Loss


@dataclass(frozen=True, slots=True)
class Aspect:
    """Finding for one aspect of the methodology in a measurement."""

    name: str
    level: int
    """1 if its condition is met, else 0."""
    found: str
    missing: str | None
    """Condition of Level 1. None if it is met."""


@dataclass(frozen=True, slots=True)
class Level:
    """Level of a measurement: the lowest level of its aspects."""

    level: int
    """0 or 1."""
    aspects: tuple[Aspect, ...]


def level(one: Measurement) -> Level:
    """Return the level with the finding for each aspect. Level 1 requires that every aspect meets its condition."""
    is_often = one.is_integrated or (one.interval_seconds is not None and one.interval_seconds <= 1.0)
    is_enough = one.nodes >= max(LEAST_NODES, one.all_nodes / 10) and (one.watts or 0.0) >= LEAST_WATTS
    is_before_supplies = one.point == "upstream" or (one.point == "downstream" and one.loss != "not adjusted")
    estimated = f"; estimated: {', '.join(sorted(one.estimated))}" if one.estimated else ""
    aspects = (
        _aspect(
            "1a granularity",
            "no samples" if one.interval_seconds is None else f"a sample every {one.interval_seconds:.3g} s",
            is_often,
            "a sample each second or more often, or energy that the meter integrates itself",
        ),
        _aspect(
            "1b timing",
            f"{100 * one.core_share:.1f} % of the core phase",
            one.core_share >= WHOLE,
            "samples over the whole core phase, without a gap",
        ),
        _aspect(
            "1c what is reported",
            "no average" if one.watts is None else f"average of the core phase, {one.watts:.4g} W",
            one.watts is not None,
            "average power of the core phase",
        ),
        _aspect(
            "2 machine fraction",
            f"{one.nodes} of {one.all_nodes} nodes",
            one.nodes >= one.all_nodes > 0 or is_enough,
            "the largest of a tenth of the nodes, 15 nodes and 2 kW, or all nodes",
        ),
        _aspect(
            "3 subsystems",
            f"measured: {', '.join(sorted(one.measured)) or 'nothing'}{estimated}",
            "nodes" in one.measured and "interconnect" in one.measured | one.estimated,
            "nodes measured whole (supplies, memory, fans), and the interconnect measured or estimated",
        ),
        _aspect(
            "4 point of measurement",
            f"downstream, losses of the supplies {one.loss}" if one.point == "downstream" else one.point,
            is_before_supplies,
            "upstream of the power supplies, or their losses modelled or measured",
        ),
    )
    return Level(min(aspect.level for aspect in aspects), aspects)


def _aspect(name: str, found: str, is_met: bool, condition: str) -> Aspect:
    return Aspect(name, int(is_met), found, None if is_met else condition)


FOLDER = "power"
LONGEST_LINE = 1 << 16
COLUMNS = ("unix_seconds", "watts", "joules")


class MeterForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Form of a meter: power/NAME.yaml. The samples are in NAME.csv."""

    nodes: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    measured: list[str]
    """Subsystems behind this meter: nodes, interconnect, storage, cooling, …"""
    point: Point
    """'upstream' of the nodes' power supplies, 'downstream', or 'inside nodes'."""
    loss: Loss = "not adjusted"
    """Method of adding the losses of the power supplies, if the point is downstream."""
    integrated: bool = False
    """True if the column joules is energy that the meter integrates itself without a break."""
    estimated: list[str] = []
    """Subsystems with estimated power that is included in the samples."""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Meter:
    name: str
    form: MeterForm
    window: DeviceTelemetry
    interval_seconds: float
    damaged: DamagedFile | None = None


def read_meters(run_folder: Path, started_unix: float, window: tuple[float, float]) -> tuple[Meter, ...]:
    """Return the meters of a run with their energy over a window. Empty without a folder power/.

    Invalid lines of a table are skipped and counted. Raise BadPower if a form or a table is unreadable or invalid, or a table
    has fewer than two samples.
    """
    forms = sorted((run_folder / FOLDER).glob("*.yaml"))
    without = [each for each in sorted((run_folder / FOLDER).glob("*.csv")) if each.with_suffix(".yaml") not in forms]
    if without:
        raise BadPower(
            f"each table of a meter has a form beside it, but found {shown(without[0])} without {without[0].stem}.yaml: add it "
            "(docs/report.md), or remove the table"
        )
    return tuple(_meter(form, started_unix, window) for form in forms)


def measurement(meters: tuple[Meter, ...], all_nodes: int) -> Measurement:
    """Return one measurement for all meters: watts are added, subsystems united. Others are of the worst meter."""
    points: tuple[Point, ...] = ("unknown", "inside nodes", "downstream", "upstream")
    losses: tuple[Loss, ...] = ("not adjusted", "modelled", "measured")
    watts = [meter.window.power_mean_watts for meter in meters]
    known = [each for each in watts if each is not None]
    below = [meter.form.loss for meter in meters if meter.form.point != "upstream"]
    return Measurement(
        interval_seconds=max(meter.interval_seconds for meter in meters),
        is_integrated=all(meter.form.integrated and meter.window.energy_counted_share == 1.0 for meter in meters),
        core_share=min(_share(meter.window) for meter in meters),
        nodes=sum(meter.form.nodes for meter in meters if "nodes" in meter.form.measured),
        all_nodes=all_nodes,
        watts=math.fsum(known) if len(known) == len(watts) else None,
        measured=frozenset(part for meter in meters for part in meter.form.measured),
        estimated=frozenset(part for meter in meters for part in meter.form.estimated),
        point=min((meter.form.point for meter in meters), key=points.index),
        loss=min(below, key=losses.index) if below else "not adjusted",
    )


def _share(one: DeviceTelemetry) -> float:
    whole = one.seconds_measured + one.seconds_missing
    return one.seconds_measured / whole if whole > 0 else 0.0


def _meter(file: Path, started_unix: float, window: tuple[float, float]) -> Meter:
    form = read_yaml(
        file, "a meter's form is YAML with the fields of docs/report.md", MeterForm, "correct it", error=BadPower
    )
    table = file.with_suffix(".csv")
    damaged: list[Damage] = []
    looks = list(_looks(table, started_unix, damaged))
    if len(looks) < 2:
        why = f" (line {damaged[0].line} of it: {damaged[0].why})" if damaged else ""
        raise BadPower(
            f"a meter's table has two samples or more; {table} has {len(looks)}{why}: add samples, or remove the meter's files"
        )
    interval = median(later.at - earlier.at for earlier, later in pairwise(looks))
    (over_window,) = summarise(_records(file.stem, interval, looks), window).devices
    skipped = DamagedFile(damaged[0].file, damaged[0].line, damaged[0].why, len(damaged)) if damaged else None
    return Meter(file.stem, form, over_window, interval, skipped)


def _records(name: str, interval: float, looks: list[RecordedSample]) -> Iterator[Record]:
    device = Device(id=name, kind="host")
    session = Session(
        host=name, worker=0, at=looks[0].at, wall_unix=looks[0].wall_unix, interval_seconds=interval, devices=(device,)
    )
    yield session
    for look in looks:
        yield Sample(session, device, look)


def _looks(table: Path, started_unix: float, damaged: list[Damage]) -> Iterator[RecordedSample]:
    law = f"a meter's table is CSV with a line of names: {COLUMNS[0]}, and {COLUMNS[1]} or {COLUMNS[2]} or both"
    try:
        require_file(table)
        with table.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(bounded_lines(lines, LONGEST_LINE))
            names = set(reader.fieldnames or ())
            if COLUMNS[0] not in names or not names & set(COLUMNS[1:]):
                raise BadPower(f"{law}; {table} has {sorted(names)!r}: correct its first line")
            before = -math.inf
            for row in reader:
                try:
                    look = _look(row, table.stem, started_unix)
                    if look.wall_unix <= before:
                        raise ValueError(f"each sample must be later than the one before, but found {look.wall_unix!r}")
                except ValueError as error:
                    damaged.append(Damage(f"{table.parent.name}/{table.name}", reader.line_num, str(error)))
                    continue
                before = look.wall_unix
                yield look
    except OSError as error:
        raise BadPower(
            f"{law}. {table} cannot be read: {error.strerror}. Make it a readable file, or remove the meter's form"
        ) from error
    except csv.Error as error:
        raise BadPower(f"{law}. {table} is none ({error}): export it again as CSV") from error
    except UnicodeDecodeError as error:
        raise BadPower(
            f"{law}. {table} is no text in UTF-8 ({error.reason} at byte {error.start}): save it in UTF-8"
        ) from error


def _look(row: dict[str, str], meter: str, started_unix: float) -> RecordedSample:
    at, watts, joules = (_number(row, name) for name in COLUMNS)
    if at is None:
        raise ValueError(f"a sample needs its {COLUMNS[0]}, but the cell is empty")
    return RecordedSample(device=meter, at=at - started_unix, wall_unix=at, power_watts=watts, energy_joules=joules)


def _number(row: dict[str, str], name: str) -> float | None:
    text = (row.get(name) or "").strip()
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not 0 <= value <= LARGEST_READING:
        raise ValueError(f"{name} must be a number from 0 to {LARGEST_READING:g}, but found {text[:40]!r}")
    return value
