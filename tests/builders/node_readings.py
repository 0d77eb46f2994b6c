"""Nodes as preflight measures them, made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiperf.measure.probe import NodeReadings, ProbeReading, RoundTrip, clock_reading

PACKAGES = {"torch": "2.13.0", "ray": "2.60.0"}


def node(
    name: str, *, is_head: bool = False, kind: str = "8 × H100", boot_id: str | None = None, **other: Any
) -> NodeReadings:
    """Return a node without faults, except for the given readings. None removes a reading."""
    readings: dict[str, ProbeReading | None] = {
        "versions": versions(),
        "space": space(),
        "disk_write": reading("disk write", {"run": [2e9, 3e9]}),
        "data": data("f" * 64),
        "clock": off_by(0.0),
        "accelerators": accelerators(),
        "matrix_product": reading("matrix product", {"cuda:0": [6e14, 7e14]}),
        "memory": reading("memory", {"cuda:0": [3e12]}),
    }
    readings |= other
    held = {each.probe: each for each in readings.values() if each is not None}
    return NodeReadings(
        node=name, address=name, host=name, kind=kind, is_head=is_head, readings=held, boot_id=boot_id or name
    )


def reading(
    probe: str,
    series: dict[str, list[float]] | None = None,
    *,
    failed: str | None = None,
    facts: dict[str, Any] | None = None,
) -> ProbeReading:
    unit = "FLOPS" if probe == "matrix product" else "B/s"
    return ProbeReading(probe=probe, unit=unit, series=series or {}, failed=failed, facts=facts or {})


def versions(
    python: str = "3.11.7", source: str = "a" * 64, drivers: tuple[str, ...] = ("550.1",), **packages: str
) -> ProbeReading:
    facts = {"python": python, "source": source, "packages": PACKAGES | packages, "drivers": list(drivers)}
    return ProbeReading(probe="versions", unit="text", facts=facts)


def data(fingerprint: str, **hashed: Any) -> ProbeReading:
    facts = {"fingerprint": fingerprint, "contents": "c" * 64, **hashed}
    return ProbeReading(probe="data", unit="text", facts=facts)


def space(free: float = 1e12, *, is_shared: bool = True) -> ProbeReading:
    facts = {"run": "/shared/runs", "temporary": "/tmp", "is_shared": is_shared}
    return ProbeReading(probe="space", unit="bytes", series={"run": [1e12], "temporary": [free]}, facts=facts)


def off_by(seconds: float, error: float = 0.001) -> ProbeReading:
    return clock_reading([RoundTrip(10.0, 10.0 + error + seconds, 10.0 + error + seconds, 10.0 + 2 * error)])


def accelerators(
    count: int = 1,
    expected: int = 1,
    slices: Sequence[str] = (),
    shared_memory: int | None = None,
    not_seen_by: Mapping[str, str] | None = None,
    **properties: Any,
) -> ProbeReading:
    devices = [{"id": f"GPU-{index}", "index": index, "model": "H100"} | properties for index in range(count)]
    facts = {"expected": expected, "devices": devices, "slices": list(slices), "not_seen_by": not_seen_by or {}}
    if shared_memory is not None:
        facts["shared_memory_bytes"] = shared_memory
    return ProbeReading(probe="accelerators", unit="count", series={"usable": [float(count)]}, facts=facts)
