"""Interface of a sampler, which reads utilization, power and temperature of devices, and the values that it returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import msgspec

Kind = Literal["accelerator", "host"]


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device that can be sampled: one accelerator, or the host."""

    id: str
    """Unique on its host and constant over restarts: the accelerator's UUID, or 'host'."""
    kind: Kind
    index: int = 0
    """The vendor's number of the device on this host."""
    vendor: str | None = None
    model: str | None = None
    """The vendor's spelling: 'NVIDIA A100-SXM4-80GB'."""
    variant: str | None = None
    """Board: SXM, PCIe, NVL or OAM, if the name or the vendor's library gives it."""
    compute_units: int | None = None
    """Enabled streaming multiprocessors or compute units, if the vendor's library gives them."""
    memory_bytes: int | None = None
    is_memory_shared: bool = False
    """Whether the accelerator has no memory of its own, but uses the host's (GB10, Jetson). `memory_bytes` is then None."""
    memory_why_not: str | None = None
    """The vendor library's reason if it gives no memory."""
    driver: str | None = None
    pci: str | None = None
    """PCI address, domain:bus:device.function."""
    power_cap_watts: float | None = None
    """Power limit in force when the device was described."""


LARGEST_READING = 1e15
"""Largest value of a reading. Sums of readings over a run stay far below the limit of a double."""
Reading = Annotated[float, msgspec.Meta(ge=-LARGEST_READING, le=LARGEST_READING)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ProcessorTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Processor seconds of a host, summed over its processors. Counters: only differences are meaningful."""

    passed: Reading
    """All time, including idle time."""
    programs: Reading
    """Time of programs: this run's and all others."""
    own: Reading
    """Time of this run's programs, including Ray's processes and ended processes, as far as the recorder can see them."""
    kernel: Reading
    """Time of interrupts and kernel threads."""
    stolen: Reading
    """Time that the hypervisor gave to other machines."""
    stalled: Reading | None = None
    """Wall-clock seconds in which a process waited for a processor (/proc/pressure/cpu). None if the kernel does not report
    it."""


class DeviceSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sample of one device. Only differences of counters are meaningful."""

    device: str
    """`Device.id`."""
    utilisation: Reading | None = None
    """Share of the time since the last sample in which the device worked, 0 to 1, as its vendor counts it."""
    memory_used_bytes: Count | None = None
    power_watts: Reading | None = None
    energy_joules: Reading | None = None
    """Energy counter of the device in joules."""
    clock_mhz: Reading | None = None
    memory_clock_mhz: Reading | None = None
    temperature_celsius: Reading | None = None
    throttle: tuple[str, ...] | None = None
    """Reasons for a reduced clock, by the vendor's names. Empty if it is not reduced, None if not measured."""
    ecc_corrected: Count | None = None
    """Counter of corrected memory errors."""
    ecc_uncorrected: Count | None = None
    """Counter of uncorrected memory errors. Results computed since may be wrong."""
    processors: ProcessorTime | None = None
    """Processor time of the host, in some samples."""
    foreign: tuple[str, ...] | None = None
    """Programs on the accelerator that are not this run's, each with its number, in some samples. Empty if there are none,
    None if not sampled. Programs of other containers are not visible."""
    gone: str | None = None
    """Message of the vendor's library if the device no longer answers. All other values are then None."""


class Sampler(Protocol):
    """Sampler of devices (accelerators or the host) of this host. Open for a whole run. Used from one thread."""

    def devices(self) -> Sequence[Device]:
        """Return the devices that were found when the sampler was opened."""

    def sample(self, wanted: Collection[str] | None = None) -> Sequence[DeviceSample]:
        """Return a sample of each device with an identifier in `wanted`. Default: of all devices. Takes milliseconds.

        A lost device gives a sample with `gone`, not an error. Other devices are not read: on a host with many workers each
        recorder samples its worker's devices only.
        """

    def close(self) -> None:
        """Release the vendor's library. Call it after the last sample."""


class VendorSampler:
    """Common part of the samplers of vendors: devices with their handles of the vendor's library (None: lost)."""

    _handles: list[tuple[Any, Device]]

    def devices(self) -> list[Device]:
        return [device for _, device in self._handles]

    def sample(self, wanted: Collection[str] | None = None) -> list[DeviceSample]:
        return [self._look(handle, device) for handle, device in self._handles if wanted is None or device.id in wanted]

    def _look(self, handle: Any, device: Device) -> DeviceSample:
        raise NotImplementedError


@runtime_checkable
class ReportsProcesses(Protocol):
    """Optional interface of a sampler: processes of a device."""

    def computing(self, wanted: Collection[str]) -> Mapping[str, Sequence[int] | None]:
        """Return the process numbers (PIDs) of the processes that compute on each device, by device identifier.

        `wanted`: identifiers of the devices. The value is None for a device that does not report its processes.
        """


class Unavailable(Exception):
    """A sampler cannot be opened on this host. The text is the reason that its library gives.

    `fault`: reason and fix if the host has such accelerators but cannot use them. None on a host without them.
    """

    def __init__(self, reason: str, *, fault: str | None = None) -> None:
        super().__init__(reason)
        self.fault = fault
