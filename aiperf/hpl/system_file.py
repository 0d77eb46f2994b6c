"""SYSTEM.yaml: figures of a machine for the model, written by a user or by `hpl calibrate`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from aiperf import bounded_yaml
from aiperf.atomic_files import write_named
from aiperf.errors import BadConfiguration
from aiperf.hpl.model import WORD_BYTES, Accelerator, Layer, System, accelerator_link, peak
from aiperf.nearest import nearest

RATES = ("gemm_flops", "panel_flops", "swap_bytes_per_second")
"""Figures of one rank that HPL's time depends on. The others are those of the layers."""
_FIELDS = ("name", "ranks", *RATES, "peak_flops", "memory_bytes", "layers", "accelerator", "calibration")
_LAYER = ("name", "ranks", "latency_seconds", "bytes_per_second", "grid", "source")
_ACCELERATOR = ("controllers", "quadwords", "memory_hertz", "cores", "flops_per_cycle", "hertz", "access_cycles")
_CALIBRATION = ("intervals", "node", "when", "load", "facts", "readings")
MOST_RANKS = 100_000_000


@dataclass(frozen=True, slots=True)
class SystemFile:
    """Content of SYSTEM.yaml."""

    system: System
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """95 % intervals of measured figures, by the names of `figures`."""
    calibration: Mapping[str, Any] = field(default_factory=dict)
    """Readings, versions, load and hash of the node. Empty for a file that was not written by `hpl calibrate`."""


def read(path: Path) -> SystemFile:
    """Read SYSTEM.yaml.

    Raises:
        BadConfiguration: the message names the field, the rule and the fix.
        OSError: the file cannot be read.
    """
    try:
        content = bounded_yaml.read(path)
    except bounded_yaml.BadYaml as error:
        raise BadConfiguration(f"'{path}' is no SYSTEM.yaml: {error}") from error
    try:
        return parsed(content)
    except ValueError as error:
        raise BadConfiguration(f"'{path}': {error}. docs/hpl.md lists the fields") from error


def parsed(content: object) -> SystemFile:
    """Return the checked content. Raises ValueError with the name of the field."""
    top = _mapping(content, "the file", _FIELDS)
    ranks = _integer(top, "ranks")
    layers = []
    listed = top.get("layers", [])
    if not isinstance(listed, list):
        raise ValueError(f"layers is a list, found {listed!r}: write one entry per layer, nearest first")
    if "accelerator" in top:
        doubled = [name for name in ("gemm_flops", "peak_flops") if name in top]
        if doubled:
            raise ValueError(f"{doubled[0]} follows from accelerator by (10), but found both: remove one of them")
        given = _mapping(top["accelerator"], "accelerator", _ACCELERATOR)
        device = Accelerator(**{name: _number(given, name, "accelerator.") for name in _ACCELERATOR})  # type: ignore[arg-type]
        link = accelerator_link(device)
        layers.append(Layer("memory", 1, link.alpha, WORD_BYTES / link.beta, source="accelerator, by (6) to (9)"))
        gemm_flops = peak(device)
        peak_flops: float | None = gemm_flops
    else:
        gemm_flops, peak_flops = _number(top, "gemm_flops"), _optional(top, "peak_flops")
    layers += [_layer(each, f"layers[{index}]") for index, each in enumerate(listed)]
    _check_layers(layers, ranks)
    system = System(
        _text(top, "name"),
        ranks,
        gemm_flops,
        tuple(layers),
        panel_flops=_optional(top, "panel_flops"),
        peak_flops=peak_flops,
        memory_bytes=_optional(top, "memory_bytes"),
        swap_bytes_per_second=_optional(top, "swap_bytes_per_second"),
    )
    if "calibration" not in top:
        return SystemFile(system)
    calibration = _mapping(top["calibration"], "calibration", _CALIBRATION)
    return SystemFile(system, _intervals(calibration.get("intervals", {}), system), calibration)


def _check_layers(layers: list[Layer], ranks: int) -> None:
    if not layers:
        raise ValueError("layers has at least one entry, but found none: add memory, the layer of 1 rank")
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        raise ValueError(f"each layer has its own name, but found {names}: rename one")
    before = 0
    for index, layer in enumerate(layers):
        if layer.ranks <= before:
            raise ValueError(
                f"a layer joins more ranks than the one before it, but layers[{index}] ('{layer.name}') joins {layer.ranks}, "
                f"the one before {before}: list the layers nearest first"
            )
        before = layer.ranks
    if before != ranks:
        raise ValueError(
            f"the last layer joins all {ranks} ranks, but '{layers[-1].name}' joins {before}: correct one of them"
        )


def _layer(content: object, where: str) -> Layer:
    given = _mapping(content, where, _LAYER)
    grid = given.get("grid")
    if grid is not None and not (
        isinstance(grid, list) and len(grid) == 2 and all(isinstance(each, int) and each > 0 for each in grid)
    ):
        raise ValueError(
            f"{where}.grid is a list [p, q] of groups along P and Q, but found {grid!r}: write for example [2, 3]"
        )
    return Layer(
        _text(given, "name", f"{where}."),
        _integer(given, "ranks", f"{where}."),
        _number(given, "latency_seconds", f"{where}.", is_zero_allowed=True),
        _number(given, "bytes_per_second", f"{where}."),
        None if grid is None else (grid[0], grid[1]),
        str(given.get("source", "")),
    )


def _mapping(content: object, where: str, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(
            f"{where} is a mapping of {', '.join(known)}, but found {content!r}: write `field: value` lines"
        )
    for name in content:
        if name not in known:
            raise ValueError(f"{where} has no field {str(name)!r}{nearest(str(name), known)}: remove or rename it")
    return content


def _number(given: Mapping[str, Any], name: str, where: str = "", *, is_zero_allowed: bool = False) -> float:
    value = given.get(name)
    if value is None:
        raise ValueError(f"{where}{name} is missing: add `{name}: NUMBER`")
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # YAML 1.1 reads 13e9 as text
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and (number > 0 or (is_zero_allowed and number == 0))):
        rule = "at least 0" if is_zero_allowed else "above 0"
        raise ValueError(f"{where}{name} is a number {rule}, but found {value!r}: correct it")
    return number


def _optional(given: Mapping[str, Any], name: str) -> float | None:
    return _number(given, name) if given.get(name) is not None else None


def _integer(given: Mapping[str, Any], name: str, where: str = "") -> int:
    number = _number(given, name, where)
    if number != int(number) or number > MOST_RANKS:
        raise ValueError(
            f"{where}{name} is a whole number from 1 to {MOST_RANKS}, but found {given[name]!r}: correct it"
        )
    return int(number)


def _text(given: Mapping[str, Any], name: str, where: str = "") -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}{name} is a text, found {value!r}: add `{name}: TEXT`")
    return value


def _intervals(content: object, system: System) -> dict[str, tuple[float, float]]:
    known = figures(system)
    found = {}
    for name, ends in _mapping(content, "calibration.intervals", list(known)).items():
        if not (isinstance(ends, list) and len(ends) == 2):
            raise ValueError(f"calibration.intervals.{name} is a list [low, high], but found {ends!r}: calibrate again")
        found[name] = (float(ends[0]), float(ends[1]))
    return found


def figures(system: System) -> dict[str, float]:
    """Return the figures that HPL's time depends on, by name: `gemm_flops`, `memory.bytes_per_second`."""
    rates = {name: getattr(system, name) for name in RATES}
    known = {name: value for name, value in rates.items() if value is not None}
    for layer in system.layers:
        known[f"{layer.name}.latency_seconds"] = layer.latency_seconds
        known[f"{layer.name}.bytes_per_second"] = layer.bytes_per_second
    return known


def changed(system: System, figure: str, value: float) -> System:
    """Return the system with another value of one figure.

    Raises:
        BadConfiguration: there is no such figure, or the value is not above 0.
    """
    known = [*figures(system), *RATES]
    if figure not in known:
        raise BadConfiguration(f"a figure of '{system.name}' is needed, but found {figure!r}{nearest(figure, known)}: "
                               f"choose one of {', '.join(dict.fromkeys(known))}")  # fmt: skip
    if not (math.isfinite(value) and value > 0):
        raise BadConfiguration(f"{figure} is a number above 0, but found {value!r}: correct it")
    if figure in RATES:
        return replace(system, **{figure: value})  # type: ignore[arg-type]
    name, _, field_name = figure.rpartition(".")
    layers = [
        replace(each, **{field_name: value}) if each.name == name else each  # type: ignore[arg-type]
        for each in system.layers
    ]
    return replace(system, layers=tuple(layers))


def write(path: Path, of: SystemFile) -> None:
    """Write SYSTEM.yaml. Raises OSError."""
    system = of.system
    content: dict[str, Any] = {"name": system.name, "ranks": system.ranks}
    for name in (*RATES, "peak_flops", "memory_bytes"):
        value = getattr(system, name)
        if value is not None:
            content[name] = value
    content["layers"] = [
        {name: value for name in _LAYER if (value := getattr(layer, name)) not in (None, "")} for layer in system.layers
    ]
    if of.calibration:
        content["calibration"] = dict(of.calibration)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    write_named(path, text.encode())
