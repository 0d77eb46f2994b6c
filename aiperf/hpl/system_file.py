"""SYSTEM.yaml: rates, latencies and memory of a machine for the HPL model, written by a user or by `hpl calibrate`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from aiperf.atomic_files import write_named
from aiperf.errors import BadConfiguration
from aiperf.given_file import read_yaml
from aiperf.hpl.model import WORD_BYTES, Accelerator, HplLayer, System, accelerator_link, peak
from aiperf.nearest import nearest
from aiperf.option_limits import limits_of

RATES = ("gemm_flops", "panel_flops", "swap_bytes_per_second")
"""Figures of one rank that HPL's time depends on. The others are those of the layers."""
_TOP = (*(each.name for each in fields(System)), "accelerator", "calibration")
_CALIBRATION = ("intervals", "node", "when", "load", "facts", "readings")


@dataclass(frozen=True, slots=True)
class SystemFile:
    system: System
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """95 % intervals of measured figures, by the names of `figures`."""
    calibration: Mapping[str, Any] = field(default_factory=dict)
    """Readings, versions, load and hardware of the node. Empty for a file that was not written by `hpl calibrate`."""


def read(path: Path) -> SystemFile:
    content = read_yaml(path, "figures of a machine are a YAML file (docs/hpl.md)", object)
    try:
        return parsed(content)
    except ValueError as error:
        raise BadConfiguration(f"'{path}': {error}. docs/hpl.md lists the fields") from error


def parsed(content: object) -> SystemFile:
    """Return the content of SYSTEM.yaml after a check of every field."""
    top = dict(_mapping(content, "the file", _TOP))
    calibration = _mapping(top.pop("calibration", {}), "calibration", _CALIBRATION)
    listed = top.pop("layers", [])
    if not isinstance(listed, list):
        raise ValueError(f"layers is a list, but found {listed!r}: write one entry per layer, nearest first")
    layers = []
    if "accelerator" in top:
        doubled = [name for name in ("gemm_flops", "peak_flops") if name in top]
        if doubled:
            raise ValueError(
                f"{doubled[0]} cannot be combined with accelerator, which gives it by (10): remove one of them"
            )
        device = Accelerator(**_record(Accelerator, top.pop("accelerator"), "accelerator"))
        link = accelerator_link(device)
        layers.append(HplLayer("memory", 1, link.alpha, WORD_BYTES / link.beta, source="accelerator, by (6) to (9)"))
        top["gemm_flops"] = top["peak_flops"] = peak(device)
    layers += [HplLayer(**_record(HplLayer, each, f"layers[{index}]")) for index, each in enumerate(listed)]
    given = _record(System, top, "")
    _check_layers(layers, given["ranks"])
    system = System(**given, layers=tuple(layers))
    return SystemFile(system, _intervals(calibration.get("intervals", {}), system), calibration)


def _check_layers(layers: list[HplLayer], ranks: int) -> None:
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


def _mapping(content: object, where: str, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(
            f"{where} is a mapping of {', '.join(known)}, but found {content!r}: write `field: value` lines"
        )
    for name in content:
        if name not in known:
            raise ValueError(f"{where} has no field {str(name)!r}{nearest(str(name), known)}: remove or rename it")
    return content


def _record(schema: type[Any], content: object, where: str) -> dict[str, Any]:
    values = dict(_mapping(content, where, [each.name for each in fields(schema)]))
    for name, limits in limits_of(schema).items():
        field_name, value = f"{where}.{name}".lstrip("."), values.get(name)
        if value is None and schema.__dataclass_fields__[name].default is MISSING:
            raise ValueError(f"{field_name} is missing: add `{name}: {limits.kind}`")
        if isinstance(value, str) and float in limits.types:
            with suppress(ValueError):
                values[name] = value = float(value)  # YAML 1.1 reads 13e9 as text
        if value is not None and not limits.accepts(value):
            condition = f" and {limits.condition}" if limits.condition else ""
            raise ValueError(f"{field_name} is {limits.kind}{condition}, but found {value!r}: correct it")
    if (grid := values.get("grid")) is not None:
        if not (isinstance(grid, list) and len(grid) == 2 and all(isinstance(each, int) and each > 0 for each in grid)):
            raise ValueError(
                f"{where}.grid is a list [p, q] of groups along P and Q, but found {grid!r}: write for example [2, 3]"
            )
        values["grid"] = tuple(grid)
    return values


def _intervals(content: object, system: System) -> dict[str, tuple[float, float]]:
    known = figures(system)
    intervals = {}
    for name, ends in _mapping(content, "calibration.intervals", list(known)).items():
        if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(each, int | float) for each in ends)):
            raise ValueError(
                f"calibration.intervals.{name} is a list [low, high], but found {ends!r}: run `hpl calibrate` again"
            )
        intervals[name] = (float(ends[0]), float(ends[1]))
    return intervals


def figures(system: System) -> dict[str, float]:
    """Return the rates and latencies of a machine that HPL's time depends on, by name, such as 'gemm_flops'."""
    rates = {name: getattr(system, name) for name in RATES}
    known = {name: value for name, value in rates.items() if value is not None}
    for layer in system.layers:
        known[f"{layer.name}.latency_seconds"] = layer.latency_seconds
        known[f"{layer.name}.bytes_per_second"] = layer.bytes_per_second
    return known


def changed(system: System, figure: str, value: float) -> System:
    """Return the system with another value of one rate or latency. The given system is not changed."""
    known = [*figures(system), *RATES]
    if figure not in known:
        raise BadConfiguration(f"a figure of '{system.name}' is needed, but found {figure!r}{nearest(figure, known)}: "
                               f"choose one of {', '.join(dict.fromkeys(known))}")  # fmt: skip
    name, _, field_name = figure.rpartition(".")
    limits = limits_of(HplLayer if name else System)[field_name]
    if not limits.accepts(value):
        raise BadConfiguration(f"{figure} {limits.condition}, but found {value!r}: correct it")
    if figure in RATES:
        return replace(system, **{figure: value})  # type: ignore[arg-type]
    layers = [
        replace(each, **{field_name: value}) if each.name == name else each  # type: ignore[arg-type]
        for each in system.layers
    ]
    return replace(system, layers=tuple(layers))


def write(path: Path, of: SystemFile) -> None:
    """Write a system to the file `path` in the format of SYSTEM.yaml. An existing file is replaced."""
    content = _without_defaults(of.system)
    content["layers"] = [_without_defaults(layer) for layer in of.system.layers]
    if of.calibration:
        content["calibration"] = dict(of.calibration)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    write_named(path, text.encode())


def _without_defaults(record: System | HplLayer) -> dict[str, Any]:
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    return {name: list(value) if name == "grid" else value for name, value in values.items() if value not in (None, "")}
