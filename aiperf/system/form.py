"""The site's form: facts of a system that a program cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.given_file import read_yaml
from aiperf.option_limits import hold
from aiperf.system.peaks import check_declared

FILE = "file"


@dataclass
class SystemForm:
    """Facts of the system that a program cannot read.

    They have no effect on a run. The journal stores them for comparisons of systems. Report and submission list the
    empty fields. Only `peak` affects figures.
    """

    file: str | None = None
    """YAML file with these fields. Values on the command line override the file."""
    name: str | None = None
    """Name of the system."""
    site: str | None = None
    """Operator of the system."""
    location: str | None = None
    """City and country."""
    contact: str | None = None
    """Person or address for questions about the result."""
    segment: str | None = None
    """academic, research, industry, government, vendor, cloud, …"""
    status: str | None = None
    """Availability as defined by MLPerf: available, preview or research."""
    maker: str | None = None
    """Manufacturer."""
    year: int | None = field(default=None, metadata={"least": 0})
    """Year of installation."""
    nodes_total: int | None = field(default=None, metadata={"least": 0})
    """Nodes of the whole system, including nodes that took no part in the run."""
    accelerators_total: int | None = field(default=None, metadata={"least": 0})
    """Accelerators of the whole system. 0 if it has none."""
    interconnect: str | None = None
    """Network between nodes: family, rate and adapters per node, for example 'InfiniBand NDR, 8 × 400 Gb/s'."""
    topology: str | None = None
    """Topology of the network between nodes, for example 'fat tree, 2:1 oversubscribed'."""
    links: str | None = None
    """Links between the accelerators of a node, for example 'NVLink 4, 900 GB/s, all to all'."""
    storage: str | None = None
    """Storage of the data set, for example 'Lustre, 4 OSS, 100 GB/s'."""
    cooling: str | None = None
    """air, direct liquid, immersion, …, with the inlet temperature."""
    power_point: str | None = None
    """Place of the power measurement: nowhere, accelerators by NVML, board, rack PDU, substation, …"""
    power_meter: str | None = None
    """Power meter: maker, model and accuracy. None if only the counters of the devices were used."""
    power_share: float | None = field(default=None, metadata={"least": 0, "most": 1})
    """Measured share of the nodes that took part, 0 to 1."""
    power_includes: str | None = None
    """Parts included in the power measurement in addition to the nodes: switches, storage, cooling, …, or nothing."""
    cost: str | None = None
    """Price or price per hour, with currency and included parts. 'not reported' is a valid value."""
    peak: dict[str, Any] | None = None
    """Dense peak of one accelerator in FLOPS by precision, and the source of these figures, for a model that
    system/peaks.json lacks: {bf16: 2.5e14, source: data sheet of ...}. MFU and losses refer to it and are marked as declared.
    A run with a declared peak has no place in an order by MFU."""
    notes: str | None = None
    """Further remarks."""

    def __post_init__(self) -> None:
        hold(self, "system")
        if self.peak is not None:
            check_declared(self.peak)


OPTIONAL = frozenset({FILE, "notes", "peak"})
"""Fields that may stay empty in a complete form."""
FIELDS = tuple(field.name for field in fields(SystemForm) if field.name != FILE)


def filled(form: SystemForm) -> SystemForm:
    """Complete the form by its YAML file (system.file). A field that has a value keeps it.

    Raise BadConfiguration if the file cannot be read, is no YAML mapping, or has an unknown field or an invalid value.
    """
    if form.file is None:
        return form
    contents = read_yaml(Path(form.file), "system.file is a YAML file of FIELD: value lines", dict[str, object])
    if wrong := [name for name in contents if name not in FIELDS]:
        raise BadConfiguration(
            f"unknown field {wrong[0]!r} in '{form.file}'. Remove it. The fields are {', '.join(FIELDS)}"
        )
    try:
        of_file = msgspec.convert(contents, SystemForm)
    except msgspec.ValidationError as error:
        raise BadConfiguration(
            f"a field of '{form.file}' has a value of the wrong type: {error}. Correct this value"
        ) from error
    missing = {
        name: value for name in FIELDS if getattr(form, name) is None and (value := getattr(of_file, name)) is not None
    }
    return replace(form, **missing)


def unfinished(form: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the empty fields. `form`: values by field as in a journal's configuration, None for an empty form."""
    values = form or {}
    return tuple(name for name in FIELDS if name not in OPTIONAL and values.get(name) is None)
