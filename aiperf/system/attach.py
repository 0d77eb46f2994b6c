"""Which samplers can be opened on this host, and which of its accelerators a process may use.

A vendor that is not built in joins by an entry point of the group `aiperf.samplers`: a callable that takes nothing and
returns a Sampler, or raises Unavailable.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aiperf.system.sampler import Device, Sampler, Unavailable

VISIBILITY = {"NVIDIA": ("CUDA_VISIBLE_DEVICES",), "AMD": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")}
"""By vendor, the environment variables that choose accelerators, the strongest first."""


@dataclass(frozen=True, slots=True)
class Attached:
    """Open samplers by name, and why the others are not."""

    samplers: dict[str, Sampler]
    absent: dict[str, str]

    def close(self) -> None:
        for sampler in self.samplers.values():
            sampler.close()


def _nvml() -> Sampler:
    from aiperf.system.nvml import NvmlSampler

    return NvmlSampler()


def _amd() -> Sampler:
    from aiperf.system import amd

    return amd.AmdSampler(amd.load())


def _installed(entry: importlib.metadata.EntryPoint) -> Sampler:
    sampler: Sampler = entry.load()()
    return sampler


def accelerator_samplers() -> dict[str, Callable[[], Sampler]]:
    """What opens each accelerator sampler, built in and installed, by name."""
    openers: dict[str, Callable[[], Sampler]] = {"nvml": _nvml, "amdsmi": _amd}
    for entry in importlib.metadata.entry_points(group="aiperf.samplers"):
        openers[entry.name] = partial(_installed, entry)
    return openers


def attach(openers: Mapping[str, Callable[[], Sampler]]) -> Attached:
    """Open what can be opened; Unavailable is kept as a reason, anything else flies on."""
    samplers: dict[str, Sampler] = {}
    absent: dict[str, str] = {}
    for name, opener in openers.items():
        try:
            samplers[name] = opener()
        except Unavailable as reason:
            absent[name] = str(reason)
    return Attached(samplers, absent)


def visible(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The accelerators that a process with this environment may use, in its own order.

    NVIDIA: CUDA_VISIBLE_DEVICES, AMD: HIP_VISIBLE_DEVICES, else ROCR_VISIBLE_DEVICES; not set = all. Entries are
    numbers or beginnings of UUIDs; as in CUDA, the first one that is nothing ends the list. Numbers are taken in PCI
    order, which is CUDA's own on a host whose accelerators are all of one model. A slice of a device ('MIG-…') selects
    none: NVML tells the utilisation of whole devices only.
    """
    chosen: list[Device] = []
    for vendor in dict.fromkeys(device.vendor for device in devices):
        own = [device for device in devices if device.vendor == vendor]
        names = VISIBILITY.get(vendor or "", ())
        listed = next((environment[name] for name in names if name in environment), None)
        chosen += own if listed is None else _listed(own, listed)
    return tuple(chosen)


def _listed(devices: Sequence[Device], listed: str) -> list[Device]:
    chosen: list[Device] = []
    for entry in (word.strip() for word in listed.split(",")):
        if entry.isdecimal():
            fitting = [device for device in devices if device.index == int(entry)]
        else:
            fitting = [device for device in devices if entry and device.id.startswith(entry)]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen += fitting
    return chosen
