"""Roofline of a network's training step: operations, bytes and shortest possible time of each layer, from its graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.accounting import network_roofline
from aiperf.accounting.network_roofline import Layer
from aiperf.errors import BadConfiguration
from aiperf.nearest import nearest
from aiperf.system.peaks import DataType, memory_bandwidth, table
from aiperf.system.peaks import peak as dense_peak
from aiperf.train.trainer_config import ELEMENT_BYTES
from morphism import Graph


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Peak FLOPS and memory bandwidth of one accelerator or processor, the limits of a roofline."""

    name: str
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


def layers(graph: Graph, batch: int, precision: DataType, on: DeviceLimits) -> tuple[Layer, ...]:
    """Return FLOP, bytes and shortest time in seconds of each network layer over a batch: forward pass, then backward pass."""
    return network_roofline.layers(
        graph, batch, ELEMENT_BYTES[precision], on.flops_per_second, on.memory_bytes_per_second
    )


def by_kind(found: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers summed by kind and pass: FLOP, bytes and shortest times. The sum with the longest time is first."""
    sums: dict[tuple[str, str], Layer] = {}
    for each in found:
        former = sums.get((each.kind, each.pass_name), Layer(each.kind, each.pass_name, 0, 0, 0))
        sums[each.kind, each.pass_name] = Layer(
            each.kind,
            each.pass_name,
            former.flops + each.flops,
            former.bytes_moved + each.bytes_moved,
            former.floor_seconds + each.floor_seconds,
        )
    return tuple(sorted(sums.values(), key=lambda each: -each.floor_seconds))


def as_json(name: str, graph: Graph, batch: int, precision: DataType, on: DeviceLimits) -> dict[str, Any]:
    """Return the roofline of a network's training step as the JSON object that --json prints."""
    found = layers(graph, batch, precision, on)
    operations, floor = network_roofline.floor(found)
    return {
        "kind": "network",
        "name": name,
        "batch": batch,
        "precision": precision,
        "device": on.name,
        "origin": on.origin,
        "flops_per_second": on.flops_per_second,
        "memory_bytes_per_second": on.memory_bytes_per_second,
        "layers": [_layer(each) for each in found],
        "kinds": [_layer(each) for each in by_kind(found)],
        "floor_seconds": floor,
        "floor_share": operations / on.flops_per_second / floor,
        "images_per_second": batch / floor,
    }


def _layer(each: Layer) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "pass": each.pass_name,
        "flops": each.flops,
        "bytes": each.bytes_moved,
        "intensity": each.intensity,
        "floor_seconds": each.floor_seconds,
    }
