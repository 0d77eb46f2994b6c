"""A node's accelerators: whether as many can be used as Ray says, and whether they are well."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from aiperf.preflight.reading import Reading, Setting
from aiperf.system.attach import accelerator_samplers, attach, visible
from aiperf.system.sampler import Device


@dataclass(frozen=True, slots=True)
class Accelerators:
    """What the vendor's library says of each that this node's processes may use."""

    name: ClassVar[str] = "accelerators"
    unit: ClassVar[str] = "count"

    def measure(self, setting: Setting) -> Reading:
        """See `reading.Probe`."""
        attached = attach(accelerator_samplers())
        try:
            usable: list[Device] = []
            told: list[dict[str, Any]] = []
            for sampler in attached.samplers.values():
                own = visible(sampler.devices(), os.environ)
                samples = {sample.device: sample for sample in sampler.sample([device.id for device in own])}
                told += [_told(msgspec.to_builtins(device), msgspec.to_builtins(samples[device.id])) for device in own]
                usable += own
                health = getattr(sampler, "health", None)  # of the vendor that tells more than samples hold
                if health is not None:
                    more = health([device.id for device in own])
                    told = [each | more.get(each["id"], {}) for each in told]
            facts: dict[str, Any] = {"expected": setting.accelerators, "devices": told, "not_seen_by": attached.absent}
            return Reading(probe=self.name, unit=self.unit, series={"usable": [float(len(usable))]}, facts=facts)
        finally:
            attached.close()


def _told(device: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
    return device | {name: value for name, value in sample.items() if name != "device"}
