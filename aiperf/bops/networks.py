"""Roofline of a network's training step: operations, bytes and shortest possible time of each layer, from its graph."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import to_builtins
from msgspec.structs import asdict

from aiperf.accounting.network_roofline import Layer, floor, layers
from aiperf.errors import BadConfiguration
from aiperf.nearest import nearest
from aiperf.system.peaks import DataType, memory_bandwidth, table
from aiperf.system.peaks import peak as dense_peak
from aiperf.train.trainer_config import ELEMENT_BYTES
from morphism import Graph


class DeviceLimits(msgspec.Struct, frozen=True):
    """Peak FLOPS and memory bandwidth of one accelerator or processor, the limits of a roofline."""

    device: str
    flops_per_second: float
    memory_bytes_per_second: float
    origin: str


def device(model: str, precision: DataType) -> DeviceLimits:
    """Return peak FLOPS and memory bandwidth (bytes per second) of an accelerator from its data sheet."""
    flops, bandwidth = dense_peak(model, None, precision), memory_bandwidth(model, None)
    if flops is None or bandwidth is None:
        known = [row.example for row in table()]
        raise BadConfiguration(
            f"--device is an accelerator of system/peaks.json with a peak in {precision}, but found {model!r}"
            f"{nearest(model, known)}: choose one of {', '.join(known)}"
        )
    return DeviceLimits(model, flops, bandwidth, "data sheet")


class NetworkRoofline(DeviceLimits, frozen=True, kw_only=True, tag_field="kind", tag="network", omit_defaults=True):
    """Roofline of a network's training step: its layers, their shortest times and, if measured, their times."""

    name: str
    batch: int
    precision: DataType
    layers: tuple[Layer, ...]
    """Forward pass, then backward pass."""
    step_seconds: float | None = None
    measured_seconds: dict[str, float] = {}
    """By kind and pass, such as 'convolution forward'. Empty without a measurement."""

    @property
    def kinds(self) -> tuple[Layer, ...]:
        """Layers summed by kind and pass. The sum with the longest floor is first."""
        groups: dict[tuple[str, str], list[Layer]] = {}
        for each in self.layers:
            groups.setdefault((each.kind, each.pass_name), []).append(each)
        sums = (
            Layer(*names, sum(each.flops for each in of), sum(each.bytes_moved for each in of), floor(of)[1])
            for names, of in groups.items()
        )
        return tuple(sorted(sums, key=lambda each: -each.floor_seconds))

    @property
    def floor_seconds(self) -> float:
        return floor(self.layers)[1]

    @property
    def floor_share(self) -> float:
        """Share of the floor that arithmetic alone takes."""
        operations, seconds = floor(self.layers)
        return operations / self.flops_per_second / seconds

    @property
    def images_per_second(self) -> float:
        return self.batch / self.floor_seconds

    def seconds(self, of: Layer) -> float | None:
        return self.measured_seconds.get(f"{of.kind} {of.pass_name}")

    def as_json(self) -> dict[str, Any]:
        def layer(each: Layer) -> dict[str, Any]:
            return {**to_builtins(each), "intensity": each.intensity}

        derived = {name: getattr(self, name) for name in ("floor_seconds", "floor_share", "images_per_second")}
        layers = {"layers": [*map(layer, self.layers)], "kinds": [*map(layer, self.kinds)]}
        return {**to_builtins(self), **derived, **layers}


def network_roofline(name: str, graph: Graph, batch: int, precision: DataType, on: DeviceLimits) -> NetworkRoofline:
    rooflines = layers(graph, batch, ELEMENT_BYTES[precision], on.flops_per_second, on.memory_bytes_per_second)
    return NetworkRoofline(**asdict(on), name=name, batch=batch, precision=precision, layers=rooflines)
