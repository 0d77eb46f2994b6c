"""Probes of a node that are no rates (accelerators, versions, data set, system), and the lists of all probes in their order."""

from __future__ import annotations

import os
import platform
import secrets
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from aiperf.data.description import SAMPLE
from aiperf.data.survey import data_fingerprint, hashed_files
from aiperf.measure.disk import AT_ONCE, DiskRead, DiskWrite, FreeSpace
from aiperf.measure.matrix_product import MatrixProduct
from aiperf.measure.memory_bandwidth import MemoryBandwidth
from aiperf.measure.probe import Probe, ProbeReading, Setting
from aiperf.system.describe import describe_node, folders_of, hash_of, storage, versions
from aiperf.system.processes import name as process_name
from aiperf.system.sampler import Device
from aiperf.system.samplers import accelerator_samplers, attach, sampled_accelerators, slices, visible
from aiperf.system.source import digest, installed

SMALL, LARGE = 2**22, 2**26


def quick(nodes: int = 1) -> tuple[Probe, ...]:
    """Probes that do not import torch and usually take less than a second."""
    return _without_torch(SMALL, SMALL, nodes)


def full(nodes: int = 1) -> tuple[Probe, ...]:
    """More than 16 nodes write files of 4 MiB to their shared folder: a file server of 100 MB/s takes 1 s for four nodes."""
    shared = LARGE if nodes <= AT_ONCE else SMALL
    return (*_without_torch(LARGE, shared, nodes), MatrixProduct(), MemoryBandwidth())


def _without_torch(own_bytes: int, shared_bytes: int, nodes: int) -> tuple[Probe, ...]:
    sizes = own_bytes, shared_bytes
    return (Versions(), SystemProbe(), FreeSpace(), DiskWrite(*sizes), DiskRead(*sizes), Accelerators(), Data(nodes))


SHARED_MEMORY = Path("/dev/shm")


class Accelerators:
    """Probe of the accelerators that this node's processes may use: their number, and their state from the vendor's library."""

    name: ClassVar[str] = "accelerators"
    unit: ClassVar[str] = "count"

    def measure(self, setting: Setting) -> ProbeReading:
        with closing(attach(accelerator_samplers())) as attached:
            usable: list[Device] = []
            devices: list[dict[str, Any]] = []
            for sampler in attached.samplers.values():
                own = visible(sampler.devices(), os.environ)
                samples = {sample.device: sample for sample in sampler.sample([device.id for device in own])}
                devices += [
                    _flat(msgspec.to_builtins(device), msgspec.to_builtins(samples[device.id])) for device in own
                ]
                usable += own
                health = getattr(sampler, "health", None)  # only some vendors report more than samples
                if health is not None:
                    more = health([device.id for device in own])
                    devices = [each | more.get(each["id"], {}) for each in devices]
            for each in devices:
                each["process_names"] = {str(pid): process_name(pid) for pid in each.get("processes") or ()}
            # NVML reports the state of whole devices only
            parts = slices(os.environ) if "nvml" in attached.samplers else ()
            facts: dict[str, Any] = {
                "expected": setting.accelerators,
                "devices": devices,
                "slices": list(parts),
                "not_seen_by": attached.absent,
                "driver_faults": list(attached.faults),
            }
            if SHARED_MEMORY.is_dir():
                room = os.statvfs(SHARED_MEMORY)
                facts["shared_memory_bytes"] = room.f_bavail * room.f_frsize
            count = float(len(usable) + len(parts))
            return ProbeReading(probe=self.name, unit=self.unit, series={"usable": [count]}, facts=facts)


def _flat(device: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
    return device | {name: value for name, value in sample.items() if name != "device"}


class Versions:
    """Probe of versions: Python, installed packages, AIPerf's source files (SHA-256), and the driver of the accelerators."""

    name: ClassVar[str] = "versions"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        devices, _ = sampled_accelerators()
        return ProbeReading(
            probe=self.name,
            unit=self.unit,
            facts={
                "python": platform.python_version(),
                "packages": versions(),
                "source": digest(installed()),
                "drivers": sorted({device.driver for device in devices if device.driver}),
            },
        )


SHARED = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "panfs", "wekafs", "9p", "virtiofs")
"""File systems of which all nodes usually see one copy. An unknown one counts as a node's own."""


@dataclass(frozen=True, slots=True)
class Data:
    """Probe of the data set: its fingerprint, and files hashed again. The nodes share the files of a shared copy."""

    nodes: int = 1
    name: ClassVar[str] = "data"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        facts = {"fingerprint": data_fingerprint(setting.dataset)}
        root = getattr(setting.dataset, "root", None)
        is_shared = root is not None and storage({"root": Path(root)})[0].file_system in SHARED
        # twice the sample in all, since some nodes may fail
        files = min(SAMPLE, -(-2 * SAMPLE // self.nodes)) if is_shared else SAMPLE
        if (hashed := hashed_files(setting.dataset, secrets.randbits(32), files)) is not None:
            facts |= msgspec.to_builtins(msgspec.structs.replace(hashed, is_shared=is_shared))
        return ProbeReading(probe=self.name, unit=self.unit, facts=facts)


class SystemProbe:
    name: ClassVar[str] = "system"
    unit: ClassVar[str] = "text"

    def measure(self, setting: Setting) -> ProbeReading:
        folders = folders_of(setting.folder, getattr(setting.dataset, "root", None)) | {"temporary": setting.temporary}
        described = describe_node(folders)
        return ProbeReading(
            probe=self.name, unit=self.unit, facts={"hash": hash_of(described), "description": described}
        )
