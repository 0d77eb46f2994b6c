"""Opening of samplers, of other vendors by the entry point `aiperf.samplers`, and selection of a process's accelerators."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.files import shown
from aiperf.system.sampler import Device, Sampler, Unavailable

VISIBILITY = {"NVIDIA": ("CUDA_VISIBLE_DEVICES",), "AMD": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")}
"""Environment variables that select accelerators, by vendor. A later variable counts within the selection of the former."""

NONE_SELECTED = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES by which a user (or Slurm: NoDevFiles) selects no accelerator."""


@dataclass(frozen=True, slots=True)
class OpenSamplers:
    samplers: dict[str, Sampler]
    absent: dict[str, str]
    faults: tuple[str, ...] = ()
    """Reason and fix for each kind of accelerator that the host has but cannot use. Empty if no accelerator is selected."""

    def close(self) -> None:
        for sampler in self.samplers.values():
            sampler.close()


def _installed(entry: importlib.metadata.EntryPoint) -> Sampler:
    sampler: Sampler = entry.load()()
    return sampler


def accelerator_samplers() -> dict[str, Callable[[], Sampler]]:
    """Return a function that opens the sampler or raises Unavailable, by name: 'nvml', 'amdsmi' and installed ones."""
    from aiperf.system.samplers.amd import AmdSampler
    from aiperf.system.samplers.nvml import NvmlSampler

    openers: dict[str, Callable[[], Sampler]] = {"nvml": NvmlSampler, "amdsmi": AmdSampler}
    for entry in importlib.metadata.entry_points(group="aiperf.samplers"):
        openers[entry.name] = partial(_installed, entry)
    return openers


def attach(openers: Mapping[str, Callable[[], Sampler]]) -> OpenSamplers:
    """Return the open samplers, and for each sampler that raised Unavailable the reason."""
    samplers: dict[str, Sampler] = {}
    absent: dict[str, str] = {}
    faults: list[str] = []
    for name, opener in openers.items():
        try:
            samplers[name] = opener()
        except Unavailable as reason:
            absent[name] = str(reason)
            if reason.fault is not None and os.environ.get("CUDA_VISIBLE_DEVICES") not in NONE_SELECTED:
                faults.append(reason.fault)
    return OpenSamplers(samplers, absent, tuple(faults))


def sampled_accelerators() -> tuple[tuple[Device, ...], OpenSamplers]:
    with closing(attach(accelerator_samplers())) as attached:
        return tuple(device for sampler in attached.samplers.values() for device in sampler.devices()), attached


def visible(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the accelerators that a process with these environment variables may use, in the order of the selection.

    NVIDIA: CUDA_VISIBLE_DEVICES. AMD: ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES with numbers within the first selection.
    Unset: all. Entries are numbers or prefixes of UUIDs. As in CUDA, the first unknown entry ends the list. Numbers are in PCI
    order, which is CUDA's order on a host with one accelerator model. A slice of a device ('MIG-…') selects none, since NVML
    reports the utilization of whole devices only.
    """
    chosen: list[Device] = []
    for vendor in dict.fromkeys(device.vendor for device in devices):
        own = [device for device in devices if device.vendor == vendor]
        for name in VISIBILITY.get(vendor or "", ()):
            if name in environment:
                own = _listed(own, environment[name])
        chosen += own
    return tuple(chosen)


def slices(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the slice ('MIG-…') that a process may use: the first entry of CUDA_VISIBLE_DEVICES, if it is one."""
    first = environment.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    return (first,) if first.startswith("MIG-") else ()


def usable(
    devices: Sequence[Device], environment: Mapping[str, str], slice_bytes: Callable[[str], int | None]
) -> tuple[Device, ...]:
    """Return the accelerators that a process with this environment may use. A slice is one device of `slice_bytes(id)`."""
    parents = [device for device in devices if device.vendor == "NVIDIA"]
    parts = slices(environment) if parents else ()
    return visible(devices, environment) + tuple(
        msgspec.structs.replace(parents[0], id=part, memory_bytes=slice_bytes(part)) for part in parts
    )


def hip_selection(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add for Ray, which rejects Slurm's ROCR_VISIBLE_DEVICES without HIP_VISIBLE_DEVICES.

    >>> hip_selection({"ROCR_VISIBLE_DEVICES": "4,5"})
    {'HIP_VISIBLE_DEVICES': '0,1'}
    """
    selected = environment.get("ROCR_VISIBLE_DEVICES")
    if selected is None or "HIP_VISIBLE_DEVICES" in environment:
        return {}
    count = sum(bool(entry.strip()) for entry in selected.split(","))
    return {"HIP_VISIBLE_DEVICES": ",".join(map(str, range(count)))}


def require_known(devices: Sequence[Device], environment: Mapping[str, str]) -> None:
    """Check that each entry of a selection is an accelerator of this host. CUDA ignores the first other entry and the rest."""
    for vendor, names in VISIBILITY.items():
        own = [device for device in devices if device.vendor == vendor]
        for name in names:
            listed = environment.get(name)
            if not own or listed is None or listed.strip() in NONE_SELECTED or "MIG-" in listed:
                break
            chosen, entries = _listed(own, listed), [entry.strip() for entry in listed.split(",")]
            if len(chosen) < len(entries) and (unknown := entries[len(chosen)]) != "-1":
                fault = "again" if unknown in entries[: len(chosen)] else "which is none of them"
                raise BadConfiguration(
                    f"each entry of {name} is a number below the host's {len(own)} accelerators or the beginning of one's id, "
                    f"once, but {shown(listed)} names {shown(unknown)}, {fault}: correct it, or train without: {name}="
                )
            own = chosen


def _listed(devices: Sequence[Device], listed: str) -> list[Device]:
    chosen: list[Device] = []
    for entry in (word.strip() for word in listed.split(",")):
        if entry.isdecimal():
            fitting = [device for number, device in enumerate(devices) if number == int(entry)]
        else:
            fitting = [device for device in devices if entry and device.id.startswith(entry)]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen += fitting
    return chosen
