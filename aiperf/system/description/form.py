"""The form for what no program can know of a system, filled in by its owner: typed fields, of a YAML file or of words.

The fields are after MLPerf's system description (mlcommons/policies, submission_rules.adoc), TOP500's list (site, location,
segment, interconnect, year), and the EEHPC power measurement methodology (where power was measured, by what, of how much).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aiperf.errors import BadConfiguration
from aiperf.files import require_file
from aiperf.option_limits import hold

FILE = "file"


@dataclass
class SystemForm:
    """What no program can know of the system. Without effect on a run; it stands in its journal, and whoever is to compare
    systems needs it. Fields that are not filled in are named by report and submission."""

    file: str | None = None
    """A YAML file with these fields; what the command line says besides goes before it."""
    name: str | None = None
    """The system's own name."""
    site: str | None = None
    """Who runs it."""
    location: str | None = None
    """City and country."""
    contact: str | None = None
    """Whom to ask about the result."""
    segment: str | None = None
    """academic, research, industry, government, vendor, cloud, …"""
    status: str | None = None
    """available, preview or research, as MLPerf has it: whether others can get such a system."""
    maker: str | None = None
    """Who built it."""
    year: int | None = field(default=None, metadata={"least": 0})
    """Of its installation."""
    nodes_total: int | None = field(default=None, metadata={"least": 0})
    """Nodes that the whole system has, those that took no part included."""
    accelerators_total: int | None = field(default=None, metadata={"least": 0})
    """Accelerators that the whole system has; 0: none."""
    interconnect: str | None = None
    """Between nodes: family, rate and adapters a node: 'InfiniBand NDR, 8 × 400 Gb/s'."""
    topology: str | None = None
    """Of the network between nodes: 'fat tree, 2:1 oversubscribed'."""
    links: str | None = None
    """Between the accelerators of a node: 'NVLink 4, 900 GB/s, all to all'."""
    storage: str | None = None
    """What the data lies on: 'Lustre, 4 OSS, 100 GB/s'."""
    cooling: str | None = None
    """air, direct liquid, immersion, …; with the inlet's temperature."""
    power_point: str | None = None
    """Where power was measured: nowhere, accelerators by NVML, board, rack PDU, substation, …"""
    power_meter: str | None = None
    """By what: maker, model and accuracy; none: nothing but the devices' own counters."""
    power_share: float | None = field(default=None, metadata={"least": 0, "most": 1})
    """Of the nodes that took part, the share whose power was measured, 0 to 1."""
    power_includes: str | None = None
    """What it holds besides the nodes: switches, storage, cooling, …, or nothing."""
    cost: str | None = None
    """Price or price an hour, with currency and what it holds; 'not reported' is an answer."""
    notes: str | None = None
    """Whatever else a reader must know."""

    def __post_init__(self) -> None:
        hold(self, "system")


OPTIONAL = frozenset({FILE, "notes"})
"""Fields that a finished form may leave empty."""
FIELDS = tuple(field.name for field in fields(SystemForm) if field.name != FILE)


def filled(form: SystemForm) -> SystemForm:
    """The form with what its file says; a field that is filled in already stays.

    Raises:
        BadConfiguration: the file cannot be read, or says what the form does not ask for.
    """
    if form.file is None:
        return form
    try:
        require_file(Path(form.file))
        told = yaml.safe_load(Path(form.file).read_text("utf-8"))
    except OSError as error:
        raise BadConfiguration(
            f"system.file is a YAML file; {form.file!r} could not be read ({error.strerror})"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadConfiguration(
            f"system.file is a YAML file; {form.file!r} is none ({' '.join(str(error).split())})"
        ) from error
    if not isinstance(told, dict):
        raise BadConfiguration(f"system.file has the form's fields, each with its value; {form.file!r} has {told!r}")
    if wrong := [name for name in told if name not in FIELDS]:
        raise BadConfiguration(f"the form has {', '.join(FIELDS)}; '{form.file}' says {wrong[0]!r}: leave it out")
    try:
        of_file = msgspec.convert(told, SystemForm)
    except msgspec.ValidationError as error:
        raise BadConfiguration(f"a field of the form has its type; '{form.file}': {error}") from error
    missing = {
        name: value for name in FIELDS if getattr(form, name) is None and (value := getattr(of_file, name)) is not None
    }
    return replace(form, **missing)


def unfinished(told: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Fields that are not filled in, of a form as a journal's configuration holds it; all of them where it holds none."""
    said = told or {}
    return tuple(name for name in FIELDS if name not in OPTIONAL and said.get(name) is None)
