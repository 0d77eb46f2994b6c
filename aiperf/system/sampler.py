"""What a sampler of a machine promises, and the values it gives.

A figure that a device cannot give is None, which every reader takes as "not measured"; it is never zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

Kind = Literal["accelerator", "host"]


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that can be sampled: one accelerator, or the host around them."""

    id: str
    """Unique on its host and the same after a restart: the accelerator's UUID, or 'host'."""
    kind: Kind
    index: int = 0
    """The vendor's number of the device on this host."""
    vendor: str | None = None
    model: str | None = None
    """The vendor's own spelling: 'NVIDIA A100-SXM4-80GB'."""
    variant: str | None = None
    """The board: SXM, PCIe, NVL or OAM, where the name or the vendor's library tells."""
    compute_units: int | None = None
    """Streaming multiprocessors or compute units that are switched on, where the vendor's library tells."""
    memory_bytes: int | None = None
    driver: str | None = None
    pci: str | None = None
    """PCI address, domain:bus:device.function."""
    power_cap_watts: float | None = None
    """The limit in force when the device was described."""


class ProcessorTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds of processor time that a host has spent, all its processors together. Counters since a beginning of their own."""

    passed: float
    """Idle time included."""
    programs: float
    """Worked by programs, this run's and all others."""
    own: float
    """Worked by this run's own programs, Ray's processes and those that have ended included, as far as they can be seen
    from the recorder."""
    kernel: float
    """Worked by the kernel for nobody in particular: interrupts and its own threads."""
    stolen: float
    """That the hypervisor gave to other machines."""
    stalled: float | None = None
    """Seconds, not of processor time, in which somebody waited for a processor (/proc/pressure/cpu); None: the kernel does
    not tell."""


class DeviceSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One look at one device. Counters count since a beginning of their own: only their differences mean something."""

    device: str
    """`Device.id`."""
    utilisation: float | None = None
    """0..1, share of the time since the last sample in which the device worked, as its vendor counts it."""
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    """Counter."""
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_celsius: float | None = None
    throttle: tuple[str, ...] | None = None
    """Why the clock is held below its best, by the vendor's names; empty = it is not held, None = not measured."""
    ecc_corrected: int | None = None
    """Counter of memory errors that were corrected."""
    ecc_uncorrected: int | None = None
    """Counter of memory errors that were not: a result computed since may be wrong."""
    processors: ProcessorTime | None = None
    """Of the host, in some looks."""
    foreign: tuple[str, ...] | None = None
    """Programs that compute on the accelerator and are not this run's, each with its number, in some looks; empty = none,
    None = not looked for. Those of other containers cannot be seen."""
    gone: str | None = None
    """The device no longer answers, in its library's words; all else is None."""


class Sampler(Protocol):
    """Looks at some devices of this host. Held open for a whole run; used from one thread."""

    def devices(self) -> Sequence[Device]:
        """The devices that stood here when the sampler was opened."""
        ...

    def sample(self, wanted: Collection[str] | None = None) -> Sequence[DeviceSample]:
        """One look at each of the devices named by id (None: all), in milliseconds; a lost device is `gone`, not an error.

        Devices that are not wanted are not asked: on a host with many workers each recorder looks at its worker's own.
        """
        ...

    def close(self) -> None:
        """Let go of the vendor's library."""
        ...


@runtime_checkable
class TellsProcesses(Protocol):
    """What a sampler may promise besides."""

    def computing(self, wanted: Collection[str]) -> Mapping[str, Sequence[int] | None]:
        """By device, the numbers of the processes that compute on it; None: the device does not tell."""
        ...


class Unavailable(Exception):
    """A sampler that cannot be opened on this host; the text is the reason, in its library's words."""
